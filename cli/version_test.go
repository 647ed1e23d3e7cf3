package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionOrder(t *testing.T) {
	t.Parallel()
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for name, test := range map[string]struct {
		given, stamped, revision, modified string
		want                               string
	}{
		"given":           {given: "v1.2.3", stamped: "v1.0.0", revision: revision, want: "v1.2.3"},
		"tag":             {stamped: "v1.0.0", revision: revision, want: "v1.0.0"},
		"pseudo_version":  {stamped: "v0.0.0-20260101000000-0123456789ab+dirty", revision: revision, modified: "true", want: "v0.0.0-20260101000000-0123456789ab+dirty"},
		"revision":        {stamped: "(devel)", revision: revision, modified: "false", want: "0123456789ab"},
		"dirty_revision":  {revision: revision, modified: "true", want: "0123456789ab+dirty"},
		"short_revision":  {revision: "42", want: "42"},
		"nothing":         {want: "devel"},
		"nothing_stamped": {stamped: "(devel)", want: "devel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := &debug.BuildInfo{Main: debug.Module{Version: test.stamped}, Settings: []debug.BuildSetting{
				{Key: "vcs.revision", Value: test.revision}, {Key: "vcs.modified", Value: test.modified},
			}}
			if got := buildOf(test.given, info).Version; got != test.want {
				t.Errorf("version = %q, want %q", got, test.want)
			}
		})
	}
}

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
		"given":           {given: "1.2.3", stamped: "v1.0.0", revision: revision, want: "1.2.3"},
		"tag":             {stamped: "v1.0.0", revision: revision, want: "1.0.0"},
		"pseudo_version":  {stamped: "v0.0.0-20260101000000-0123456789ab+dirty", revision: revision, modified: "true", want: "0.0.0-20260101000000-0123456789ab+dirty"},
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
			if got := buildOf(build{Version: test.given}, info).Version; got != test.want {
				t.Errorf("version = %q, want %q", got, test.want)
			}
		})
	}
}

// Promise (Releases): version prints the number, the commit and its date
func TestVersionIsWhatTheBuilderGives(t *testing.T) {
	t.Parallel()
	given := build{Version: "1.2.3", Revision: "0123456789abcdef0123456789abcdef01234567", Date: "2026-06-01T12:00:00Z"}
	recorded := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "42"}, {Key: "vcs.time", Value: "2025-01-01T00:00:00Z"}}}
	for _, info := range []*debug.BuildInfo{{}, recorded} {
		if got := buildOf(given, info); got.Version != given.Version || got.Revision != given.Revision || got.Date != given.Date {
			t.Errorf("buildOf(%+v) = %+v", given, got)
		}
	}
	if got := buildOf(build{Version: "1.2.3"}, recorded); got.Revision != "42" || got.Date != "2025-01-01T00:00:00Z" {
		t.Errorf("a binary that is only given a version has revision %q of %q", got.Revision, got.Date)
	}
}

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestHealthByURL: health asks a server without an admin socket over HTTP.
func TestHealthByURL(t *testing.T) {
	t.Parallel()
	answers := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "GET" || r.URL.Path != "/readyz" {
				status = http.StatusTeapot
			}
			w.WriteHeader(status)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	ready, busy, lost := answers(http.StatusOK), answers(http.StatusServiceUnavailable), answers(http.StatusNotFound)
	port := ready[strings.LastIndexByte(ready, ':'):]
	nobody := "http://" + must.FreeAddress(t)
	noSocket := filepath.Join(t.TempDir(), "data")
	for name, test := range map[string]struct {
		listen   string
		args     []string
		wantCode int
		want     string
	}{
		"url_that_is_ready":                {args: []string{"--url", ready}, want: "ready: " + ready + "\n"},
		"url_with_a_slash":                 {args: []string{"--url", ready + "/"}, want: "ready: " + ready + "\n"},
		"json":                             {args: []string{"--url", ready, "--json"}, want: `{"status":"ok","url":"` + ready + `"}` + "\n"},
		"url_that_is_not_ready":            {args: []string{"--url", busy}, wantCode: term.ExitFailed, want: "the server at " + busy + " is not ready"},
		"url_of_another_program":           {args: []string{"--url", lost}, wantCode: term.ExitFailed, want: "answers with status 404"},
		"url_where_nobody_listens":         {args: []string{"--url", nobody}, wantCode: term.ExitUnreachable, want: "no server answers at " + nobody},
		"no_url":                           {args: []string{"--url", "127.0.0.1:8080"}, wantCode: term.ExitUsage, want: "is not the URL of a server"},
		"url_before_the_listener":          {listen: strings.TrimPrefix(nobody, "http://"), args: []string{"--url", ready}, want: "ready: "},
		"listener":                         {listen: strings.TrimPrefix(ready, "http://"), want: "ready: " + ready + "\n"},
		"listener_on_all_addresses":        {listen: "0.0.0.0" + port, want: "ready: " + ready + "\n"},
		"listener_on_any_address":          {listen: port, want: "ready: " + ready + "\n"},
		"first_of_two_listeners":           {listen: "127.0.0.1" + port + " " + strings.TrimPrefix(nobody, "http://"), want: "ready: "},
		"first_of_two_listeners_in_a_list": {listen: "127.0.0.1" + port + "," + strings.TrimPrefix(nobody, "http://"), want: "ready: "},
		"listener_where_nobody_listens":    {listen: strings.TrimPrefix(nobody, "http://"), wantCode: term.ExitUnreachable, want: "no server answers at " + nobody},
		"listener_on_a_free_port":          {listen: "127.0.0.1:0", wantCode: term.ExitUnreachable, want: "no server answers on " + noSocket},
		"no_listener":                      {wantCode: term.ExitUnreachable, want: "no server answers on " + noSocket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs := &strings.Builder{}, &strings.Builder{}
			p := &program{environ: []string{"TOLLHOUSE_LISTEN=" + test.listen}, Console: term.Console{In: strings.NewReader(""), Out: out, Err: errs}}
			root := p.rootCommand()
			root.SetArgs(append([]string{"health", "--data", noSocket}, test.args...))
			root.SetOut(io.Discard)
			code := p.Report(root.ExecuteContext(t.Context()))
			if got := out.String() + errs.String(); code != test.wantCode || !strings.Contains(got, test.want) {
				t.Errorf("exit code %d, %q; want %d with %q", code, got, test.wantCode, test.want)
			}
		})
	}
}

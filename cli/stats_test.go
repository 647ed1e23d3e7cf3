package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestStatsSurviveRestarts: what a server has counted is shown while it runs, after
// SIGTERM without a server, and by the next server.
func TestStatsSurviveRestarts(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	dir := filepath.Join(t.TempDir(), "data")
	served := func() (requests float64) {
		t.Helper()
		out, problem, code := run(t, "stats", "--range", "24h", "--json", "--data", dir)
		if code != 0 {
			t.Fatalf("stats: exit %d, %s", code, problem)
		}
		for line := range strings.Lines(out) {
			var of statsLine
			must.Do(t, json.Unmarshal([]byte(line), &of))
			if n := of.Values["2xx"]; n != nil {
				requests += *n
			}
		}
		return requests
	}
	for start := range 2 {
		s := must.Get(startProcess("", nil, "serve", "--data", dir, "--listen", "127.0.0.1:0"))(t)
		for range 5 {
			answer := must.Get(http.Get(s.text("url") + "/.well-known/oauth-authorization-server"))(t)
			must.Do(t, answer.Body.Close())
		}
		if got, want := served(), float64(5*(start+1)); got != want {
			t.Errorf("start %d: %v requests while the server runs, want %v", start, got, want)
		}
		if code := s.end(); code != 0 {
			t.Fatalf("start %d: the server ended with %d: %s", start, code, s.stderr)
		}
		if got, want := served(), float64(5*(start+1)); got != want {
			t.Errorf("start %d: %v requests after the server has stopped, want %v", start, got, want)
		}
	}
}

package handlers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tollhouse/static"
	"tollhouse/store"
	"tollhouse/store/record"
)

// A server whose database is away refuses at once, says so, and keeps what needs none.
func TestWhileTheDatabaseIsAway(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	a.Faults.Break(record.ErrAway)
	for _, target := range []string{"/api/events", "/readyz"} {
		w := a.get(target, token)
		w.fault(t, http.StatusServiceUnavailable, "temporarily_unavailable", "")
		if got := w.Header().Get("Retry-After"); got != "2" {
			t.Errorf("GET %s: Retry-After = %q, want 2", target, got)
		}
		if !strings.Contains(w.Body.String(), "The database does not answer") {
			t.Errorf("GET %s = %s, want the reason", target, w.Body)
		}
	}
	for _, target := range []string{"/healthz", "/.well-known/oauth-authorization-server", static.Path("style.css")} {
		if w := a.get(target, ""); w.Code != http.StatusOK {
			t.Errorf("GET %s = %d, want 200", target, w.Code)
		}
	}
}

// To end a stream would meet a 503 when its reader comes back, which EventSource takes as
// final.
func TestEventStreamOutlastsTheDatabase(t *testing.T) {
	t.Parallel()
	l := newLive(t, func(s *Server) { s.API.HeartbeatEvery = 20 * time.Millisecond })
	token := l.token(t, "bob", "acct_a", store.ScopeUnstated)
	s := l.open(t, "", token)
	at := s.ready(t)
	isBeat := func(f frame) bool { return f == (frame{comment: ":"}) || f == (frame{id: at}) }
	l.Faults.Break(record.ErrAway)
	if w := l.get("/api/events?order=asc&after=latest&wait=5", token); w.Code != http.StatusServiceUnavailable {
		t.Errorf("the long poll = %d, want 503", w.Code)
	}
	for range 3 {
		if f := s.next(t); !isBeat(f) {
			t.Fatalf("frame = %+v while the database is away, want a heartbeat", f)
		}
	}
	l.Faults.Repair()
	want := l.put("/api/resources/plan/p", token, `{}`).Header().Get("Tollhouse-Event")
	for {
		f := s.next(t)
		if isBeat(f) {
			continue
		}
		if f.id != want {
			t.Errorf("frame = %+v after the database is back, want event %s", f, want)
		}
		return
	}
}

func TestUnknownOutcomeIsSaid(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "harriet.voss", "acct_a", store.ScopeUnstated)
	a.Faults.OnUpdate(func(func() error) error { return record.ErrUnknownOutcome })
	w := a.put("/api/resources/plan/p1", token, `{}`)
	w.fault(t, http.StatusInternalServerError, "server_error", "")
	if !strings.Contains(w.Body.String(), "The outcome is unknown; check before retrying.") {
		t.Errorf("PUT = %s, want that its outcome is unknown", w.Body)
	}
}

// An import that breaks off says up to which line it is done.
func TestImportSaysHowFarItCame(t *testing.T) {
	a := parallelAPI(t)
	a.Rest()
	updates := 0
	a.Faults.OnUpdate(func(run func() error) error {
		if updates++; updates > 2 { // in the midst of batches that are committed together
			return record.ErrAway
		}
		return run()
	})
	var lines strings.Builder
	const count = 6000
	for range count {
		lines.WriteString(line("") + "\n")
	}
	last := a.importFrom(strings.NewReader(lines.String()), "").lastLine(t)
	a.Faults.Repair()
	done, _ := last["lines_done"].(float64)
	recorded := strings.Count(a.admin(http.MethodGet, "/admin/event-export?account=acct_a", nil).Body.String(), "\n")
	if done == 0 || done >= count || int(done) != recorded {
		t.Errorf("the import ends with %v after %d of %d events, want their number", last, recorded, count)
	}
}

func TestSharedServersAnswerForAnotherRelease(t *testing.T) {
	t.Parallel()
	other := strings.Replace(static.Path("style.css"), static.Path("style.css")[len("/static/style."):len("/static/style.")+4], "0000", 1)
	for _, shared := range []bool{false, true} {
		a := newAPI(t)
		a.server.Site.Shared = shared
		w := a.get(other, "")
		if !shared {
			w.fault(t, http.StatusNotFound, "not_found", "")
			continue
		}
		own := a.get(static.Path("style.css"), "")
		if w.Code != http.StatusOK || w.Body.String() != own.Body.String() || w.Header().Get("Content-Type") != own.Header().Get("Content-Type") || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s = %d %v, want our own file, not to be stored", other, w.Code, w.Header())
		}
		for _, strange := range []string{"/static/style.css", "/static/other.0123456789ab.css", "/static/style.0123456789a.css", "/static/style.0123456789ag.css"} {
			a.get(strange, "").fault(t, http.StatusNotFound, "not_found", "")
		}
	}
}

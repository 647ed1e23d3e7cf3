package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// TestACopyOfADatabaseSendsNothing: the database is copied as a dump would be, and both are served.
//
// Promise (Postgres §9): a store that starts in another database or cluster than the last time holds its
// webhooks until webhook resume; one of an earlier release, a restart and a resumed copy do not
func TestACopyOfADatabaseSendsNothing(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	var received atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	t.Cleanup(receiver.Close)
	h := newDatabaseHouse(t)
	serve := func(h house) *process { return start(t, h.args("--webhook-allow", "127.0.0.1")...) }
	put := func(s *process, token string) {
		t.Helper()
		r := must.Get(http.NewRequestWithContext(t.Context(), "PUT", s.text("url")+"/api/resources/customer/c1", strings.NewReader(fmt.Sprintf(`{"displayName":"%d"}`, time.Now().UnixNano()))))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer := must.Get(http.DefaultClient.Do(r))(t)
		defer answer.Body.Close()
		if answer.StatusCode >= 300 {
			t.Fatalf("PUT = %d", answer.StatusCode)
		}
	}
	awaitMore := func(than int64) {
		t.Helper()
		eventually(t, func() (bool, string) { return received.Load() > than, "the receiver has got nothing" })
	}
	held := func(h house) bool {
		t.Helper()
		out, _, _ := h.run(t, "doctor") // a copy that is served beside the original is a problem
		return strings.Contains(out, "the database was found to be another one")
	}
	stop := func(s *process) {
		t.Helper()
		if code := s.end(); code != term.ExitOK {
			t.Errorf("the server ended with %d: %s", code, s.stderr)
		}
	}
	site := func(h house, sql string) { h.postgres.Exec(t, h.store, sql) }

	s := serve(h)
	token := h.tokenOf(t, s)
	h.must(t, "webhook", "create", "--account", "acct_a", "--url", receiver.URL, "--webhook-allow", "127.0.0.1", "--key-file", h.key, "--quiet")
	put(s, token)
	awaitMore(0)
	stop(s)
	s = serve(h)
	if strings.Contains(s.stderr.String(), "database differs") || held(h) {
		t.Errorf("a restart is taken for a copy: %s", s.stderr)
	}
	stop(s)

	copied := h
	u := must.Get(url.Parse(h.store))(t)
	original := strings.TrimPrefix(u.Path, "/")
	h.postgres.Exec(t, h.postgres.DSN("postgres"), "create database "+original+"_copy template "+original)
	u.Path += "_copy"
	copied.store = u.String()
	s = serve(copied)
	before := received.Load()
	put(s, token)
	if !strings.Contains(s.stderr.String(), "database differs from that of the last start") || !held(copied) {
		t.Errorf("the copy is not held: %s", s.stderr)
	}
	time.Sleep(2 * time.Second) // a server that sends takes a fraction of it
	if now := received.Load(); now != before {
		t.Errorf("the copy sent %d requests", now-before)
	}
	if out := copied.must(t, "webhook", "list"); !strings.Contains(out, "held") {
		t.Errorf("webhook list = %s, want held", out)
	}
	original1 := serve(h)
	if held(h) {
		t.Error("the original is held too")
	}
	stop(original1)
	copied.must(t, "webhook", "resume")
	awaitMore(before)
	stop(s)

	for _, c := range []struct {
		name, change string
		resume       bool
		want         bool
	}{
		{"a_resumed_copy", "", false, false},
		{"another_cluster", "update tollhouse.site set value = '1' where name = 'system_identifier'", false, true},
		{"and_once_more", "", false, true},
		{"resumed_before_the_start", "update tollhouse.site set value = '1' where name in ('system_identifier', 'database_oid')", true, false},
		{"an_earlier_release", "delete from tollhouse.site where name in ('system_identifier', 'database_oid')", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != "" {
				site(copied, c.change)
			}
			if c.resume {
				copied.must(t, "webhook", "resume")
			}
			s := serve(copied)
			defer stop(s)
			if is := held(copied); is != c.want {
				t.Errorf("held = %t, want %t", is, c.want)
			}
			_, _, page := get(t, s.text("url")+"/readyz", "")
			if !strings.Contains(page, admin.StateOK) {
				t.Errorf("readyz = %s", page)
			}
		})
	}
}

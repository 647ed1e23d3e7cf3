package server

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// inMemory returns a server that is built but does not serve yet.
func inMemory(t testing.TB) *running {
	t.Helper()
	return built(t, "")
}

// onDisk is inMemory with a store on disk.
func onDisk(t testing.TB) *running {
	t.Helper()
	return built(t, filepath.Join(t.TempDir(), "db"))
}

func built(t testing.TB, dir string) *running {
	t.Helper()
	key := secret.NewKey(nil)
	m := newMetrics()
	k, err := datadir.Open(context.Background(), datadir.Options{Dir: dir, Key: key, Log: quiet, OnHash: m.hashed, OnCommit: m.committed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	listeners := must.Get(listenAll([]string{"127.0.0.1:0"}))(t)
	t.Cleanup(func() { closeAll(listeners) })
	r := &running{log: quiet, logDropped: func() uint64 { return 0 }, listeners: listeners, metrics: m, fatal: make(chan error, 1)}
	r.current.Store(newInstance(k))
	if r.admin, err = datadir.ListenAdmin(filepath.Join(must.ClosedDir(t), datadir.SocketName), quiet); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.admin.Close() })
	r.build(handlers.Config{Key: key})
	return r
}

// TestUnknownOutcome: after a write with an unknown outcome the process ends at once with
// its own exit code, even with open connections.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	ended := make(chan error, 1)
	announced := make(chan struct{})
	go func() { ended <- r.serve(func() { close(announced) }) }()
	<-announced
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Get(r.server().Site.PublicURL() + "/healthz") // leaves a connection open
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	r.fatal <- errors.New("fsync: input/output error")
	select {
	case err := <-ended:
		if f := term.FailureOf(err); f.Code != term.ExitIO || !term.IsFatal(err) {
			t.Errorf("serve = exit %d, %v; want %d", f.Code, err, term.ExitIO)
		}
	case <-time.After(startMax):
		t.Fatal("the server did not end")
	}
	// The process would end here; the test must release the goroutines.
	client.CloseIdleConnections()
	closeAll(r.listeners)
	_ = r.admin.Close()
}

// TestUnknownOutcomeWhileStopping: a write of the last requests in flight may have an
// unknown outcome too.
//
// Promise (Monitoring): a write with an unknown outcome stops the process immediately
func TestUnknownOutcomeWhileStopping(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	closeAll(r.listeners) // a server stops when its listener fails
	err := r.serve(func() {
		r.work.Go(func() {
			for !r.closing.Load() {
				runtime.Gosched()
			}
			r.fatal <- errors.New("fsync: input/output error")
		})
	})
	if f := term.FailureOf(err); f.Code != term.ExitIO || !term.IsFatal(err) {
		t.Errorf("serve = exit %d, %v; want %d", f.Code, err, term.ExitIO)
	}
}

// Promise (Monitoring): /healthz answers; /readyz reports store, disk and clock, reasons to
// operators alone; metrics are not public
func TestReady(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	if got := ask(t, r, "/readyz"); got != http.StatusOK {
		t.Errorf("readyz = %d, want 200", got)
	}
	damage := error(record.ErrCorrupt)
	r.damage.Store(&damage)
	if got := ask(t, r, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("readyz with damage = %d, want 503", got)
	}
	r.damage.Store(nil)
	r.closing.Store(true)
	if got := ask(t, r, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("readyz while stopping = %d, want 503", got)
	}
}

// TestDemoHistory: whenever dev starts, the demo's history ends before that time and has
// every event type of the specification.
func TestDemoHistory(t *testing.T) {
	t.Parallel()
	for _, now := range []time.Time{time.Unix(0, 0).Add(demoAge), time.Unix(1_773_070_200, 0), time.Unix(1_773_070_200, 0).Add(99 * time.Hour), time.Unix(1_790_000_000, 0)} {
		t.Run("at_"+now.UTC().Format(time.DateOnly), func(t *testing.T) {
			t.Parallel()
			r := inMemory(t)
			must.Do(t, seedDemoHistory(t.Context(), r.data().Store, now))
			page, err := r.data().Store.Events.ListEvents(t.Context(), demoAccount, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000}, nil)
			if err != nil || page.Count != demoEvents {
				t.Errorf("listed %d events, %v; want %d", page.Count, err, demoEvents)
			}
			last, err := r.data().Store.Events.ListEvents(t.Context(), demoAccount, eventlog.Filter{From: now.Add(-demoRest).Unix() + 1, To: eventlog.CreatedAtMax, Limit: 1000}, nil)
			if err != nil || last.Count != 0 {
				t.Errorf("%d events, %v, are later than %v before the start; want none", last.Count, err, demoRest)
			}
			for _, typ := range []string{"customer.created", "customer.updated", "account.autoupdate", "transaction.ach_process_error"} {
				page, err := r.data().Store.Events.ListEvents(t.Context(), demoAccount, eventlog.Filter{Types: []string{typ}, To: eventlog.CreatedAtMax, Limit: 1}, nil)
				if err != nil || page.Count == 0 {
					t.Errorf("listed no %s, %v", typ, err)
				}
			}
		})
	}
}

package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/secret"
)

// inMemory returns a server that is built and not yet begun.
func inMemory(t testing.TB) *running {
	t.Helper()
	return built(t, "")
}

// onDisk is inMemory over a directory of the test's own.
func onDisk(t testing.TB) *running {
	t.Helper()
	return built(t, filepath.Join(t.TempDir(), "db"))
}

func built(t testing.TB, dir string) *running {
	t.Helper()
	key := secret.NewKey()
	k, err := openKeep(context.Background(), keepOptions{dir: dir, key: key, log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
	listeners, err := listenAll([]string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(listeners) })
	r := &running{log: quiet, listeners: listeners, keep: k, fatal: make(chan error, 1)}
	if r.admin, err = listenAdmin(filepath.Join(closedDir(t), socketName), quiet); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.admin.Close() })
	r.build(handlers.Config{Key: key})
	return r
}

// TestUnknownOutcome: after a write whose outcome nobody knows, the process
// ends at once, whoever is still connected, and with a code that says so.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	ended := make(chan error, 1)
	announced := make(chan struct{})
	go func() { ended <- r.serve(func() { close(announced) }) }()
	<-announced
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Get(r.server.Issuer() + "/healthz") // leaves a connection open
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	r.fatal <- errors.New("fsync: input/output error")
	select {
	case err := <-ended:
		if f := asFault(err); f.code != exitIO || !isFatal(err) {
			t.Errorf("serve = exit %d, %v; want %d", f.code, err, exitIO)
		}
	case <-time.After(startMax):
		t.Fatal("the server did not end")
	}
	// A test lives on where the process would end: let its goroutines go.
	client.CloseIdleConnections()
	closeAll(r.listeners)
	_ = r.admin.Close()
}

// TestUnknownOutcomeWhileStopping: the last requests in flight may fail too, and
// what they leave behind is no better known.
func TestUnknownOutcomeWhileStopping(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	closeAll(r.listeners) // a server whose listener breaks stops by itself
	err := r.serve(func() {
		r.work.Go(func() {
			for !r.closing.Load() {
				runtime.Gosched()
			}
			r.fatal <- errors.New("fsync: input/output error")
		})
	})
	if f := asFault(err); f.code != exitIO || !isFatal(err) {
		t.Errorf("serve = exit %d, %v; want %d", f.code, err, exitIO)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	ask := func() int {
		answer, err := (&http.Client{Transport: &inProcess{handler: r.server.Public()}}).Get(r.server.Issuer() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode
	}
	if got := ask(); got != http.StatusOK {
		t.Errorf("readyz = %d, want 200", got)
	}
	damage := error(store.ErrCorrupt)
	r.damage.Store(&damage)
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("readyz with damage = %d, want 503", got)
	}
	r.damage.Store(nil)
	r.closing.Store(true)
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("readyz while stopping = %d, want 503", got)
	}
}

// TestDemoHistory: the history is the same for the same time, in order, in the
// past, and all of it is recorded.
func TestDemoHistory(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_773_070_200, 0).UTC()
	if a, b := demoHistory(now), demoHistory(now); len(a) != len(demoSteps) || string(a[20]) != string(b[20]) {
		t.Errorf("two histories of %d and %d events differ", len(a), len(b))
	}
	for i := 1; i < len(demoSteps); i++ {
		if demoSteps[i].ago > demoSteps[i-1].ago || demoSteps[i].ago <= 0 {
			t.Errorf("step %d, %s of %s, is not in order or not in the past", i, demoSteps[i].typ, demoSteps[i].resource)
		}
	}
	ctx := context.Background()
	r := inMemory(t)
	if err := seedDemoHistory(ctx, r.keep.store, r.keep.store.Now()); err != nil {
		t.Fatal(err)
	}
	page, err := r.keep.store.ListEvents(ctx, demoAccount, store.EventFilter{To: store.CreatedAtMax, Limit: 1000}, nil)
	if err != nil || page.Count != len(demoSteps) {
		t.Errorf("listed %d events, %v; want %d", page.Count, err, len(demoSteps))
	}
}

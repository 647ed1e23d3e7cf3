package cli

import (
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// A store whose events lie in the future, although it was written just now, is
// not served unless the operator says so: a time once given is never undone.
//
// Promise (§2.4): the order survives a clock set back; at start, future events are refused unless
// allowed
func TestFutureEvents(t *testing.T) {
	t.Parallel()
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	dir := dirFilled(t, ahead, func(s *store.Store) {
		must.Get(s.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: "acct_a", Type: "plan.created", Resource: "p1", Object: snapshot.ObjectOf()}))(t)
	})
	t.Run("events_of_the_future_are_refused_at_start", func(t *testing.T) {
		_, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		if code != term.ExitBusy || !strings.Contains(stderr, "the newest event of the account acct_a was recorded at ") || !strings.Contains(stderr, "--accept-clock") {
			t.Errorf("serve = exit %d, %s; want %d, the account and the cure", code, stderr, term.ExitBusy)
		}
	})
	t.Run("events_of_the_future_are_taken_with_accept_clock", func(t *testing.T) {
		s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--accept-clock")
		if s.text("url") == "" {
			t.Error("the server does not say where it is")
		}
	})
}

// withoutStarts lets no test start a process until the function it returns is called. A new
// process has a copy of every open file until it runs its program, and so keeps the lock of a
// store that is closed here.
func withoutStarts() (end func()) {
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

// dirFilled returns a data directory whose store was filled at a time.
func dirFilled(t *testing.T, now func() time.Time, fill func(s *store.Store)) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	must.Get(datadir.Prepare(dir, term.ExitConfig, quiet))(t)
	path, _, err := datadir.CurrentStore(dir)
	must.Do(t, err)
	defer withoutStarts()()
	db := must.Get(badgerkv.Open(badgerkv.Options{Dir: path, Now: now, Log: slog.New(slog.DiscardHandler)}))(t)
	fill(must.Get(store.Open(t.Context(), db, store.Options{
		Now: now, Key: secret.NewKey(nil), Hasher: secret.NewHasher(), Lifetimes: store.DefaultLifetimes(), Log: slog.New(slog.DiscardHandler),
	}))(t))
	must.Do(t, db.Close())
	return dir
}

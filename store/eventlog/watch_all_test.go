package eventlog_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func TestWatchAllNamesTheLogsWithNewEvents(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	w := s.Events.WatchAll()
	record := func(owners ...string) {
		for _, owner := range owners {
			must.Get(s.Events.RecordEvent(t.Context(), newEvent(owner, "customer.created", "cus_1")))(t)
		}
	}
	record("acct_b", "acct_a", "acct_b")
	<-w.Changed()
	owners := w.Take()
	if slices.Sort(owners); !slices.Equal(owners, []string{"acct_a", "acct_b"}) {
		t.Errorf("Take = %q, want both owners once", owners)
	}
	if owners := w.Take(); len(owners) > 0 {
		t.Errorf("Take again = %q, want none", owners)
	}
	w.Close()
	record("acct_a")
	if owners := w.Take(); len(owners) > 0 {
		t.Errorf("Take after Close = %q, want none", owners)
	}
}

// The look at all heads is for notes that do not arrive, as those of a command that was
// killed. What an import records is new to readers, however old it is.
func TestWatchAllNamesLogsOfAnotherServerWithoutItsNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := storetest.NewShared()
		shared.LoseNotes()
		a, b := storetest.Two(t, shared.Open(), shared.Open())
		recordOne(t, a, "plan.created")
		w := b.Events.WatchAll()
		defer w.Close()
		<-w.Changed() // the first look
		if owners := w.Take(); !slices.Equal(owners, []string{"acct_a"}) {
			t.Fatalf("Take = %q, want acct_a", owners)
		}
		a.Clock.Advance(30 * 24 * time.Hour)
		storetest.ImportLines(t, a.Store, "acct_a", oldLine(a, "yesterday", 24*time.Hour))
		select {
		case <-w.Changed():
		case <-time.After(time.Minute):
			t.Fatal("the reader was not woken")
		}
		if owners := w.Take(); !slices.Equal(owners, []string{"acct_a"}) {
			t.Errorf("Take = %q, want acct_a", owners)
		}
		select {
		case <-w.Changed():
			t.Errorf("woken again for %q", w.Take())
		case <-time.After(time.Minute):
		}
	})
}

package eventlog_test

import (
	"slices"
	"testing"

	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func TestWatchAllNamesTheLogsWithNewEvents(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	w := s.WatchAll()
	record := func(owners ...string) {
		for _, owner := range owners {
			must.Get(s.RecordEvent(t.Context(), newEvent(owner, "customer.created", "cus_1")))(t)
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

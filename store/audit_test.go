package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// reasons lists what the record has, in order.
func TestAuditOrder(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	for i := range 3 {
		f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: fmt.Sprint("first ", i)})
	}
	f.AuditReasons(t, record.Position{}, 10)
	f.Clock.Advance(-time.Hour) // audit positions never go back with the clock
	f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "later"})
	all, _ := f.AuditReasons(t, record.Position{}, 10)
	if want := "[first 0 first 1 first 2 later]"; fmt.Sprint(all) != want {
		t.Errorf("the record = %v, want %s", all, want)
	}
	page, last := f.AuditReasons(t, record.Position{}, 2)
	rest, _ := f.AuditReasons(t, last, 10)
	if got := append(page, rest...); fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("by pages = %v, want %v", got, all)
	}
}

func TestAuditConcurrently(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	const writers, each = 8, 100
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				f.Audit(store.AuditLine{What: store.AuditLogin, Reason: fmt.Sprint(w, " ", i)})
			}
		})
	}
	all.Wait()
	list, _ := f.AuditReasons(t, record.Position{}, 2*writers*each)
	next := map[string]int{}
	for _, reason := range list {
		var w string
		var i int
		if _, err := fmt.Sscan(reason, &w, &i); err != nil || next[w] != i {
			t.Fatalf("line %q, want number %d of its writer", reason, next[w])
		}
		next[w]++
	}
	if len(list) != writers*each {
		t.Errorf("%d lines, want %d", len(list), writers*each)
	}
}

func TestTrimAudit(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	const day = 24 * time.Hour
	for i := range 1000 { // more than one batch
		f.Audit(store.AuditLine{What: store.AuditLogin, Reason: fmt.Sprint("old ", i)})
	}
	f.AuditReasons(t, record.Position{}, 1)
	f.Clock.Advance(400 * day)
	f.Audit(store.AuditLine{What: store.AuditLogin, Reason: "new"})
	for _, c := range []struct {
		name   string
		retain time.Duration
		want   int
	}{
		{"lines_at_the_age_limit_stay", 400 * day, 1001},
		{"older_lines_go", 400*day - time.Second, 1},
		{"trimming_again_changes_nothing", 400*day - time.Second, 1},
		{"everything_can_go", -time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Do(t, f.TrimAudit(context.Background(), f.Clock.Now().Add(-c.retain)))
			if list, _ := f.AuditReasons(t, record.Position{}, 2000); len(list) != c.want {
				t.Errorf("%d lines are left, want %d", len(list), c.want)
			}
		})
	}
	f.Audit(store.AuditLine{What: store.AuditLogin, Reason: "next"})
	if list, _ := f.AuditReasons(t, record.Position{}, 10); fmt.Sprint(list) != "[next]" {
		t.Errorf("the record = %v, want it to go on", list)
	}
}

// TestAuditOutlivesItsReader: a reader that leaves early loses no line.
func TestAuditOutlivesItsReader(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	f.Rest()
	f.Audit(store.AuditLine{What: store.AuditLogin, Reason: "kept"})
	gone, leave := context.WithCancel(context.Background())
	leave()
	_, _ = f.ListAudit(gone, record.Position{}, 1)
	if list, _ := f.AuditReasons(t, record.Position{}, 10); fmt.Sprint(list) != "[kept]" {
		t.Errorf("the record = %v, want [kept]", list)
	}
}

func TestAllowsOrigin(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	allows := func(t *testing.T, origin string, want bool) {
		t.Helper()
		if got, err := f.AllowsOrigin(context.Background(), origin); err != nil || got != want {
			t.Errorf("AllowsOrigin(%q) = %t, %v; want %t", origin, got, err, want)
		}
	}
	public := func(spec *store.ClientSpec) {
		spec.Public, spec.RedirectURIs = true, []string{"https://spa.example/cb"}
	}
	t.Run("a_new_client_counts_at_once", func(t *testing.T) {
		allows(t, "https://spa.example", false)
		f.Client(t, public)
		allows(t, "https://spa.example", true)
	})
	t.Run("a_deleted_client_no_longer_counts", func(t *testing.T) {
		c, _ := f.Client(t, public, func(spec *store.ClientSpec) { spec.RedirectURIs = []string{"https://gone.example/cb"} })
		allows(t, "https://gone.example", true)
		must.Do(t, f.DeleteClient(context.Background(), c.ID))
		allows(t, "https://gone.example", false)
		allows(t, "https://spa.example", true)
	})
	t.Run("the_clients_are_read_again_only_after_a_change", func(t *testing.T) {
		rows := storetest.CountRows(storetest.EmptyInMemory())
		f := storetest.Open(t, rows, storetest.NewClock())
		c, _ := f.Client(t, public)
		allows := func(origin string) bool {
			return must.Get(f.AllowsOrigin(context.Background(), origin))(t)
		}
		if !allows("https://spa.example") {
			t.Error("the origin of a client is not allowed")
		}
		before := rows.Read()
		f.Clock.Advance(time.Hour)
		if allows("https://other.example") {
			t.Error("an unknown origin is allowed")
		}
		if n := rows.Read() - before; n != 0 {
			t.Errorf("without a change, %d clients were read again, want none", n)
		}
		name := "Another name"
		must.Get(f.UpdateClient(context.Background(), c.ID, store.ClientChange{Name: &name}))(t)
		before = rows.Read()
		allows("https://other.example")
		if n := rows.Read() - before; n != 0 {
			t.Errorf("after a change of a name, %d clients were read again, want none", n)
		}
		must.Get(f.DisableClient(context.Background(), c.ID))(t)
		if allows("https://spa.example") {
			t.Error("the origin of a disabled client is allowed")
		}
	})
}

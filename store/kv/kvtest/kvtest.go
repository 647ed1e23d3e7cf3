// Package kvtest is the conformance suite for every engine of [kv.DB]: a case for each
// line of the contract, then random histories compared with the reference model, then
// concurrent goroutines.
//
// An engine's own test is ten lines: it calls [Run] with a function that opens an
// empty store.
package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tollhouse/store/kv"
)

// Run tests the engine that open returns. open is called once per case with the case's
// own t and returns an empty store; it cleans up with t.Cleanup. Run closes the store.
func Run(t *testing.T, open func(t *testing.T) kv.DB) {
	cases := []struct {
		name string
		run  func(*testing.T, kv.DB)
	}{
		{"contract_1_a_transaction_sees_its_own_writes", ownWrites},
		{"contract_1_a_scan_shows_the_writes_before_its_loop", writesInsideLoop},
		{"contract_2_an_error_leaves_no_trace", errorLeavesNoTrace},
		{"contract_2_a_panic_surfaces_and_leaves_no_trace", panicSurfaces},
		{"contract_3_updates_are_serial_over_a_key_that_is_present", serialPresent},
		{"contract_3_updates_are_serial_over_a_key_that_is_absent", serialAbsent},
		{"contract_4_nothing_expires_before_its_time", expiry},
		{"contract_5_ranges_are_half_open_for_keys_of_any_bytes", ranges},
		{"contract_6_limits_are_exact", limits},
		{"contract_6_a_refused_write_is_not_counted", refusedWriteNotCounted},
		{"contract_6_a_key_that_no_engine_can_hold_panics", impossibleKeys},
		{"contract_6_written_is_what_keys_and_values_take_in_every_class", written},
		{"contract_7_a_cancelled_context_writes_nothing", cancelledContext},
		{"contract_7_a_closed_store_is_unavailable", closedStore},
		{"contract_8_an_open_view_keeps_its_snapshot_and_delays_no_one", openView},
		{"a_view_sees_every_acknowledged_update", viewSeesUpdate},
		{"values_are_copied_and_stay_unchanged", valuesAreCopied},
		{"get_many_yields_what_is_present_in_order", getMany},
		{"update_each_runs_in_order_and_each_sees_those_before", eachInOrder},
		{"update_each_gives_each_its_own_limits", eachOwnLimits},
		{"a_bounded_update_writes_no_more", bounded},
		{"update_each_ends_with_the_first_that_fails_and_keeps_those_before", eachEndsWithAFailure},
		{"update_each_lets_a_panic_surface", eachPanics},
		{"update_each_runs_none_when_cancelled_or_closed", eachRefused},
		{"update_each_never_shows_a_later_one_without_an_earlier", eachNeverLaterAlone},
		{"shared_views_see_what_was_there_and_their_own_updates", sharedViews},
		{"named_keys_change_nothing", namedKeys},
		{"pull_gives_what_a_scan_does", pullIsAScan},
		{"pull_reads_several_ranges_at_once", pullSeveral},
		{"pull_stops_early", pullStops},
		{"histories_equal_those_of_the_model", histories},
		{"a_sum_moved_by_many_writers_stays_whole", movedSum},
		{"a_snapshot_is_of_one_moment_and_loads_into_another_store", func(t *testing.T, db kv.DB) {
			into := open(t)
			defer into.Close()
			snapshots(t, db, into)
		}},
		{"a_held_version_stays_as_it_was", holds},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			c.run(t, db)
			if err := db.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
		})
	}
}

func ownWrites(t *testing.T, db kv.DB) {
	put(t, db, "a", "old", "b", "old", "d", "old")
	update(t, db, func(tx kv.Txn) error {
		set(tx, "a", "new")
		set(tx, "c", "new")
		remove(tx, "b")
		remove(tx, "absent")
		wantValue(t, tx, "a", "new")
		wantAbsent(t, tx, "b")
		wantValue(t, tx, "c", "new")
		wantValue(t, tx, "d", "old")
		wantScan(t, tx, kv.Range{}, "a=new", "c=new", "d=old")
		wantScan(t, tx, kv.Range{Reverse: true}, "d=old", "c=new", "a=new")
		wantScan(t, tx, kv.Range{Limit: 2}, "a=new", "c=new")
		wantScan(t, tx, kv.Range{KeysOnly: true}, "a=", "c=", "d=")
		wantScan(t, tx, kv.Range{Lo: []byte("b"), Hi: []byte("d")}, "c=new")

		remove(tx, "c")
		set(tx, "b", "again")
		wantScan(t, tx, kv.Range{}, "a=new", "b=again", "d=old")
		return nil
	})
	wantContent(t, db, "a=new", "b=again", "d=old")
}

func writesInsideLoop(t *testing.T, db kv.DB) {
	put(t, db, "a", "1", "b", "2", "c", "3")
	update(t, db, func(tx kv.Txn) error {
		set(tx, "d", "4")
		var seen []string
		for key, value := range tx.Scan(kv.Range{}) {
			seen = append(seen, fmt.Sprintf("%s=%s", key, value))
			remove(tx, string(key))
			set(tx, "c", "changed")
			set(tx, "e", "added")
		}
		want := []string{"a=1", "b=2", "c=3", "d=4"}
		if !slices.Equal(seen, want) {
			t.Errorf("Scan with writes in its loop = %q, want %q", seen, want)
		}
		wantScan(t, tx, kv.Range{}, "c=changed", "e=added")
		return nil
	})
	wantContent(t, db, "c=changed", "e=added")
}

func errorLeavesNoTrace(t *testing.T, db kv.DB) {
	put(t, db, "a", "1", "b", "2")
	refused := errors.New("refused")
	err := db.Update(t.Context(), func(tx kv.Txn) error {
		set(tx, "a", "changed")
		remove(tx, "b")
		set(tx, "c", "added")
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("Update(refused) = %v, want %v", err, refused)
	}
	wantContent(t, db, "a=1", "b=2")

	err = db.View(t.Context(), func(kv.Reader) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("View(refused) = %v, want %v", err, refused)
	}
}

func panicSurfaces(t *testing.T, db kv.DB) {
	put(t, db, "a", "1")
	type broken struct{ reason string }
	recovered := func(run func()) (value any) {
		defer func() { value = recover() }()
		run()
		return nil
	}

	got := recovered(func() {
		_ = db.Update(t.Context(), func(tx kv.Txn) error {
			set(tx, "a", "changed")
			panic(broken{"in update"})
		})
	})
	if got != (broken{"in update"}) {
		t.Errorf("Update(panic) surfaced %v, want the value of the panic", got)
	}
	got = recovered(func() {
		_ = db.View(t.Context(), func(kv.Reader) error { panic(broken{"in view"}) })
	})
	if got != (broken{"in view"}) {
		t.Errorf("View(panic) surfaced %v, want the value of the panic", got)
	}

	wantContent(t, db, "a=1")
	put(t, db, "b", "2")
	wantContent(t, db, "a=1", "b=2")
}

func expiry(t *testing.T, db kv.DB) {
	future := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
	past := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	update(t, db, func(tx kv.Txn) error {
		check(tx.Set([]byte("forever"), []byte("1"), time.Time{}))
		check(tx.Set([]byte("later"), []byte("2"), future))
		check(tx.Set([]byte("renewed"), []byte("3"), past))
		check(tx.Set([]byte("gone"), []byte("4"), past))
		wantValue(t, tx, "gone", "4")
		return nil
	})
	put(t, db, "renewed", "5")
	err := db.View(t.Context(), func(r kv.Reader) error {
		wantValue(t, r, "forever", "1")
		wantValue(t, r, "later", "2")
		wantValue(t, r, "renewed", "5")
		// An expired key may or may not exist, but never with another value.
		value, err := r.Get([]byte("gone"))
		if !errors.Is(err, kv.ErrNotFound) && string(value) != "4" {
			t.Errorf("Get(expired) = %q, %v, want its value or ErrNotFound", value, err)
		}
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
}

func cancelledContext(t *testing.T, db kv.DB) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	err := db.Update(ctx, func(tx kv.Txn) error {
		ran = true
		return tx.Set([]byte("a"), []byte("1"), time.Time{})
	})
	if !errors.Is(err, context.Canceled) || ran {
		t.Errorf("Update(cancelled) = %v, ran %t; want context.Canceled, not run", err, ran)
	}
	if err := db.View(ctx, func(kv.Reader) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("View(cancelled) = %v, want context.Canceled", err)
	}
	wantContent(t, db)
}

func closedStore(t *testing.T, db kv.DB) {
	put(t, db, "a", "1")
	if err := db.Close(); err != nil {
		t.Fatalf("Close() = %v, want nil", err)
	}
	if err := db.View(t.Context(), func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("View(closed) = %v, want ErrUnavailable", err)
	}
	if err := db.Update(t.Context(), func(kv.Txn) error { return nil }); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("Update(closed) = %v, want ErrUnavailable", err)
	}
}

func viewSeesUpdate(t *testing.T, db kv.DB) {
	for i := range 200 {
		value := fmt.Sprint(i)
		put(t, db, "a", value)
		wantContent(t, db, "a="+value)
	}
}

func valuesAreCopied(t *testing.T, db kv.DB) {
	update(t, db, func(tx kv.Txn) error {
		key, value := []byte("a"), []byte("first")
		check(tx.Set(key, value, time.Time{}))
		copy(key, "z")
		copy(value, "XXXXX")
		before, err := tx.Get([]byte("a"))
		check(err)
		set(tx, "a", "second")
		remove(tx, "a")
		set(tx, "a", "third")
		if string(before) != "first" {
			t.Errorf("Get before later writes = %q, want it unchanged", before)
		}
		return nil
	})
	put(t, db, "empty", "")
	wantContent(t, db, "a=third", "empty=")
}

func getMany(t *testing.T, db kv.DB) {
	put(t, db, "a", "1", "c", "3")
	keys := [][]byte{[]byte("c"), []byte("b"), []byte("a"), []byte("d"), []byte("c")}
	update(t, db, func(tx kv.Txn) error {
		set(tx, "d", "4")
		remove(tx, "a")
		var got []string
		for i, value := range tx.GetMany(keys) {
			got = append(got, fmt.Sprintf("%d=%s", i, value))
		}
		if want := []string{"0=3", "3=4", "4=3"}; !slices.Equal(got, want) {
			t.Errorf("GetMany() = %q, want %q", got, want)
		}
		for i := range tx.GetMany(keys) {
			if i != 0 {
				t.Errorf("GetMany went on to %d after break", i)
			}
			break
		}
		return nil
	})
}

// put stores pairs of key and value in one Update.
func put(t *testing.T, db kv.DB, pairs ...string) {
	t.Helper()
	update(t, db, func(tx kv.Txn) error {
		for i := 0; i < len(pairs); i += 2 {
			set(tx, pairs[i], pairs[i+1])
		}
		return nil
	})
}

func update(t *testing.T, db kv.DB, fn func(kv.Txn) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Errorf("Update() = %v, want nil", err)
	}
}

func wantContent(t *testing.T, db kv.DB, want ...string) {
	t.Helper()
	err := db.View(t.Context(), func(r kv.Reader) error {
		t.Helper()
		wantScan(t, r, kv.Range{}, want...)
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
}

func wantScan(t *testing.T, r kv.Reader, rng kv.Range, want ...string) {
	t.Helper()
	var got []string
	for key, value := range r.Scan(rng) {
		got = append(got, fmt.Sprintf("%s=%s", key, value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("Scan(%s) = %q, want %q", show(rng), got, want)
	}
}

func wantValue(t *testing.T, r kv.Reader, key, want string) {
	t.Helper()
	got, err := r.Get([]byte(key))
	if err != nil || !bytes.Equal(got, []byte(want)) {
		t.Errorf("Get(%q) = %q, %v, want %q", key, got, err, want)
	}
}

func wantAbsent(t *testing.T, r kv.Reader, key string) {
	t.Helper()
	if got, err := r.Get([]byte(key)); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get(%q) = %q, %v, want ErrNotFound", key, got, err)
	}
}

func set(tx kv.Txn, key, value string) {
	check(tx.Set([]byte(key), []byte(value), time.Time{}))
}

func remove(tx kv.Txn, key string) {
	check(tx.Delete([]byte(key)))
}

// check fails the running case on an unexpected error. It panics, and a panic surfaces
// in the caller of Update.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func show(r kv.Range) string {
	hi := "end"
	if r.Hi != nil {
		hi = fmt.Sprintf("%q", r.Hi)
	}
	return fmt.Sprintf("[%q, %s) reverse=%t keysOnly=%t limit=%d", r.Lo, hi, r.Reverse, r.KeysOnly, r.Limit)
}

package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/kv"
)

// The cases of [kv.UpdateEach], one for each promise.

func wantEnds(t *testing.T, ends []error, want ...error) {
	t.Helper()
	if len(ends) != len(want) {
		t.Fatalf("UpdateEach() returned %d outcomes, want %d", len(ends), len(want))
	}
	for i, end := range ends {
		if !errors.Is(end, want[i]) || want[i] == nil && end != nil {
			t.Errorf("update %d = %v, want %v", i, end, want[i])
		}
	}
}

func setting(key, value string) func(kv.Txn) error {
	return func(tx kv.Txn) error { return tx.Set([]byte(key), []byte(value), time.Time{}) }
}

func eachInOrder(t *testing.T, db kv.DB) {
	wantEnds(t, kv.UpdateEach(t.Context(), db, nil))
	var fns []func(kv.Txn) error
	var want []error
	for n := range 50 {
		want = append(want, nil)
		fns = append(fns, func(tx kv.Txn) error {
			before := "absent"
			if v, err := tx.Get([]byte("n")); err == nil {
				before = string(v)
			}
			if seen := map[bool]string{true: fmt.Sprint(n - 1), false: "absent"}[n > 0]; before != seen {
				t.Errorf("update %d finds %s, want %s", n, before, seen)
			}
			return setting("n", fmt.Sprint(n))(tx)
		})
	}
	wantEnds(t, kv.UpdateEach(t.Context(), db, fns), want...)
	wantContent(t, db, "n=49")
}

// eachOwnLimits fills every update to its limit: the sum is far over it.
func eachOwnLimits(t *testing.T, db kv.DB) {
	var fns []func(kv.Txn) error
	for n := range 3 {
		fns = append(fns, func(tx kv.Txn) error {
			for i := range kv.UpdateWritesMax {
				if err := setting(fmt.Sprintf("%d-%04d", n, i), "")(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	over := func(tx kv.Txn) error { return errors.Join(fns[0](tx), setting("one more", "")(tx)) }
	wantEnds(t, kv.UpdateEach(t.Context(), db, append(fns, over)), nil, nil, nil, kv.ErrTooLarge)
	err := db.View(t.Context(), func(r kv.Reader) error {
		n := 0
		for range r.Scan(kv.Range{KeysOnly: true}) {
			n++
		}
		if n != 3*kv.UpdateWritesMax {
			t.Errorf("%d keys exist, want %d", n, 3*kv.UpdateWritesMax)
		}
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
}

// bounded writes up to the bound and past it, alone and with others.
func bounded(t *testing.T, db kv.DB) {
	const most = 1000
	ctx := kv.Bounded(t.Context(), most)
	fitting := setting("a", strings.Repeat("v", most-1))
	over := func(tx kv.Txn) error { return errors.Join(fitting(tx), setting("b", "")(tx)) }
	if err := db.Update(ctx, over); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("Update() of %d bytes in a context of %d = %v, want ErrTooLarge", most+1, most, err)
	}
	wantEnds(t, kv.UpdateEach(ctx, db, []func(kv.Txn) error{fitting, fitting, over, fitting}), nil, nil, kv.ErrTooLarge, kv.ErrSkipped)
	if err := db.Update(t.Context(), over); err != nil {
		t.Errorf("Update() without a bound = %v, want nil", err)
	}
}

func eachEndsWithAFailure(t *testing.T, db kv.DB) {
	refused := errors.New("refused")
	ran := false
	wantEnds(t, kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{
		setting("a", "1"),
		func(tx kv.Txn) error { return errors.Join(setting("a", "2")(tx), setting("b", "2")(tx), refused) },
		func(tx kv.Txn) error { ran = true; return setting("c", "3")(tx) },
		setting("d", "4"),
	}), nil, refused, kv.ErrSkipped, kv.ErrSkipped)
	if ran {
		t.Error("an update after the failed one ran")
	}
	wantContent(t, db, "a=1")
	wantEnds(t, kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{setting("a", "5")}), nil)
	wantContent(t, db, "a=5")
}

func eachPanics(t *testing.T, db kv.DB) {
	got := func() (value any) {
		defer func() { value = recover() }()
		kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{
			setting("a", "1"),
			func(tx kv.Txn) error { check(setting("b", "2")(tx)); panic("in the second") },
			setting("c", "3"),
		})
		return nil
	}()
	if got != "in the second" {
		t.Errorf("UpdateEach(panic) surfaced %v, want the value of the panic", got)
	}
	wantContent(t, db, "a=1")
}

func eachRefused(t *testing.T, db kv.DB) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fns := []func(kv.Txn) error{setting("a", "1"), setting("b", "2")}
	wantEnds(t, kv.UpdateEach(ctx, db, fns), context.Canceled, kv.ErrSkipped)
	wantContent(t, db)
	if err := db.Close(); err != nil {
		t.Fatalf("Close() = %v, want nil", err)
	}
	wantEnds(t, kv.UpdateEach(t.Context(), db, fns), kv.ErrUnavailable, kv.ErrSkipped)
}

// eachNeverLaterAlone checks during rounds of updates that a later update's write is
// never visible without the earlier ones'.
func eachNeverLaterAlone(t *testing.T, db kv.DB) {
	const roundsMin, roundsMax, looksMin, keys, lookers = 10, 2_000, 400, 12, 2
	name := func(i int) string { return fmt.Sprintf("k%02d", i) }
	var looks atomic.Int32
	var written atomic.Bool
	race(func(racer int) {
		if racer == 0 {
			defer written.Store(true)
			for round := 1; round <= roundsMin || round <= roundsMax && looks.Load() < looksMin; round++ {
				var fns []func(kv.Txn) error
				for i := range keys {
					fns = append(fns, setting(name(i), fmt.Sprintf("%04d", round)))
				}
				for i, err := range kv.UpdateEach(t.Context(), db, fns) {
					if err != nil {
						t.Errorf("update %d = %v, want nil", i, err)
					}
				}
			}
			return
		}
		for !written.Load() && racer <= lookers { // more would only keep the writer waiting
			err := db.View(t.Context(), func(r kv.Reader) error {
				var seen []string
				for i := range keys {
					v, err := r.Get([]byte(name(i)))
					if err != nil && !errors.Is(err, kv.ErrNotFound) {
						return err
					}
					seen = append(seen, string(v))
				}
				if falling := slices.IsSortedFunc(seen, func(a, b string) int { return strings.Compare(b, a) }); !falling {
					t.Errorf("a View finds the rounds %q: a later update without one before it", seen)
				}
				return nil
			})
			if err != nil {
				t.Errorf("View() = %v, want nil", err)
			}
			looks.Add(1)
		}
	})
}

package badgerkv

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv"
)

func setOne(key, value string) func(kv.Txn) error {
	return func(tx kv.Txn) error { return tx.Set([]byte(key), []byte(value), time.Time{}) }
}

func TestUpdateEach(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	t.Run("runs_in_order_and_each_sees_those_before", func(t *testing.T) {
		t.Parallel()
		db := mustOpen(t, Options{InMemory: true})
		var fns []func(kv.Txn) error
		for n := range byte(20) {
			fns = append(fns, func(tx kv.Txn) error {
				was, err := tx.Get([]byte("a"))
				if (n == 0) != errors.Is(err, kv.ErrNotFound) || n > 0 && was[0] != n-1 {
					t.Errorf("update %d finds %v, %v", n, was, err)
				}
				return tx.Set([]byte("a"), []byte{n}, time.Time{})
			})
		}
		for i, err := range kv.UpdateEach(t.Context(), db, fns) {
			if err != nil {
				t.Errorf("update %d = %v, want nil", i, err)
			}
		}
		wantValue(t, db, "a", "\x13")
	})
	t.Run("ends_with_the_first_that_fails", func(t *testing.T) {
		t.Parallel()
		db := mustOpen(t, Options{InMemory: true})
		ends := kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{
			setOne("a", "1"), func(tx kv.Txn) error { return errors.Join(setOne("b", "1")(tx), refused) }, setOne("c", "1"), setOne("d", "1"),
		})
		for i, want := range []error{nil, refused, kv.ErrSkipped, kv.ErrSkipped} {
			if !errors.Is(ends[i], want) {
				t.Errorf("update %d = %v, want %v", i, ends[i], want)
			}
		}
		wantValue(t, db, "a", "1")
		for _, key := range []string{"b", "c", "d"} {
			wantAbsent(t, db, key)
		}
	})
	t.Run("shares_one_commit", func(t *testing.T) {
		t.Parallel()
		g := newGate()
		db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
		var all sync.WaitGroup
		all.Go(func() { put(t, db, "first", "1") })
		<-g.began
		all.Go(func() {
			for i, err := range kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{setOne("a", "1"), setOne("b", "1"), setOne("c", "1")}) {
				if err != nil {
					t.Errorf("update %d = %v, want nil", i, err)
				}
			}
		})
		waitQueued(t, db, 3)
		g.pass <- nil
		<-g.began // one commit for the three: a second would wait at the gate for ever
		g.pass <- nil
		all.Wait()
		wantValue(t, db, "c", "1")
	})
	t.Run("withdraws_all_of_it_together", func(t *testing.T) {
		t.Parallel()
		g := newGate()
		db := mustOpen(t, Options{InMemory: true, commitAt: g.commitAt})
		var all sync.WaitGroup
		all.Go(func() { put(t, db, "first", "1") })
		<-g.began
		ctx, cancel := context.WithCancel(t.Context())
		var withdrawn sync.WaitGroup
		withdrawn.Go(func() {
			for i, err := range kv.UpdateEach(ctx, db, []func(kv.Txn) error{setOne("a", "1"), setOne("b", "1")}) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("update %d = %v, want context.Canceled", i, err)
				}
			}
		})
		waitQueued(t, db, 2)
		cancel()
		withdrawn.Wait()
		g.pass <- nil
		all.Wait()
		wantAbsent(t, db, "a")
		wantAbsent(t, db, "b")
	})
	t.Run("a_closed_store_refuses_the_first_and_skips_the_rest", func(t *testing.T) {
		t.Parallel()
		db := mustOpen(t, Options{InMemory: true})
		mustClose(t, db)
		ends := kv.UpdateEach(t.Context(), db, []func(kv.Txn) error{setOne("a", "1"), setOne("b", "1")})
		if !errors.Is(ends[0], kv.ErrUnavailable) || !errors.Is(ends[1], kv.ErrSkipped) {
			t.Errorf("UpdateEach(closed) = %v, want ErrUnavailable and ErrSkipped", ends)
		}
	})
}

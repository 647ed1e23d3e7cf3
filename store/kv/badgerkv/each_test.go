package badgerkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
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
	t.Run("shares_one_commit_if_its_bound_lets_it_fit", func(t *testing.T) {
		t.Parallel()
		const updates, values = 6, 3
		value := strings.Repeat("v", 60<<10)
		for ctx, want := range map[context.Context]int{t.Context(): updates, kv.Bounded(t.Context(), values*len(value)+1<<10): 1} {
			g := newGate()
			db := mustOpen(t, Options{Dir: t.TempDir(), commitAt: g.commitAt})
			var fns []func(kv.Txn) error
			for n := range updates {
				fns = append(fns, func(tx kv.Txn) (err error) {
					for i := range values {
						err = errors.Join(err, setOne(fmt.Sprint(n, i), value)(tx))
					}
					return err
				})
			}
			first, each := make(chan error, 1), make(chan error, 1)
			go func() { first <- db.Update(t.Context(), setOne("first", "1")) }()
			<-g.began
			go func() { each <- errors.Join(kv.UpdateEach(ctx, db, fns)...) }()
			waitQueued(t, db, updates)
			g.pass <- nil
			for commits := 0; ; {
				select {
				case <-g.began:
					commits++
					g.pass <- nil
					continue
				case err := <-each:
					if err != nil || commits != want {
						t.Errorf("UpdateEach() = %v with %d commits, want %d", err, commits, want)
					}
				}
				break
			}
			must.Do(t, <-first)
		}
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

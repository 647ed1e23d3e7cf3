package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"tollhouse/store/kv"
)

// RunShared tests an engine that several processes open at the same time. open2 is called once per
// case and returns two handles on the same empty store; it cleans up with t.Cleanup.
// RunShared closes both. Each case also is one for a single handle: whatever one handle
// acknowledged, the other sees.
func RunShared(t *testing.T, open2 func(t *testing.T) (a, b kv.DB)) {
	cases := []struct {
		name string
		run  func(t *testing.T, a, b kv.DB)
	}{
		{"updates_in_turns_read_each_others_writes", readEachOther},
		{"a_counter_loses_no_update", sharedCounter},
		{"a_name_is_created_once", sharedUnique},
		{"write_skew_over_present_keys_is_prevented", skewPresent},
		{"write_skew_over_absent_keys_is_prevented", skewAbsent},
		{"a_views_snapshot_stands_while_the_other_writes", sharedSnapshot},
		{"update_each_keeps_its_order_beside_the_other", sharedEach},
		{"a_value_that_the_other_changed_is_not_read_from_memory", sharedStale},
		{"histories_alternating_between_both_equal_those_of_the_model", sharedHistories},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := open2(t)
			c.run(t, a, b)
			for _, db := range []kv.DB{a, b} {
				if err := db.Close(); err != nil {
					t.Errorf("Close() = %v, want nil", err)
				}
			}
		})
	}
}

// turns returns a and b alternately.
func turns(a, b kv.DB, i int) kv.DB { return [2]kv.DB{a, b}[i%2] }

func readEachOther(t *testing.T, a, b kv.DB) {
	for i := range 100 {
		value := strconv.Itoa(i)
		put(t, turns(a, b, i), "a", value)
		wantContent(t, turns(a, b, i+1), "a="+value)
		if seen := kept(t, turns(a, b, i+1), "a"); seen != value {
			t.Fatalf("an Update after %q was acknowledged by the other reads %q", value, seen)
		}
	}
}

// kept returns the value that the last run of an Update reads.
func kept(t *testing.T, db kv.DB, key string) (seen string) {
	t.Helper()
	update(t, db, func(tx kv.Txn) error {
		value, err := tx.Get([]byte(key))
		seen = string(value)
		if errors.Is(err, kv.ErrNotFound) {
			seen = "absent"
			return nil
		}
		return err
	})
	return seen
}

func sharedCounter(t *testing.T, a, b kv.DB) {
	put(t, a, "n", "0")
	race(func(racer int) {
		for range racerUpdates {
			update(t, turns(a, b, racer), func(tx kv.Txn) error {
				set(tx, "n", strconv.Itoa(number(tx, "n")+1))
				return nil
			})
		}
	})
	for i := range 2 {
		wantContent(t, turns(a, b, i), "n="+strconv.Itoa(racers*racerUpdates))
	}
}

func sharedUnique(t *testing.T, a, b kv.DB) {
	errTaken := errors.New("taken")
	for round := range racerUpdates {
		key := fmt.Sprintf("name-%02d", round)
		var created atomic.Int32
		race(func(racer int) {
			err := turns(a, b, racer).Update(t.Context(), func(tx kv.Txn) error {
				if _, err := tx.Get([]byte(key)); !errors.Is(err, kv.ErrNotFound) {
					return errTaken
				}
				set(tx, key, strconv.Itoa(racer))
				return nil
			})
			switch {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, errTaken):
				t.Errorf("Update() = %v, want nil or taken", err)
			}
		})
		if n := created.Load(); n != 1 {
			t.Fatalf("%d racers created %q, want 1", n, key)
		}
	}
}

const skewRounds = 60

// skewPresent: of two purses one may be emptied, if the other is not. Each racer reads
// both and empties its own.
func skewPresent(t *testing.T, a, b kv.DB) {
	for round := range skewRounds {
		put(t, turns(a, b, round), "left", "1", "right", "1")
		bothWays(func(i int) {
			update(t, turns(a, b, i), func(tx kv.Txn) error {
				if number(tx, "left")+number(tx, "right") > 1 {
					set(tx, []string{"left", "right"}[i], "0")
				}
				return nil
			})
		})
		for i := range 2 {
			if left, right := kept(t, turns(a, b, i), "left"), kept(t, turns(a, b, i), "right"); left == right {
				t.Fatalf("round %d ends with left=%s and right=%s, want one emptied", round, left, right)
			}
		}
	}
}

// skewAbsent: each racer writes its key if the other's is absent.
func skewAbsent(t *testing.T, a, b kv.DB) {
	for round := range skewRounds {
		keys := []string{fmt.Sprintf("left-%02d", round), fmt.Sprintf("right-%02d", round)}
		bothWays(func(i int) {
			update(t, turns(a, b, i), func(tx kv.Txn) error {
				if _, err := tx.Get([]byte(keys[1-i])); errors.Is(err, kv.ErrNotFound) {
					set(tx, keys[i], "first")
				}
				return nil
			})
		})
		for i := range 2 {
			if left, right := kept(t, turns(a, b, i), keys[0]), kept(t, turns(a, b, i), keys[1]); (left == "absent") == (right == "absent") {
				t.Fatalf("round %d ends with left=%s and right=%s, want one of them", round, left, right)
			}
		}
	}
}

// bothWays runs fn(0) and fn(1) concurrently.
func bothWays(fn func(i int)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(1)
	}()
	fn(0)
	<-done
}

func sharedSnapshot(t *testing.T, a, b kv.DB) {
	put(t, a, "a", "1", "b", "2")
	err := b.View(t.Context(), func(r kv.Reader) error {
		wantValue(t, r, "b", "2")
		for i := range 20 {
			put(t, turns(a, b, i), "a", strconv.Itoa(i), "c", strconv.Itoa(i))
		}
		update(t, a, func(tx kv.Txn) error { remove(tx, "b"); return nil })
		wantScan(t, r, kv.Range{}, "a=1", "b=2")
		wantValue(t, r, "a", "1")
		wantAbsent(t, r, "c")
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
	wantContent(t, b, "a=19", "c=19")
}

// sharedEach has both append to one list: the marks of each are in its order.
func sharedEach(t *testing.T, a, b kv.DB) {
	const marks = 100
	put(t, a, "list", "")
	bothWays(func(i int) {
		var fns []func(kv.Txn) error
		for n := range marks {
			fns = append(fns, func(tx kv.Txn) error {
				kv.Prefetch(tx, [][]byte{[]byte("list")})
				list, err := tx.Get([]byte("list"))
				if err != nil {
					return err
				}
				set(tx, "list", string(list)+string([]byte{byte(i), byte(n)}))
				return nil
			})
		}
		for n, err := range kv.UpdateEach(t.Context(), turns(a, b, i), fns) {
			if err != nil {
				t.Errorf("update %d = %v, want nil", n, err)
			}
		}
	})
	list := []byte(kept(t, a, "list"))
	next := [2]byte{}
	for pair := range slices.Chunk(list, 2) {
		if pair[1] != next[pair[0]] {
			t.Fatalf("mark %d of %d comes when %d is next", pair[1], pair[0], next[pair[0]])
		}
		next[pair[0]]++
	}
	if len(list) != 4*marks {
		t.Errorf("the list has %d marks, want %d", len(list)/2, 2*marks)
	}
}

// sharedStale has each handle write what it read, after the other changed it.
func sharedStale(t *testing.T, a, b kv.DB) {
	put(t, a, "n", "0", "copy", "0")
	put(t, b, "n", "0", "copy", "0")
	for i := range 50 {
		put(t, turns(a, b, i), "n", strconv.Itoa(i))
		update(t, turns(a, b, i+1), func(tx kv.Txn) error {
			set(tx, "copy", strconv.Itoa(number(tx, "n")))
			return nil
		})
		wantContent(t, turns(a, b, i), "copy="+strconv.Itoa(i), "n="+strconv.Itoa(i))
	}
}

func sharedHistories(t *testing.T, a, b kv.DB) {
	model := &model{}
	for seed := range uint64(historySeeds) {
		random := rand.New(rand.NewPCG(seed, 0x71))
		for n := range historyUpdates {
			steps := randomSteps(random)
			fail := random.IntN(5) == 0
			got, want := play(t, turns(a, b, n), steps, fail), play(t, model, steps, fail)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, update %d: %s", seed, n, difference(got, want))
			}
			got, want = look(t, turns(a, b, n+1), steps), look(t, model, steps)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, view after update %d: %s", seed, n, difference(got, want))
			}
		}
	}
}

package kvtest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/store/kv"
)

const (
	racers       = 32 // goroutines in a race
	racerUpdates = 12 // updates by each of them
	purses       = 8  // keys that hold parts of one sum
	purse        = 100
)

func serialPresent(t *testing.T, db kv.DB) {
	put(t, db, "n", "0")
	race(func(int) {
		for range racerUpdates {
			update(t, db, func(tx kv.Txn) error {
				set(tx, "n", strconv.Itoa(number(tx, "n")+1))
				return nil
			})
		}
	})
	wantContent(t, db, "n="+strconv.Itoa(racers*racerUpdates))
}

func serialAbsent(t *testing.T, db kv.DB) {
	errTaken := errors.New("taken")
	for round := range racerUpdates {
		key := fmt.Sprintf("name-%02d", round)
		var created atomic.Int32
		race(func(racer int) {
			err := db.Update(t.Context(), func(tx kv.Txn) error {
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

// openView writes while a View is open. It would hang, not fail, on an engine
// whose writers wait for readers.
func openView(t *testing.T, db kv.DB) {
	put(t, db, "a", "1", "b", "2")
	err := db.View(t.Context(), func(r kv.Reader) error {
		wantValue(t, r, "b", "2") // the snapshot may be that of the first read
		for i := range 100 {
			put(t, db, "a", strconv.Itoa(i), "c", strconv.Itoa(i))
		}
		update(t, db, func(tx kv.Txn) error { remove(tx, "b"); return nil })
		wantScan(t, r, kv.Range{}, "a=1", "b=2")
		wantValue(t, r, "a", "1")
		wantAbsent(t, r, "c")
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
	wantContent(t, db, "a=99", "c=99")
}

// movedSum moves coins between purses from many goroutines, some of whose
// updates are refused midway, while others count all purses in one View.
func movedSum(t *testing.T, db kv.DB) {
	for i := range purses {
		put(t, db, purseKey(i), strconv.Itoa(purse))
	}
	race(func(racer int) {
		for i := range racerUpdates {
			if racer%4 == 0 {
				wantSum(t, db)
				continue
			}
			move(t, db, racer%purses, (racer+i+1)%purses, i%3 == 0)
		}
	})
	wantSum(t, db)
}

func move(t *testing.T, db kv.DB, from, to int, refuse bool) {
	err := db.Update(t.Context(), func(tx kv.Txn) error {
		set(tx, purseKey(from), strconv.Itoa(number(tx, purseKey(from))-1))
		if refuse {
			return errRefused
		}
		set(tx, purseKey(to), strconv.Itoa(number(tx, purseKey(to))+1))
		return nil
	})
	if refuse != errors.Is(err, errRefused) || (!refuse && err != nil) {
		t.Errorf("Update() = %v, want refused %t", err, refuse)
	}
}

func wantSum(t *testing.T, db kv.DB) {
	var scanned, got int
	err := db.View(t.Context(), func(r kv.Reader) error {
		scanned, got = 0, 0
		for _, value := range r.Scan(kv.Range{Lo: []byte("purse"), Hi: []byte("purse~")}) {
			n, err := strconv.Atoi(string(value))
			check(err)
			scanned += n
		}
		for i := range purses {
			got += number(r, purseKey(i))
		}
		return nil
	})
	if err != nil || scanned != purses*purse || got != purses*purse {
		t.Errorf("sum = %d by Scan, %d by Get, %v; want %d", scanned, got, err, purses*purse)
	}
}

func purseKey(i int) string { return "purse" + strconv.Itoa(i) }

func number(r kv.Reader, key string) int {
	value, err := r.Get([]byte(key))
	check(err)
	n, err := strconv.Atoi(string(value))
	check(err)
	return n
}

// race runs fn in every racer concurrently and waits for all of them.
func race(fn func(racer int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for racer := range racers {
		wg.Go(func() {
			<-start
			fn(racer)
		})
	}
	close(start)
	wg.Wait()
}

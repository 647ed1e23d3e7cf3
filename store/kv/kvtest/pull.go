package kvtest

import (
	"fmt"
	"slices"
	"testing"

	"tollhouse/store/kv"
)

// The cases of [kv.Pull], one for each promise.

// inBoth runs a check in a View of what is stored, and in an Update where half
// of it is only pending.
func inBoth(t *testing.T, db kv.DB, look func(kv.Reader)) {
	for i := 0; i < len(oddKeys); i += 2 {
		put(t, db, oddKeys[i], oddKeys[i])
	}
	update(t, db, func(tx kv.Txn) error {
		for i := 1; i < len(oddKeys); i += 2 {
			set(tx, oddKeys[i], oddKeys[i])
		}
		look(tx)
		return nil
	})
	err := db.View(t.Context(), func(r kv.Reader) error {
		look(r)
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
}

func pullIsAScan(t *testing.T, db kv.DB) {
	inBoth(t, db, func(r kv.Reader) {
		for _, lo := range append([]string{""}, oddKeys...) {
			for _, reverse := range []bool{false, true} {
				for limit := range 4 {
					rng := kv.Range{Lo: []byte(lo), Hi: []byte("\xff\xff"), Reverse: reverse, KeysOnly: limit == 2, Limit: limit}
					var want []string
					for key, value := range r.Scan(rng) {
						want = append(want, fmt.Sprintf("%q=%q", key, value))
					}
					if got := pulled(t, r, rng); !slices.Equal(got, want) {
						t.Fatalf("Pull(%s) = %q, want %q", show(rng), got, want)
					}
				}
			}
		}
	})
}

// pulled reads a range to its end and checks that it stays at the end.
func pulled(t *testing.T, r kv.Reader, rng kv.Range) (rows []string) {
	next, stop := kv.Pull(r, rng)
	defer stop()
	for {
		key, value, ok := next()
		if !ok {
			break
		}
		rows = append(rows, fmt.Sprintf("%q=%q", key, value))
	}
	if key, _, ok := next(); ok {
		t.Errorf("Pull(%s) gives %q after its end", show(rng), key)
	}
	return rows
}

// pullSeveral reads two ranges alternately: a row stays valid while only the other
// range advances.
func pullSeveral(t *testing.T, db kv.DB) {
	inBoth(t, db, func(r kv.Reader) {
		up, stopUp := kv.Pull(r, kv.Range{})
		defer stopUp()
		down, stopDown := kv.Pull(r, kv.Range{Reverse: true})
		defer stopDown()
		want := wantKeys(kv.Range{})
		for i := range want {
			low, lowValue, _ := up()
			high, highValue, _ := down()
			if string(low) != want[i] || string(lowValue) != want[i] || string(high) != want[len(want)-1-i] || string(highValue) != string(high) {
				t.Fatalf("row %d = %q=%q and %q=%q, want %q and %q", i, low, lowValue, high, highValue, want[i], want[len(want)-1-i])
			}
		}
	})
}

func pullStops(t *testing.T, db kv.DB) {
	inBoth(t, db, func(r kv.Reader) {
		next, stop := kv.Pull(r, kv.Range{})
		if _, _, ok := next(); !ok {
			t.Error("Pull() gives nothing")
		}
		stop()
		if key, _, ok := next(); ok {
			t.Errorf("Pull() gives %q after it was stopped", key)
		}
		stop()                                // again, as a defer would
		_, unread := kv.Pull(r, kv.Range{})   // and one that was never read
		unread()                              // ends too
		wantRows := len(wantKeys(kv.Range{})) // and the reader continues
		if got := len(pulled(t, r, kv.Range{})); got != wantRows {
			t.Errorf("after a stop another Pull gives %d rows, want %d", got, wantRows)
		}
	})
}

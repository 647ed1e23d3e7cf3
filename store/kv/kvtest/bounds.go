package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tollhouse/store/kv"
)

// oddKeys are keys at which bounds tend to be wrong: NUL and 0xff bytes, prefixes of
// each other, and neighbours of reserved keys.
var oddKeys = []string{
	"\x00", "\x00\x00", "\x00\xff", " ", "\"", "a", "a\x00", "a\x00\x00", "a\x00b", "a\xff",
	"a\xff\xff", "aa", "b", "z\xff", "\xfe", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff",
}

// ranges compares every pair of odd bounds, both ways, with the definition of a
// half-open range. Half of the keys are stored, the others only pending.
func ranges(t *testing.T, db kv.DB) {
	for i := 0; i < len(oddKeys); i += 2 {
		put(t, db, oddKeys[i], oddKeys[i])
	}
	update(t, db, func(tx kv.Txn) error {
		for i := 1; i < len(oddKeys); i += 2 {
			set(tx, oddKeys[i], oddKeys[i])
		}
		everyRange(t, tx)
		return nil
	})
	err := db.View(t.Context(), func(r kv.Reader) error {
		everyRange(t, r)
		return nil
	})
	if err != nil {
		t.Errorf("View() = %v, want nil", err)
	}
}

func everyRange(t *testing.T, r kv.Reader) {
	bounds := [][]byte{nil, {}}
	for _, key := range oddKeys {
		bounds = append(bounds, []byte(key), []byte(key+"\x00"))
	}
	for _, lo := range bounds {
		for _, hi := range bounds {
			for _, reverse := range []bool{false, true} {
				rng := kv.Range{Lo: lo, Hi: hi, Reverse: reverse, Limit: len(lo) % 3 * 4}
				var got []string
				for key, value := range r.Scan(rng) {
					got = append(got, string(key))
					if !bytes.Equal(key, value) {
						t.Errorf("Scan(%s) yields %q under %q", show(rng), value, key)
					}
				}
				if want := wantKeys(rng); !slices.Equal(got, want) {
					t.Fatalf("Scan(%s) = %q, want %q", show(rng), got, want)
				}
			}
		}
	}
}

// wantKeys is the definition of a range, over oddKeys.
func wantKeys(r kv.Range) []string {
	var keys []string
	for _, key := range oddKeys {
		if key >= string(r.Lo) && (r.Hi == nil || key < string(r.Hi)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if r.Reverse {
		slices.Reverse(keys)
	}
	if r.Limit > 0 && len(keys) > r.Limit {
		keys = keys[:r.Limit]
	}
	return keys
}

func limits(t *testing.T, db kv.DB) {
	cases := []struct {
		name    string
		write   func(kv.Txn) error
		refused bool
	}{
		{"longest key", setSized(1, kv.KeySizeMax, 1), false},
		{"key too long", setSized(1, kv.KeySizeMax+1, 1), true},
		{"longest key, deleted", deleteSized(kv.KeySizeMax), false},
		{"key too long, deleted", deleteSized(kv.KeySizeMax + 1), true},
		{"largest value", setSized(1, 8, kv.ValueSizeMax), false},
		{"value too large", setSized(1, 8, kv.ValueSizeMax+1), true},
		{"most writes", setSized(kv.UpdateWritesMax, 8, 1), false},
		{"too many writes", setSized(kv.UpdateWritesMax+1, 8, 1), true},
		{"most bytes", setSized(kv.UpdateBytesMax>>16, 8, 1<<16-8), false},
		{"too many bytes", setSized(kv.UpdateBytesMax>>16+1, 8, 1<<16-8), true},
	}
	for _, c := range cases {
		err := db.Update(t.Context(), c.write)
		if got := errors.Is(err, kv.ErrTooLarge); got != c.refused || (!c.refused && err != nil) {
			t.Errorf("%s: Update() = %v, want refused %t", c.name, err, c.refused)
		}
	}
}

// setSized returns a closure that sets n distinct keys of keySize bytes.
func setSized(n, keySize, valueSize int) func(kv.Txn) error {
	value := bytes.Repeat([]byte{'v'}, valueSize)
	return func(tx kv.Txn) error {
		for i := range n {
			key := []byte(fmt.Sprintf("%0*d", keySize, i))
			if err := tx.Set(key, value, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	}
}

func deleteSized(keySize int) func(kv.Txn) error {
	return func(tx kv.Txn) error { return tx.Delete(bytes.Repeat([]byte{'k'}, keySize)) }
}

// refusedWriteNotCounted fills an Update to its last byte around refused writes.
func refusedWriteNotCounted(t *testing.T, db kv.DB) {
	update(t, db, func(tx kv.Txn) error {
		err := tx.Set([]byte("a"), make([]byte, kv.ValueSizeMax+1), time.Time{})
		if !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Set(too large) = %v, want ErrTooLarge", err)
		}
		check(setSized(kv.UpdateWritesMax, 8, 1)(tx))
		if err := tx.Delete([]byte("00000000")); !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Delete(one too many) = %v, want ErrTooLarge", err)
		}
		wantAbsent(t, tx, "a")
		wantValue(t, tx, "00000000", "v")
		return nil
	})
}

func impossibleKeys(t *testing.T, db kv.DB) {
	for _, key := range []string{"", "!", "!badger!txn"} {
		panicked := func() (value any) {
			defer func() { value = recover() }()
			_ = db.Update(t.Context(), func(tx kv.Txn) error {
				return tx.Set([]byte(key), nil, time.Time{})
			})
			return nil
		}()
		if panicked == nil {
			t.Errorf("Set(%q) did not panic", key)
		}
		err := db.View(t.Context(), func(r kv.Reader) error {
			wantAbsent(t, r, key)
			return nil
		})
		if err != nil {
			t.Errorf("View(Get %q) = %v, want nil", key, err)
		}
	}
	wantContent(t, db)
}

func written(t *testing.T, db kv.DB) {
	for c := range kv.Class(kv.Classes) {
		update(t, db, func(tx kv.Txn) error {
			if got := tx.Written(); got != 0 {
				t.Errorf("Written() of nothing = %d", got)
			}
			if first, second := tx.As(c), tx.As(kv.Ordinary); first != c || second != c {
				t.Errorf("As(%d), then As(Ordinary) = %d, %d; want the higher one", c, first, second)
			}
			set(tx, "key", "value")
			remove(tx, "other")
			if got, want := tx.Written(), len("keyvalueother"); got != want {
				t.Errorf("Written() as %s = %d, want %d", c.Name(), got, want)
			}
			return nil
		})
	}
}

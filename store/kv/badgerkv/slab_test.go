package badgerkv

import (
	"bytes"
	"testing"
	"time"

	"tollhouse/store/kv"
)

// TestSlab: no two pieces overlap, what is given back is handed out again, and
// a large use leaves no memory behind the small one that follows it.
func TestSlab(t *testing.T) {
	t.Parallel()
	s := slab[byte]{atOnce: 16}
	fill := func(c byte, sizes ...int) (pieces [][]byte) {
		for _, n := range sizes {
			piece := s.take(n)
			for i := range piece {
				if piece[i] != 0 {
					t.Fatalf("take(%d) after reset holds %v, want zeros", n, piece)
				}
			}
			copy(piece, bytes.Repeat([]byte{c}, n))
			pieces = append(pieces, piece)
			c++
		}
		return pieces
	}
	for range 3 {
		pieces := fill('a', 5, 0, 7, 9, 16, 40, 1)
		for i, piece := range pieces {
			if want := bytes.Repeat([]byte{'a' + byte(i)}, len(piece)); !bytes.Equal(piece, want) || cap(piece) != len(piece) {
				t.Errorf("piece %d = %q, room for %d, want %q and no more", i, piece, cap(piece), want)
			}
		}
		s.reset()
	}
	fill('a', 3)
	s.reset()
	if len(s.chunks) != 1 {
		t.Errorf("%d chunks after a use of 3 bytes, want 1", len(s.chunks))
	}

	kept := s.take(4)
	copy(kept, "kept")
	mark := s.mark()
	gone := s.take(3)
	s.take(100)
	s.rewind(mark)
	again := s.take(3)
	if string(kept) != "kept" || &again[0] != &gone[0] || len(s.chunks[1]) != 0 {
		t.Errorf("after rewind: %q, again at another place: %t, %d bytes in use behind", kept, &again[0] != &gone[0], len(s.chunks[1]))
	}
}

// TestPendingRollback_gives_back_its_room: a group of updates that fail, as those
// of a dry run are, holds no more than the largest of them.
func TestPendingRollback_gives_back_its_room(t *testing.T) {
	t.Parallel()
	p := newPending()
	write := func(key string, value []byte) {
		p.write([]byte(key), change{kind: changeSet, sealed: p.seal([]byte(key), value)})
	}
	write("stays", []byte("what it was"))
	for range 100 {
		p.begin()
		for _, key := range []string{"a", "stays", "b"} {
			write(key, make([]byte, 60<<10))
		}
		p.rollback()
	}
	if got := len(p.byteRoom.chunks); got > 3 {
		t.Errorf("%d chunks after a hundred updates of two chunks' size were rolled back, want at most 3", got)
	}
	if got := p.get([]byte("stays")).value(); string(got) != "what it was" {
		t.Errorf("after the rollbacks the value is %q, want what it was", got)
	}
}

// TestGroupsShareNoBytes: what one commit stored does not change when the next
// takes over its memory.
func TestGroupsShareNoBytes(t *testing.T) {
	t.Parallel()
	for _, opts := range []Options{{InMemory: true}, {Dir: t.TempDir()}} {
		db := mustOpen(t, opts)
		value := func(n byte) []byte { return bytes.Repeat([]byte{n}, 500) }
		for n := range byte(50) {
			err := db.Update(t.Context(), func(tx kv.Txn) error {
				for part := range byte(20) {
					if err := tx.Set([]byte{'k', n, part}, value(n), time.Time{}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err := db.View(t.Context(), func(r kv.Reader) error {
			for n := range byte(50) {
				for part := range byte(20) {
					got, err := r.Get([]byte{'k', n, part})
					if err != nil || !bytes.Equal(got, value(n)) {
						t.Fatalf("Get(%d, %d) = %v, %v, want what was set", n, part, got, err)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

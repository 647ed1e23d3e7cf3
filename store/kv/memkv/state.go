package memkv

import (
	"bytes"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"tollhouse/store/kv"
)

// State is everything that a DB holds at one moment. It is immutable, safe for
// concurrent use, and garbage when neither a DB nor a caller refers to it.
type State struct {
	// A tree's Copy writes a mark into its source. Readers never look at the mark, but
	// two concurrent copies would race.
	copying  sync.Mutex
	entries  *tree // by key
	expiring *tree // those that expire, by time and key
	size     int   // of all keys and values, in bytes
}

type tree = btree.BTreeG[*entry]

// entry is one key with its value; both are immutable.
type entry struct {
	key, value []byte
	expiresAt  time.Time
}

func (e *entry) size() int { return len(e.key) + len(e.value) }

func newState() *State {
	// Published trees are only read and copies have one writer, so locks are for
	// nothing.
	options := btree.Options{NoLocks: true}
	byKey := func(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }
	byExpiry := func(a, b *entry) bool {
		if order := a.expiresAt.Compare(b.expiresAt); order != 0 {
			return order < 0
		}
		return byKey(a, b)
	}
	return &State{entries: btree.NewBTreeGOptions(byKey, options), expiring: btree.NewBTreeGOptions(byExpiry, options)}
}

// copy returns a State to write to. It shares all nodes with s, which must not be
// written again.
func (s *State) copy() *State {
	s.copying.Lock()
	defer s.copying.Unlock()
	return &State{entries: s.entries.Copy(), expiring: s.expiring.Copy(), size: s.size}
}

func (s *State) set(e *entry) {
	old, replaced := s.entries.Set(e)
	if replaced {
		s.size -= old.size()
	}
	if replaced && !old.expiresAt.IsZero() {
		s.expiring.Delete(old)
	}
	s.size += e.size()
	if !e.expiresAt.IsZero() {
		s.expiring.Set(e)
	}
}

func (s *State) remove(e *entry) {
	s.entries.Delete(e)
	s.size -= e.size()
	if !e.expiresAt.IsZero() {
		s.expiring.Delete(e)
	}
}

// within calls fn with the entries of r in the order of r, until it returns false.
func (s *State) within(r kv.Range, fn func(*entry) bool) {
	if !r.Reverse {
		s.entries.Ascend(&entry{key: r.Lo}, func(e *entry) bool {
			return (r.Hi == nil || bytes.Compare(e.key, r.Hi) < 0) && fn(e)
		})
		return
	}
	down := func(e *entry) bool { return bytes.Compare(e.key, r.Lo) >= 0 && fn(e) }
	if r.Hi == nil {
		s.entries.Reverse(down)
		return
	}
	s.entries.Descend(&entry{key: r.Hi}, func(e *entry) bool {
		return bytes.Equal(e.key, r.Hi) || down(e)
	})
}

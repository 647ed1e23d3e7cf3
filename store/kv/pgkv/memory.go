package pgkv

import (
	"container/list"
	"sync"
)

const (
	memoryBytesMax = 64 << 20
	plansBytesMax  = 16 << 20
	plansMax       = 64 << 10
)

// lru keeps what was used last, within a size. It is safe for concurrent use.
type lru struct {
	mu       sync.Mutex
	entries  map[string]*list.Element
	order    *list.List // of *lruEntry, the last used first
	size     int
	sizeMax  int
	countMax int // 0 is no limit
}

type lruEntry struct {
	key   string
	value any
	size  int
}

func newLRU(sizeMax, countMax int) lru {
	return lru{entries: map[string]*list.Element{}, order: list.New(), sizeMax: sizeMax, countMax: countMax}
}

// entryOverhead is about what the map and the list take for an entry.
const entryOverhead = 150

func (l *lru) find(key []byte) (any, bool) {
	e, found := l.entries[string(key)]
	if !found {
		return nil, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruEntry).value, true
}

func (l *lru) keep(key string, value any, size int) {
	size += len(key) + entryOverhead
	if e, found := l.entries[key]; found {
		entry := e.Value.(*lruEntry)
		l.size += size - entry.size
		entry.value, entry.size = value, size
		l.order.MoveToFront(e)
	} else {
		l.entries[key] = l.order.PushFront(&lruEntry{key, value, size})
		l.size += size
	}
	for l.size > l.sizeMax || l.countMax > 0 && len(l.entries) > l.countMax {
		last := l.order.Remove(l.order.Back()).(*lruEntry)
		delete(l.entries, last.key)
		l.size -= last.size
	}
}

// memory holds what this process last read or wrote, for asking runs only. Other
// processes may have changed it since.
type memory struct{ lru }

func newMemory() *memory { return &memory{newLRU(memoryBytesMax, 0)} }

// find passes on the keys that it knows to be present, and returns those that it does
// not know.
func (m *memory) find(keys [][]byte, row func(key, sealed []byte)) (missing [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		switch value, known := m.lru.find(key); {
		case !known:
			missing = append(missing, key)
		case value.([]byte) != nil:
			row(key, value.([]byte))
		}
	}
	return missing
}

// learn keeps what a committed group has read and written.
func (m *memory) learn(known map[string][]byte, written map[string]change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, sealed := range known {
		if _, changed := written[key]; !changed {
			m.keep(key, sealed, len(sealed))
		}
	}
	for key, c := range written {
		m.keep(key, c.sealed, len(c.sealed))
	}
}

// plans holds, by the first key that a View reads, which keys it read afterwards.
type plans struct{ lru }

func newPlans() *plans { return &plans{newLRU(plansBytesMax, plansMax)} }

func (p *plans) of(first []byte) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plan, found := p.find(first); found {
		return plan.([][]byte)
	}
	return nil
}

func (p *plans) keep(keys [][]byte) {
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lru.keep(string(keys[0]), keys, size)
}

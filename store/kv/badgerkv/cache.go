package badgerkv

import (
	"bytes"
	"hash/maphash"
	"sync"
	"unsafe"

	"tollhouse/store/kv"
)

// cache answers Gets of small records from memory, exactly as the engine would.
//
// An entry is valid from one version, since, up to the last published one. The committer
// replaces the entries of what it wrote before it publishes the version, so a reader
// finds either what it may see or an entry that is too new for it. A reader may add what
// it has read, unless a newer write may have come in between: not over another entry,
// and not below the floor of the shard, which is no lower than the newest entry that the
// shard has dropped.
type cache struct {
	seed   maphash.Seed
	kinds  [256]caching // by the first byte of a key
	recent [recentShards]shard
	whole  shard
}

type caching uint8

const (
	cacheNone caching = iota
	cacheRecent
	cacheWhole
)

const (
	// recentShare and wholeShare are the parts of Options.Memory that the recent
	// records and the whole kinds may take: 5 and 2.5 MiB by default, some 15,000
	// tokens and 7,000 clients.
	recentShare  = 16
	wholeShare   = 32
	recentShards = 16 // so that readers seldom wait for each other

	cachedSizeMax = 2 << 10 // bytes of a recent record; larger ones are rare
	entryOverhead = 128     // bytes of memory that an entry takes in addition to key and value
)

// shard is a part of the cache. When young is full, it becomes old, and what was old is
// dropped; an old entry that is read becomes young again.
type shard struct {
	mu         sync.Mutex
	young, old map[string]entry
	size       int // of young
	sizeMax    int
	newest     uint64 // version that any entry had
	floor      uint64
	complete   bool // it has every record of its kinds, at the floor and later
	off        bool // it was complete, until its kinds became too large
}

// entry is a record, or nil for a missing one, and the version since which that is valid.
// Missing ones are kept too: a repeated lookup of a token that never existed must not
// take longer than that of one that did.
type entry struct {
	value []byte
	since uint64
}

func newCache(o Options) *cache {
	c := &cache{seed: maphash.MakeSeed()}
	for i := range len(o.Recent) {
		c.kinds[o.Recent[i]] = cacheRecent
	}
	for i := range len(o.Whole) {
		c.kinds[o.Whole[i]] = cacheWhole
	}
	for i := range c.recent {
		c.recent[i].sizeMax = int(o.RecentMax) / recentShards / 2 // young and old
	}
	c.whole.sizeMax, c.whole.complete = int(o.Memory)/wholeShare, true
	return c
}

// shardOf returns the shard of key, or nil if its kind is not cached.
func (c *cache) shardOf(key []byte) *shard {
	switch c.kinds[key[0]] {
	case cacheRecent:
		return &c.recent[maphash.Bytes(c.seed, key)%recentShards]
	case cacheWhole:
		return &c.whole
	}
	return nil
}

// fillCache reads the whole kinds. If they cannot be read they are not cached, so that
// each Get reports the damage.
func (db *DB) fillCache(version uint64) {
	r := reader{base: &base{db: db, version: version}}
	defer r.base.discard()
	defer r.close()
	whole := &db.cache.whole
	for i := range len(db.opts.Whole) {
		kind := db.opts.Whole[i]
		for key, value := range r.Scan(kv.Range{Lo: []byte{kind}, Hi: []byte{kind + 1}}) {
			whole.replace(string(key), entry{bytes.Clone(value), version})
			if !whole.complete {
				return
			}
		}
	}
	if r.err != nil {
		whole.turnOff()
	}
}

// replace takes over the writes of a group that was committed at version.
func (c *cache) replace(group *pending, version uint64) {
	_ = group.all(func(w *slot) error {
		s := c.shardOf(w.key)
		if s == nil || w.kind == changeNone {
			return nil
		}
		e := entry{since: version}
		if w.kind == changeSet && (s == &c.whole || len(w.sealed) <= cachedSizeMax) {
			e.value = w.value()
		}
		// Neither a slot's key nor its value is ever written to again.
		s.replace(unsafe.String(&w.key[0], len(w.key)), e)
		return nil
	})
}

// get returns the value of key at version. It is nil for a missing record, and known is
// false if the engine must be asked.
func (s *shard) get(key []byte, version uint64) (value []byte, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, found := s.young[string(key)]
	if !found {
		if e, found = s.old[string(key)]; !found {
			return nil, s.complete && version >= s.floor
		}
		s.remove(string(key))
		s.put(string(key), e)
	}
	if e.since > version {
		return nil, false
	}
	return e.value, true
}

// add stores what was read at version, nil for a missing record.
func (s *shard) add(key, value []byte, version uint64) {
	if len(value) > cachedSizeMax {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, young := s.young[string(key)]
	_, old := s.old[string(key)]
	if young || old || version < s.floor || s.off {
		return
	}
	s.put(string(key), entry{value, version})
}

// replace stores what was committed. Without a value, which is a deletion or a record
// too large, it drops the entry.
func (s *shard) replace(key string, e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return
	}
	if was, young := s.young[key]; young && e.value != nil { // its size is put's to add
		s.size -= was.size(key)
	} else {
		s.remove(key)
	}
	if e.value == nil {
		s.floor = max(s.floor, e.since)
		return
	}
	s.put(key, e)
}

// put stores an entry under a key whose size is not counted, and drops the old ones when the young ones are
// too many.
func (s *shard) put(key string, e entry) {
	if s.young == nil {
		s.young = make(map[string]entry)
	}
	s.young[key] = e
	s.size += e.size(key)
	s.newest = max(s.newest, e.since)
	if s.size <= s.sizeMax {
		return
	}
	if s.complete {
		s.turnOff()
		return
	}
	// Not lower than it was: a deletion raises the floor and leaves no entry.
	s.old, s.young, s.size, s.floor = s.young, nil, 0, max(s.floor, s.newest)
}

func (s *shard) remove(key string) {
	if e, found := s.young[key]; found {
		s.size -= e.size(key)
		delete(s.young, key)
	}
	delete(s.old, key)
}

// turnOff leaves all reads of its kinds to the engine: a part of them would be found
// faster than a missing one.
func (s *shard) turnOff() { s.young, s.complete, s.off = nil, false, true }

// size is what the entry takes in memory under key.
func (e entry) size(key string) int { return len(key) + len(e.value) + entryOverhead }

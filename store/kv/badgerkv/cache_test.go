package badgerkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
	"tollhouse/store/storetest/must"
)

// everyKind makes the cache take each key.
var everyKind = func() string {
	kinds := make([]byte, 0, 256)
	for kind := range 256 {
		kinds = append(kinds, byte(kind))
	}
	return string(kinds)
}()

func TestConformanceWithEveryKeyCached(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"recent": {InMemory: true, Recent: everyKind}, "whole": {InMemory: true, Whole: everyKind}} {
		for _, size := range []int{0, 1 << 10} {
			t.Run(fmt.Sprint(name, "_", size), func(t *testing.T) {
				t.Parallel()
				if size == 0 {
					must.SkipInShort(t)
				}
				kvtest.Run(t, func(t *testing.T) kv.DB {
					db := mustOpen(t, opts)
					if size > 0 {
						db.cache.shrink(size)
					}
					return db
				})
			})
		}
	}
}

// shrink makes the cache drop entries soon.
func (c *cache) shrink(size int) {
	for i := range c.recent {
		c.recent[i].sizeMax = size
	}
	c.whole.sizeMax = size
}

// TestCacheAnswersAsTheEngine takes a shard through random histories of commits, of
// readers of any version that is still open, and of values that were read before a commit
// and arrive after it. What the shard knows must be what the history has.
func TestCacheAnswersAsTheEngine(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		t.Run(fmt.Sprintf("complete=%t", complete), func(t *testing.T) {
			t.Parallel()
			hits, misses, dropped := 0, 0, 0
			rapid.Check(t, func(t *rapid.T) {
				s := &shard{sizeMax: rapid.IntRange(1, 6).Draw(t, "entries") * (entryOverhead + 2), complete: complete}
				history := []map[string]string{{}} // the records at each version
				key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
				reads := func(at int, k string) (value []byte) {
					if text, exists := history[at][k]; exists {
						value = []byte(text)
					}
					return value
				}
				t.Repeat(map[string]func(*rapid.T){
					"": func(t *rapid.T) {
						size := 0
						for k, e := range s.young {
							size += e.size(k)
						}
						if !s.off && s.size != size {
							t.Fatalf("the young entries count as %d bytes and have %d", s.size, size)
						}
					},
					"commit": func(t *rapid.T) {
						next, version := map[string]string{}, len(history)
						for k, v := range history[version-1] {
							next[k] = v
						}
						for _, k := range rapid.SliceOfNDistinct(key, 1, 3, rapid.ID).Draw(t, "written") {
							e := entry{since: uint64(version)}
							if delete(next, k); rapid.IntRange(0, 3).Draw(t, "deletes") > 0 {
								next[k] = strconv.Itoa(version)
								e.value = []byte(next[k])
							}
							s.replace(k, e)
						}
						history = append(history, next)
					},
					"add": func(t *rapid.T) {
						k, at := key.Draw(t, "key"), rapid.IntRange(0, len(history)-1).Draw(t, "version")
						s.add([]byte(k), reads(at, k), uint64(at))
					},
					"get": func(t *rapid.T) {
						k, at := key.Draw(t, "key"), rapid.IntRange(0, len(history)-1).Draw(t, "version")
						value, known := s.get([]byte(k), uint64(at))
						if want := reads(at, k); known && !bytes.Equal(value, want) {
							t.Fatalf("get(%s) at version %d = %q, want %q", k, at, value, want)
						}
						if known {
							hits++
						} else {
							misses++
						}
						if s.old != nil {
							dropped++
						}
					},
				})
			})
			if hits == 0 || misses == 0 || !complete && dropped == 0 {
				t.Errorf("%d answers, %d misses, %d after entries were dropped; want some of each", hits, misses, dropped)
			}
		})
	}
}

// TestADeletedRecordStaysAbsent: what was read before a deletion and arrives after it is
// not taken, also when the shard has dropped entries in between.
func TestADeletedRecordStaysAbsent(t *testing.T) {
	t.Parallel()
	s := &shard{sizeMax: 2 * (entryOverhead + 2)}
	s.add([]byte("a"), nil, 1)
	s.replace("t", entry{[]byte("1"), 1})
	s.add([]byte("b"), nil, 1) // one too many: all three are old
	s.add([]byte("c"), nil, 1)
	s.add([]byte("d"), nil, 1)
	s.replace("t", entry{since: 2})
	s.get([]byte("a"), 2) // young again, and one too many
	s.add([]byte("t"), []byte("1"), 1)
	if value, known := s.get([]byte("t"), 2); known {
		t.Errorf("a deleted record is %q", value)
	}
}

// TestCachedReadsAreExact has readers and writers share a few records, with a cache that
// drops most of them. A View must see the sum that every update keeps, and what was
// acknowledged before it began.
func TestCachedReadsAreExact(t *testing.T) {
	t.Parallel()
	const records, sum, rounds = 40, 4000, 300
	db := mustOpen(t, Options{InMemory: true, Recent: "r", Whole: "w"})
	db.cache.shrink(2 * entryOverhead)
	db.cache.whole.sizeMax = 1 << 20
	key := func(i int) []byte { return fmt.Appendf(nil, "%c%d", "rw"[i%2], i) }
	amount := func(r kv.Reader, i int) (int, error) {
		value, err := r.Get(key(i))
		if errors.Is(err, kv.ErrNotFound) {
			return 0, nil
		}
		return strconv.Atoi(string(bytes.Clone(value)))
	}
	pay := func(tx kv.Txn, i, amount int) error {
		if amount == 0 {
			return tx.Delete(key(i))
		}
		return tx.Set(key(i), strconv.AppendInt(nil, int64(amount), 10), time.Time{})
	}
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { return errors.Join(pay(tx, 0, sum), pay(tx, records, 1)) }))
	var acknowledged atomic.Int64
	acknowledged.Store(1)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := range rounds {
				from, to := (n*7+w)%records, (n*13+w*5)%records
				var turn int
				err := db.Update(context.Background(), func(tx kv.Txn) error {
					had, err := amount(tx, from)
					has, errTo := amount(tx, to)
					count, errCount := amount(tx, records)
					if err := errors.Join(err, errTo, errCount); err != nil || from == to {
						return err
					}
					turn = count + 1
					moved := had * (n % 3) / 2 // none, half, all
					return errors.Join(pay(tx, from, had-moved), pay(tx, to, has+moved), pay(tx, records, turn))
				})
				if err != nil {
					t.Errorf("Update() = %v", err)
				}
				for at := acknowledged.Load(); int(at) < turn && !acknowledged.CompareAndSwap(at, int64(turn)); at = acknowledged.Load() {
				}
			}
		})
		all.Go(func() {
			for range rounds {
				before, total := int(acknowledged.Load()), 0
				err := db.View(context.Background(), func(r kv.Reader) error {
					count, err := amount(r, records)
					if count < before {
						t.Errorf("a View sees update %d, although %d was acknowledged", count, before)
					}
					for i := range records {
						n, errOne := amount(r, i)
						total, err = total+n, errors.Join(err, errOne)
					}
					return err
				})
				if err != nil || total != sum {
					t.Errorf("a View sees the sum %d, %v, want %d", total, err, sum)
				}
			}
		})
	}
	all.Wait()
}

// TestCacheOfAllClients: as long as a whole kind fits, a missing key is known to be
// missing, also after the store is opened again. Then all of it is left to the engine.
func TestCacheOfAllClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := Options{Dir: dir, Whole: "c"}
	known := func(db *DB, key string) bool {
		_, known := db.cache.whole.get([]byte(key), db.snapshots.last())
		return known
	}
	wantKnown := func(db *DB, want bool) {
		t.Helper()
		wantValue(t, db, "c1", "one")
		wantAbsent(t, db, "c2")
		wantAbsent(t, db, "c9")
		for _, key := range []string{"c1", "c2", "c9"} {
			if got := known(db, key); got != want {
				t.Errorf("known(%s) = %t, want %t", key, got, want)
			}
		}
	}
	db := must.Get(Open(opts))(t)
	put(t, db, "c1", "one", "c2", "two", "other", "")
	must.Do(t, db.Update(t.Context(), func(tx kv.Txn) error { return tx.Delete([]byte("c2")) }))
	wantKnown(db, true)
	mustClose(t, db)
	db = mustOpen(t, opts)
	wantKnown(db, true)
	db.cache.shrink(2 * entryOverhead)
	put(t, db, "c3", noise("c3", 100), "c4", noise("c4", 100), "c5", noise("c5", 100))
	wantKnown(db, false)
}

// TestDamageIsNotCached: a record that cannot be read is reported by each read of it,
// whether or not its kind is kept in memory.
func TestDamageIsNotCached(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"recent": {Recent: "k"}, "whole": {Whole: "k"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value := noise("value", 300)
			opts.Dir = t.TempDir()
			db := must.Get(Open(opts))(t)
			put(t, db, "ka", "whole", "kb", value, "kc", "whole")
			mustClose(t, db)
			flip(t, opts.Dir, "*.sst", value)
			damaged := mustOpen(t, opts)
			for range 2 {
				wantValue(t, damaged, "ka", "whole")
				wantDamage(t, damaged)
			}
		})
	}
}

// BenchmarkCacheReplaces replaces the record of a token by its next version.
func BenchmarkCacheReplaces(b *testing.B) {
	c := newCache(Options{Recent: "t", RecentMax: 8 << 20, Memory: MemoryDefault})
	var keys []string
	for i := range 10_000 {
		keys = append(keys, fmt.Sprintf("t%032d", i))
	}
	value := make([]byte, 150)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := keys[i%len(keys)]
		c.shardOf([]byte(key)).replace(key, entry{value, uint64(i)})
	}
}

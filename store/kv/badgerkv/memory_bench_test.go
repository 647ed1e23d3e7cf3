package badgerkv

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/storetest/must"
)

// BenchmarkInMemory compares the two engines that dev can run on: one key got, set or
// scanned per row among 50,000 keys, about as many as 10,000 events have.
//
//	go test ./store/kv/badgerkv -run '^$' -bench InMemory -benchmem -count 5
func BenchmarkInMemory(b *testing.B) {
	const keys, scanned = 50_000, 100
	ctx := context.Background()
	key := func(n int) []byte { return binary.BigEndian.AppendUint64([]byte("t"), uint64(n)) }
	work := []struct {
		name string
		run  func(db kv.DB, n int) error
	}{
		{"get", func(db kv.DB, n int) error {
			return db.View(ctx, func(r kv.Reader) error {
				_, err := r.Get(key(n * 7919 % keys))
				return err
			})
		}},
		{"put", func(db kv.DB, n int) error {
			return db.Update(ctx, func(tx kv.Txn) error {
				return tx.Set(key(n*7919%keys), benchValue, time.Time{})
			})
		}},
		{"scan", func(db kv.DB, n int) error {
			return db.View(ctx, func(r kv.Reader) error {
				rows := 0
				for range r.Scan(kv.Range{Lo: key(n * 7919 % (keys - scanned)), Limit: scanned}) {
					rows++
				}
				if rows != scanned {
					return fmt.Errorf("%d rows, want %d", rows, scanned)
				}
				return nil
			})
		}},
	}
	for _, w := range work {
		for _, engine := range []string{"memkv", "badger"} {
			b.Run(w.name+"/"+engine, func(b *testing.B) {
				var db kv.DB = memkv.New(time.Now)
				if engine == "badger" {
					db = mustOpen(b, Options{InMemory: true})
				}
				for first := 0; first < keys; first += kv.UpdateWritesMax {
					must.Do(b, db.Update(ctx, func(tx kv.Txn) error {
						for n := first; n < first+kv.UpdateWritesMax; n++ {
							if err := tx.Set(key(n), benchValue, time.Time{}); err != nil {
								return err
							}
						}
						return nil
					}))
				}
				n := 0
				for b.Loop() {
					must.Do(b, w.run(db, n))
					n++
				}
			})
		}
	}
}

package storetest

import (
	"context"
	"iter"
	"sync/atomic"

	"tollhouse/store/kv"
)

// RowCount is an engine that counts the rows that readers scan.
type RowCount struct {
	kv.DB
	read atomic.Int64
}

// CountRows wraps an engine to count rows.
func CountRows(db kv.DB) *RowCount { return &RowCount{DB: db} }

// Read returns how many rows have been read.
func (c *RowCount) Read() int64 { return c.read.Load() }

func (c *RowCount) View(ctx context.Context, fn func(kv.Reader) error) error {
	return c.DB.View(ctx, func(r kv.Reader) error { return fn(countedReader{r, c}) })
}

type countedReader struct {
	kv.Reader
	count *RowCount
}

func (r countedReader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for k, v := range r.Reader.Scan(rng) {
			if r.count.read.Add(1); !yield(k, v) {
				return
			}
		}
	}
}

package record

import (
	"context"

	"tollhouse/store/kv"
)

// List reads a page of the records whose keys are prefix and one text, in the order of
// that text, starting after the given one ("" starts at the first).
func List[T any](ctx context.Context, db kv.DB, prefix Key, after string, limit int, decode func(k, v []byte) (T, error)) (page []T, err error) {
	lo := prefix
	if after != "" {
		lo = append(append(Key(nil), prefix...).Str(after), 0)
	}
	r := prefix.From(lo)
	r.Limit = limit
	err = db.View(ctx, func(rd kv.Reader) error {
		for k, v := range rd.Scan(r) {
			item, err := decode(k[len(prefix):], v)
			if err != nil {
				return err
			}
			page = append(page, item)
		}
		return nil
	})
	return page, err
}

// Read returns the record stored under key, as decode reads it for its id. Errors:
// ErrNotFound, ErrCorrupt.
func Read[K, T any](r kv.Reader, key Key, id K, decode func(id K, v []byte) (T, error)) (record T, err error) {
	v, err := r.Get(key)
	if err != nil {
		return record, Found(err)
	}
	return decode(id, v)
}

// Prefetch is [kv.Prefetch] of the record that each of ids names.
func Prefetch(r kv.Reader, ids [][]byte, key func(id []byte) Key) {
	remote, is := r.(kv.Prefetcher)
	if !is {
		return
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = key(id)
	}
	remote.Prefetch(keys)
}

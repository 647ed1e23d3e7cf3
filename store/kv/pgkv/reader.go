package pgkv

import (
	"bytes"
	"errors"
	"iter"

	"tollhouse/store/kv"
)

// source reads stored rows: in the snapshot of a View or under the committer's turn.
type source interface {
	// get calls row with each of keys that is stored. It keeps neither keys nor row.
	get(keys [][]byte, row func(key, sealed []byte)) error
	// page returns the first n rows of rng, in its order.
	page(rng kv.Range, n int) ([]stored, error)
}

// stored is a row.
type stored struct{ key, sealed []byte }

// reader reads a source, overlaid with pending writes if there are any.
type reader struct {
	source  source
	known   map[string][]byte // what was read: sealed values, nil for absent keys
	pending *pending          // nil in a View
	err     error             // the first failure, but not a damaged value of a Get
	ended   bool
}

func (r *reader) Get(key []byte) ([]byte, error) {
	r.mustBeOpen()
	sealed, err := r.look(key)
	if err != nil {
		return nil, err
	}
	if sealed == nil {
		return nil, kv.ErrNotFound
	}
	return kv.Unseal(key, sealed)
}

// look returns the sealed value of key, or nil if it is absent.
func (r *reader) look(key []byte) ([]byte, error) {
	if r.pending != nil {
		if c, found := r.pending.changes[string(key)]; found {
			return c.sealed, nil
		}
	}
	if !canExist(key) {
		return nil, nil
	}
	if sealed, found := r.known[string(key)]; found {
		return sealed, nil
	}
	if err := r.fetch([][]byte{key}); err != nil {
		return nil, err
	}
	return r.known[string(key)], nil
}

func canExist(key []byte) bool {
	return len(key) > 0 && len(key) <= kv.KeySizeMax && key[0] != kv.ReservedPrefix
}

// fetch reads the keys that are not known yet.
func (r *reader) fetch(keys [][]byte) error {
	if r.err != nil {
		return r.err
	}
	var missing [][]byte
	for _, key := range keys {
		if _, found := r.known[string(key)]; !found && canExist(key) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := r.source.get(missing, func(key, sealed []byte) { r.known[string(key)] = sealed })
	if err != nil {
		r.fail(err)
		return err
	}
	for _, key := range missing {
		if _, found := r.known[string(key)]; !found {
			r.known[string(key)] = nil
		}
	}
	return nil
}

// keptMax keys of one GetMany are kept for a Get that follows.
const keptMax = 16

// Prefetch is kv.Prefetch.
func (r *reader) Prefetch(keys [][]byte) {
	r.mustBeOpen()
	_ = r.fetch(keys) // it is kept for outcome
}

func (r *reader) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		r.mustBeOpen()
		if r.pending == nil && len(keys) > keptMax { // a View that goes through a log must not hold all of it
			defer r.forget(keys)
		}
		if r.fetch(keys) != nil {
			return
		}
		for i, key := range keys {
			value, err := r.Get(key)
			if errors.Is(err, kv.ErrNotFound) {
				continue
			}
			if err != nil {
				r.fail(err)
				return
			}
			if !yield(i, value) {
				return
			}
		}
	}
}

// forget drops what was read of keys.
func (r *reader) forget(keys [][]byte) {
	for _, key := range keys {
		delete(r.known, string(key))
	}
}

// fail keeps the first error, for outcome.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// outcome returns the transaction's error. A failed read takes precedence over fn's
// error, which may be a consequence.
func (r *reader) outcome(fnErr error) error {
	if r.err != nil {
		return r.err
	}
	return fnErr
}

func (r *reader) mustBeOpen() {
	if r.ended {
		panic("pgkv: transaction used after its end")
	}
}

var getRows = statement{"get", "select w.k, last.v from unnest($1::bytea[]) w (k), " + lastVersion("v", "")}

// getCall reads rows into memory of their own.
func (db *DB) getCall(keys [][]byte, row func(key, sealed []byte)) call {
	return call{
		statement: db.in(getRows),
		params:    [][]byte{byteaArray(keys)},
		row:       func(v [][]byte) { row(bytes.Clone(v[0]), cloneValue(v[1])) },
	}
}

// cloneValue never returns nil.
func cloneValue(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

// in returns s for the table of this store.
func (db *DB) in(s statement) statement {
	return statement{s.name, in(s.sql, db.site.generation)}
}

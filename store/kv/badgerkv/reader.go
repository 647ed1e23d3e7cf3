package badgerkv

import (
	"errors"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// engineUnreadable is the reason if Badger itself fails on damage.
const engineUnreadable = "the engine cannot read it"

// base is a version of the store. Its transaction begins with the first read that the
// cache cannot answer.
type base struct {
	db      *DB
	version uint64
	txn     *badger.Txn
}

func (b *base) open() *badger.Txn {
	if b.txn == nil {
		b.txn = b.db.engine.NewTransactionAt(b.version, false)
	}
	return b.txn
}

func (b *base) discard() {
	if b.txn != nil {
		b.txn.Discard()
	}
}

// reader reads one version of the store.
type reader struct {
	base    *base
	damage  *[]damagedTable // what is known of it
	err     error           // the first failure of a GetMany or Scan
	cursors []*cursor       // of every Scan; one that was pulled may be left open
	ended   bool
}

// Get returns the value that base holds under key.
func (r *reader) Get(key []byte) ([]byte, error) {
	r.mustBeOpen()
	return r.getStored(key)
}

func (r *reader) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return r.getMany(keys, r.Get)
}

func (r *reader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		r.mustBeOpen()
		r.scan(rng, nil, yield)
	}
}

func (r *reader) getMany(keys [][]byte, get func([]byte) ([]byte, error)) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i, key := range keys {
			value, err := get(key)
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

// fail keeps the first error, for outcome.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// outcome returns the transaction's error. A failed sequence takes precedence over
// fn's error, which may be a consequence: an ErrNotFound caused by damage must not be
// reported as ErrNotFound.
func (r *reader) outcome(fnErr error) error {
	if r.err != nil {
		return r.err
	}
	return fnErr
}

// close ends the transaction and its cursors: Badger panics when a transaction is
// discarded with an open iterator.
func (r *reader) close() {
	r.ended = true
	for _, c := range r.cursors {
		c.close()
	}
}

func (r *reader) mustBeOpen() {
	if r.ended {
		panic("badgerkv: transaction used after its end")
	}
}

// getStored reads one key of base, from the cache if it knows it.
func (r *reader) getStored(key []byte) ([]byte, error) {
	if len(key) == 0 || key[0] == kv.ReservedPrefix {
		return nil, kv.ErrNotFound
	}
	if err := damagedKey(r.damage, key); err != nil {
		return nil, err
	}
	s := r.base.db.cache.shardOf(key)
	if s == nil {
		return r.getFromEngine(key)
	}
	value, known := s.get(key, r.base.version)
	if !known {
		var err error
		if value, err = r.getFromEngine(key); err != nil && !errors.Is(err, kv.ErrNotFound) {
			return nil, err
		}
		s.add(key, value, r.base.version)
	}
	if value == nil {
		return nil, kv.ErrNotFound
	}
	return value, nil
}

// getFromEngine returns a value that no later read overwrites. Badger panics on some
// kinds of damage.
func (r *reader) getFromEngine(key []byte) (value []byte, err error) {
	defer func() {
		if recover() != nil {
			value, err = nil, kv.Corrupt(key, engineUnreadable)
		}
	}()
	item, err := r.base.open().Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, kv.ErrNotFound
	}
	if err != nil {
		return nil, kv.Corrupt(key, engineUnreadable)
	}
	return itemValue(key, item)
}

// itemValue returns the value of item, valid until item is reused.
func itemValue(key []byte, item *badger.Item) ([]byte, error) {
	var sealed []byte
	err := item.Value(func(val []byte) error {
		sealed = val
		return nil
	})
	if err != nil {
		return nil, kv.Corrupt(key, engineUnreadable)
	}
	return kv.Unseal(key, sealed)
}

package kvtest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"tollhouse/store/kv"
)

// model is the reference for histories, simple enough to be obviously right: a map that
// every Update copies and every Scan sorts. It expires nothing and is for one goroutine.
type model map[string]string

func (m *model) View(_ context.Context, fn func(kv.Reader) error) error {
	return fn(&modelTxn{values: *m})
}

func (m *model) Update(_ context.Context, fn func(kv.Txn) error) error {
	t := &modelTxn{values: maps.Clone(*m)}
	if err := fn(t); err != nil {
		return err
	}
	*m = t.values
	return nil
}

func (m *model) Close() error { return nil }

type modelTxn struct {
	values model
	budget kv.Budget
}

func (t *modelTxn) Get(key []byte) ([]byte, error) {
	value, found := t.values[string(key)]
	if !found {
		return nil, kv.ErrNotFound
	}
	return []byte(value), nil
}

func (t *modelTxn) GetMany(keys [][]byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i, key := range keys {
			if value, found := t.values[string(key)]; found && !yield(i, []byte(value)) {
				return
			}
		}
	}
}

func (t *modelTxn) Scan(r kv.Range) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		values := maps.Clone(t.values)
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(key string) bool {
			return key < string(r.Lo) || r.Hi != nil && key >= string(r.Hi)
		})
		if r.Reverse {
			slices.Reverse(keys)
		}
		if r.Limit > 0 && len(keys) > r.Limit {
			keys = keys[:r.Limit]
		}
		for _, key := range keys {
			value := []byte(values[key])
			if r.KeysOnly {
				value = nil
			}
			if !yield([]byte(key), value) {
				return
			}
		}
	}
}

func (t *modelTxn) Set(key, value []byte, _ time.Time) error {
	if err := t.budget.Spend(key, value); err != nil {
		return err
	}
	t.values[string(key)] = string(value)
	return nil
}

func (t *modelTxn) Delete(key []byte) error {
	if err := t.budget.Spend(key, nil); err != nil {
		return err
	}
	delete(t.values, string(key))
	return nil
}

func (t *modelTxn) As(c kv.Class) kv.Class { return t.budget.As(c) }

func (t *modelTxn) Written() int { return t.budget.Written() }

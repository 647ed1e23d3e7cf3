package storetest

import (
	"context"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// EachKill makes a call in a process that is killed before its first commit, then in one that is
// killed before its second, and so on up to one that lives. Each time check gets a store on what
// was committed, in a process of its own.
func (f *Fixture) EachKill(t *testing.T, call func(context.Context, *store.Store) error, check func(left *store.Store)) {
	t.Helper()
	given := f.copied(t)
	for kill, killed := 0, true; killed; kill++ {
		db := memkv.NewFrom(given, nil)
		faults, commits := NewFaults(db), 0
		s := must.Get(store.Open(t.Context(), faults, f.options))(t)
		killed = false
		faults.OnUpdate(func(run func() error) error {
			if killed = killed || commits == kill; killed {
				return record.ErrUnavailable
			}
			commits++
			return run()
		})
		if err := call(t.Context(), s); !killed {
			must.Do(t, err)
		}
		check(must.Get(store.Open(t.Context(), memkv.NewFrom(db.State(), nil), f.options))(t))
	}
}

// EachCommit makes a call on a copy of the store and reports the tags of what each commit writes.
// An error of the call is the caller's: the engine has no snapshots.
func (f *Fixture) EachCommit(t *testing.T, call func(context.Context, *store.Store) error, wrote func(tags []byte)) error {
	t.Helper()
	s := must.Get(store.Open(t.Context(), &watched{memkv.NewFrom(f.copied(t), nil), wrote}, f.options))(t)
	return call(t.Context(), s)
}

// watched is an engine that reports what is written.
type watched struct {
	kv.DB
	wrote func(tags []byte)
}

func (w *watched) Update(ctx context.Context, fn func(kv.Txn) error) error {
	var tx watchedTxn
	err := w.DB.Update(ctx, func(inner kv.Txn) error {
		tx = watchedTxn{Txn: inner}
		return fn(&tx)
	})
	if err == nil {
		w.wrote(tx.tags)
	}
	return err
}

type watchedTxn struct {
	kv.Txn
	tags []byte
}

func (t *watchedTxn) Set(key, value []byte, expiresAt time.Time) error {
	t.tags = append(t.tags, key[0])
	return t.Txn.Set(key, value, expiresAt)
}

func (t *watchedTxn) Delete(key []byte) error {
	t.tags = append(t.tags, key[0])
	return t.Txn.Delete(key)
}

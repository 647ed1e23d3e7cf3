package storetest

import (
	"context"
	"testing"

	"tollhouse/store"
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

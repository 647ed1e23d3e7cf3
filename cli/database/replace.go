package database

import (
	"context"
	"errors"
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
)

// Replaced are the generations before and after a replacement, and the fingerprint of the
// server key that servers used before, or "".
type Replaced struct {
	Old, New int
	Key      string
}

// Replace builds another generation of the data while no server runs, and then switches to
// it atomically. Before that nothing changes; the next call drops what an interrupted one
// has built. The store may keep the old generation.
func Replace(ctx context.Context, o Options, fill func(old, next *pgkv.DB) error) (r Replaced, err error) {
	err = alone(ctx, o, func(old *pgkv.DB, key string, still func() error) error {
		next, err := pgkv.Open(ctx, pgkv.Options{Address: o.Address, Connections: commandConnections, Next: true, Log: o.Store.Log})
		if err != nil {
			return err
		}
		r = Replaced{Old: old.Generation(), New: next.Generation(), Key: key}
		if err = fill(old, next); err == nil {
			err = still()
		}
		if err == nil {
			err = next.Adopt(ctx)
		}
		return errors.Join(err, next.Close())
	})
	return r, fault(o.Address, err)
}

// IsEmpty reports whether a store has no records.
func IsEmpty(ctx context.Context, db *pgkv.DB) (empty bool, err error) {
	err = db.View(ctx, func(r kv.Reader) error {
		empty = true
		for range r.Scan(kv.Range{KeysOnly: true, Limit: 1}) {
			empty = false
		}
		return nil
	})
	return empty, err
}

// Alone calls fn with the store of a database while no server runs on it. key is the
// fingerprint of the servers' key, or "". fn calls still before what it made is used.
// Errors: [ErrEmpty].
func Alone(ctx context.Context, o Options, fn func(db *pgkv.DB, key string, still func() error) error) error {
	made, err := isMade(ctx, o.Address)
	if err == nil && !made {
		err = ErrEmpty
	}
	if err == nil {
		err = alone(ctx, o, fn)
	}
	return fault(o.Address, err)
}

// fault is openFault for what the caller of fn has not explained.
func fault(a *pgkv.Address, err error) error {
	var explained *term.Failure
	if errors.As(err, &explained) {
		return err
	}
	return openFault(a, err)
}

// alone calls fn while no server runs. still fails if the lock has been lost: a server may
// have started since, and the copy may lack its writes.
func alone(ctx context.Context, o Options, fn func(db *pgkv.DB, key string, still func() error) error) error {
	s, err := pgkv.DialFirst(ctx, o.Address)
	if err != nil {
		return err
	}
	defer s.Close()
	free, err := s.TakeOver(ctx)
	if err != nil {
		return err
	}
	if !free {
		if strangers, err := s.Strangers(ctx); err == nil && len(strangers) > 0 {
			return term.Fail(term.ExitBusy, "end that session and revoke the right to connect from other roles; tollhouse doctor shows how", "the database %s is in use: %s", o.Address, pgkv.Describe(strangers))
		}
		return term.Fail(term.ExitBusy, "stop all servers on it first; tollhouse status lists them", "a server runs on the database %s", o.Address)
	}
	db, err := pgkv.Open(ctx, pgkv.Options{Address: o.Address, Connections: commandConnections, Log: o.Store.Log})
	if err != nil {
		return err
	}
	site, err := s.Site(ctx)
	if err == nil {
		err = fn(db, site[pgkv.SiteKey], func() error {
			if has, err := s.HasTakenOver(ctx); err != nil || !has {
				return term.Fail(term.ExitBusy, "stop all servers, find out why the database ended the session, and try again",
					"the lock on the database %s was lost, so a server may have written to it", o.Address)
			}
			return nil
		})
	}
	return errors.Join(err, db.Close())
}

// SetKey records the fingerprint of the server key that belongs to the data.
func SetKey(ctx context.Context, a *pgkv.Address, fingerprint string) error {
	s, err := pgkv.Dial(ctx, a)
	if err == nil {
		defer s.Close()
		err = s.SetSite(ctx, map[string]string{pgkv.SiteKey: fingerprint})
	}
	return openFault(a, err)
}

// TableOf returns the name of a generation's table.
func TableOf(generation int) string { return fmt.Sprintf("kv_%04d", generation) }

package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The latest sign-in of a user and the latest use of a client have records of their own,
// which outlive the sessions and families.

const latestRecord = 1

func decodeLatest(v []byte) (time.Time, error) {
	d := record.NewDecoder("latest use", latestRecord, v)
	at := d.Time()
	return at, d.Done()
}

// LatestSignIns returns when each user last signed in with a browser; zero for never.
func (s *Store) LatestSignIns(ctx context.Context, users ...User) ([]time.Time, error) {
	keys := make([][]byte, len(users))
	for i, u := range users {
		keys[i] = record.SignInKey(u.ID)
	}
	at, err := s.readLatest(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("latest sign-ins: %w", err)
	}
	return at, nil
}

// LatestUses returns when a token of each client was last used, exact to a few minutes;
// zero for never.
func (s *Store) LatestUses(ctx context.Context, clientIDs ...string) ([]time.Time, error) {
	keys := make([][]byte, len(clientIDs))
	for i, id := range clientIDs {
		keys[i] = record.ClientUseKey(id)
	}
	at, err := s.readLatest(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("latest uses: %w", err)
	}
	return at, nil
}

func (s *Store) readLatest(ctx context.Context, keys [][]byte) (at []time.Time, err error) {
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		at = make([]time.Time, len(keys))
		for i, v := range r.GetMany(keys) {
			if at[i], err = decodeLatest(v); err != nil {
				return err
			}
		}
		return nil
	})
	return at, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// recordClientUse stores the use of a client, unless it was deleted.
func recordClientUse(tx kv.Txn, id string, now time.Time) error {
	if _, err := tx.Get(record.ClientKey(id)); err != nil {
		return record.GoneIsNil(err)
	}
	return raiseLatest(tx, record.ClientUseKey(id), now)
}

// raiseLatest stores a latest time, unless a later one is stored: processes write theirs
// in any order.
func raiseLatest(tx kv.Txn, key record.Key, at time.Time) error {
	v, err := tx.Get(key)
	if err == nil {
		var stored time.Time
		stored, err = decodeLatest(v)
		at = later(at, stored)
	}
	if record.GoneIsNil(err) != nil {
		return err
	}
	return tx.Set(key, record.NewEncoder(latestRecord).Time(at).B, time.Time{})
}

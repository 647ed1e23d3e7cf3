package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// An operator names a sign-in by half of its token's hash: enough to be the only
// one, and nothing that a browser could show in its place.

const (
	sessionNamePrefix = "ses_"
	sessionNameBytes  = 16 // of the hash; 128 bits, as of every id
)

// Name is the session's id as operators see it.
func (sn Session) Name() string {
	return string(secret.AppendCrockford([]byte(sessionNamePrefix), [16]byte(sn.hash[:sessionNameBytes])))
}

// sessionNamed returns the beginning of the hash that a name stands for.
func sessionNamed(name string) (start [16]byte, ok bool) {
	return numberNamed(sessionNamePrefix, name)
}

// SessionEnds returns when the sign-in ends if it is not seen again.
func (s *Store) SessionEnds(sn Session) time.Time {
	return earlier(sn.ExpiresAt, sn.SeenAt.Add(s.lives.SessionIdle))
}

// ListLiveSessions returns at most limit live sign-ins, of one user or, when of
// is nil, of all, behind the one of that name, in the order of their names.
// Errors: *InvalidError for a name that is none.
func (s *Store) ListLiveSessions(ctx context.Context, of *User, behind string, limit int) (list []Session, err error) {
	index := newKey(tagSession)
	if of != nil {
		index = userSessionsKey(of.ID)
	}
	lo, ok := behindName(index, behind, sessionNamed)
	if !ok {
		return nil, invalid("after", "tollhouse session list shows those that there are", "after must be the id of a session")
	}
	_, err = s.eachIndexPageFrom(ctx, index, lo, func(ends [][]byte) (more bool, err error) {
		live, err := s.liveSessions(ctx, ends)
		list = append(list, live[:min(len(live), limit-len(list))]...)
		return len(list) < limit, err
	})
	if err != nil {
		return nil, fmt.Errorf("list live sessions: %w", err)
	}
	return list, nil
}

// liveSessions returns the live ones among the sessions of those hashes, with
// their users.
func (s *Store) liveSessions(ctx context.Context, hashes [][]byte) (live []Session, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		live = nil
		for _, h := range hashes {
			sn, err := readSessionWithUser(r, secret.Hash(h))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if s.isLive(sn) {
				live = append(live, sn)
			}
		}
		return nil
	})
	return live, err
}

func readSessionWithUser(r kv.Reader, h secret.Hash) (Session, error) {
	sn, err := readSession(r, h)
	if err != nil {
		return Session{}, err
	}
	sn.User, err = readUser(r, sn.user)
	return sn, err
}

// DeleteSessionNamed ends the live sign-in of that name and returns what it was.
// Errors: ErrNotFound.
func (s *Store) DeleteSessionNamed(ctx context.Context, name string) (ended Session, err error) {
	start, ok := sessionNamed(name)
	if !ok {
		return Session{}, fmt.Errorf("delete session: %w", ErrNotFound)
	}
	index := newKey(tagSession)
	var hashes [][]byte
	r := append(slices.Clone(index), start[:]...).all()
	r.KeysOnly, r.Limit = true, 1
	err = s.db.View(ctx, func(rd kv.Reader) error {
		hashes = nil
		for k := range rd.Scan(r) {
			hashes = append(hashes, slices.Clone(k[len(index):]))
		}
		return nil
	})
	if err == nil && len(hashes) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Session{}, fmt.Errorf("delete session: %w", err)
	}
	h := secret.Hash(hashes[0])
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		if ended, err = readSessionWithUser(tx, h); err != nil {
			return err
		}
		if !s.isLive(ended) {
			return ErrNotFound
		}
		return deleteKeys(tx, sessionKey(h), userSessionsKey(ended.user).hash(h))
	})
	if err != nil {
		return Session{}, fmt.Errorf("delete session: %w", err)
	}
	return ended, nil
}

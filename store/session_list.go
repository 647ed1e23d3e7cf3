package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Operators identify a session by half of its token's hash. That is unique, and a
// browser cannot use it as a token.

const (
	sessionNamePrefix = "ses_"
	sessionNameBytes  = 16 // of the hash: 128 bits, like every id
)

// Name is the session's id for operators.
func (sn Session) Name() string {
	return string(secret.AppendCrockford([]byte(sessionNamePrefix), [16]byte(sn.hash[:sessionNameBytes])))
}

// sessionNamed returns the first half of the hash in a name.
func sessionNamed(name string) (start [16]byte, ok bool) {
	return numberNamed(sessionNamePrefix, name)
}

// SessionEnds returns when the session ends if it is not used again.
func (s *Store) SessionEnds(sn Session) time.Time {
	return earlier(sn.ExpiresAt, sn.SeenAt.Add(s.Lifetimes().SessionIdle))
}

// ListLiveSessions returns up to limit live sessions, of one user or, if of is nil, of
// all, after the given name, in the order of their names. Errors: *InvalidError for a
// malformed name.
func (s *Store) ListLiveSessions(ctx context.Context, of *User, behind string, limit int) (list []Session, err error) {
	index := record.NewKey(record.TagSession)
	if of != nil {
		index = record.UserSessionsKey(of.ID)
	}
	lo, ok := behindName(index, behind, sessionNamed)
	if !ok {
		return nil, record.Invalid("after", "tollhouse session list shows the ids", "after must be the id of a session")
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

// liveSessions returns the live sessions among hashes, with their users.
func (s *Store) liveSessions(ctx context.Context, hashes [][]byte) (live []Session, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		live = nil
		prefetchSessions(r, hashes)
		record.Prefetch(r, hashes, func(h []byte) record.Key {
			sn, _ := readSession(r, secret.Hash(h)) // an error shows below
			return record.UserKey(sn.user)
		})
		record.Prefetch(r, hashes, func(h []byte) record.Key {
			sn, _ := readSession(r, secret.Hash(h))
			u, _ := record.Read(r, record.UserKey(sn.user), sn.user, decodeUser)
			return record.AccountKey(u.Account)
		})
		for _, h := range hashes {
			sn, err := readSessionWithUser(r, secret.Hash(h))
			if errors.Is(err, record.ErrNotFound) {
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

func prefetchSessions(r kv.Reader, hashes [][]byte) {
	record.Prefetch(r, hashes, func(h []byte) record.Key { return record.SessionKey(secret.Hash(h)) })
}

func readSessionWithUser(r kv.Reader, h secret.Hash) (Session, error) {
	sn, err := readSession(r, h)
	if err != nil {
		return Session{}, err
	}
	sn.User, err = readUser(r, sn.user)
	return sn, err
}

// FindSessionNamed returns the live session with that name. Errors: ErrNotFound.
func (s *Store) FindSessionNamed(ctx context.Context, name string) (Session, error) {
	h, err := s.sessionHash(ctx, name)
	var live []Session
	if err == nil {
		live, err = s.liveSessions(ctx, [][]byte{h[:]})
	}
	if err == nil && len(live) == 0 {
		err = record.ErrNotFound
	}
	if err != nil {
		return Session{}, fmt.Errorf("find session: %w", err)
	}
	return live[0], nil
}

// sessionHash returns the hash that a name is the beginning of. Errors: ErrNotFound.
func (s *Store) sessionHash(ctx context.Context, name string) (h secret.Hash, err error) {
	start, ok := sessionNamed(name)
	if !ok {
		return h, record.ErrNotFound
	}
	index := record.NewKey(record.TagSession)
	var hashes [][]byte
	r := append(slices.Clone(index), start[:]...).All()
	r.KeysOnly, r.Limit = true, 1
	err = s.db.View(ctx, func(rd kv.Reader) error {
		hashes = nil
		for k := range rd.Scan(r) {
			hashes = append(hashes, slices.Clone(k[len(index):]))
		}
		return nil
	})
	if err == nil && len(hashes) == 0 {
		err = record.ErrNotFound
	}
	if err != nil {
		return h, err
	}
	return secret.Hash(hashes[0]), nil
}

// DeleteSessionNamed ends the live session with that name and returns it. Errors:
// ErrNotFound; those of the guards, of which only Live is called.
func (s *Store) DeleteSessionNamed(ctx context.Context, name string, guards ...Guard) (ended Session, err error) {
	h, err := s.sessionHash(ctx, name)
	if err != nil {
		return Session{}, fmt.Errorf("delete session: %w", err)
	}
	line := s.change(ctx, "signed out by the operator")
	line.What = AuditRevoke
	err = record.UpdateAs(ctx, checks(guards).guarded(s.db), kv.Ruling, func(tx kv.Txn) error {
		if ended, err = readSessionWithUser(tx, h); err != nil {
			return err
		}
		if !s.isLive(ended) {
			return record.ErrNotFound
		}
		return errors.Join(record.DeleteKeys(tx, record.SessionKey(h), record.UserSessionsKey(ended.user).Hash(h)), line.ofUser(tx, ended.User))
	})
	if err != nil {
		return Session{}, fmt.Errorf("delete session: %w", err)
	}
	return ended, nil
}

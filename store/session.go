package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Session is a browser sign-in.
type Session struct {
	User            User
	AuthenticatedAt time.Time
	SeenAt          time.Time // within the last few minutes of being exact
	ExpiresAt       time.Time // at the latest; SessionIdle after SeenAt otherwise

	hash       secret.Hash
	user       secret.ID
	generation uint64
	createdAt  time.Time
}

const sessionRecord = 1

// seenEvery is how often a session's or a family's last use is written down: a
// read that wrote each time would make every request wait for a disk.
const seenEvery = 5 * time.Minute

// CreateSession begins a sign-in for a user who has just proved a password, and
// ends the one that the browser held before, if any: a session id never
// survives a sign-in. Errors: ErrDisabled when the user was disabled or given
// another password meanwhile, ErrNotFound.
func (s *Store) CreateSession(ctx context.Context, u User, old secret.Token) (secret.Token, Session, error) {
	token := secret.New(secret.SessionToken)
	sn := s.newSession(u, token, s.Now())
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		current, err := readUser(tx, u.ID)
		if err != nil {
			return err
		}
		if !current.DisabledAt.IsZero() || current.Generation != u.Generation {
			return ErrDisabled
		}
		if !old.IsZero() {
			if err := deleteSession(tx, old.Hash()); err != nil {
				return err
			}
		}
		return createSession(tx, sn)
	})
	if err != nil {
		return secret.Token{}, Session{}, fmt.Errorf("create session: %w", err)
	}
	return token, sn, nil
}

func (s *Store) newSession(u User, token secret.Token, now time.Time) Session {
	return Session{User: u, AuthenticatedAt: now, SeenAt: now, ExpiresAt: now.Add(s.lives.Session),
		hash: token.Hash(), user: u.ID, generation: u.Generation, createdAt: now}
}

// createSession stores a new session with its index entry.
func createSession(tx kv.Txn, sn Session) error {
	if err := tx.Set(userSessionsKey(sn.user).hash(sn.hash), nil, sn.ExpiresAt); err != nil {
		return err
	}
	return writeSession(tx, sn)
}

// FindSession returns the live session of that token with its user, and notes
// that it was seen. Errors: ErrNotFound for every reason there is.
func (s *Store) FindSession(ctx context.Context, token secret.Token) (sn Session, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		if sn, err = readSession(r, token.Hash()); err != nil {
			return err
		}
		sn.User, err = readUser(r, sn.user)
		return err
	})
	if err == nil && !s.isLive(sn) {
		err = ErrNotFound
	}
	if err != nil {
		return Session{}, fmt.Errorf("find session: %w", err)
	}
	if s.Now().Sub(sn.SeenAt) >= seenEvery {
		s.marks.sessionSeen(sn.hash)
	}
	return sn, nil
}

func (s *Store) isLive(sn Session) bool {
	now := s.Now()
	return now.Before(sn.ExpiresAt) && now.Before(sn.SeenAt.Add(s.lives.SessionIdle)) &&
		sn.User.DisabledAt.IsZero() && sn.User.Generation == sn.generation
}

// DeleteSession ends a sign-in. One that is not there is no error.
func (s *Store) DeleteSession(ctx context.Context, token secret.Token) error {
	err := s.db.Update(ctx, func(tx kv.Txn) error { return deleteSession(tx, token.Hash()) })
	if err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

func deleteSession(tx kv.Txn, h secret.Hash) error {
	sn, err := readSession(tx, h)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return deleteKeys(tx, sessionKey(h), userSessionsKey(sn.user).hash(h))
}

func readSession(r kv.Reader, h secret.Hash) (Session, error) {
	v, err := r.Get(sessionKey(h))
	if err != nil {
		return Session{}, found(err)
	}
	return decodeSession(h, v)
}

func decodeSession(h secret.Hash, v []byte) (Session, error) {
	d := newDecoder("session", sessionRecord, v)
	sn := Session{hash: h, user: d.id(), generation: d.uint(), createdAt: d.time(), AuthenticatedAt: d.time(), SeenAt: d.time(), ExpiresAt: d.time()}
	return sn, d.done()
}

func writeSession(tx kv.Txn, sn Session) error {
	e := newEncoder(sessionRecord)
	e.id(sn.user)
	e.uint(sn.generation)
	e.time(sn.createdAt)
	e.time(sn.AuthenticatedAt)
	e.time(sn.SeenAt)
	e.time(sn.ExpiresAt)
	return tx.Set(sessionKey(sn.hash), e.b, sn.ExpiresAt)
}

// sessionsReadMax bounds the sign-ins of one user that are looked through.
const sessionsReadMax = 1000

// ListSessions returns the user's live sign-ins, the newest first. Of a user who
// has more than are looked through, some are missing.
func (s *Store) ListSessions(ctx context.Context, u User) ([]Session, error) {
	var list []Session
	prefix := userSessionsKey(u.ID)
	r := prefix.all()
	r.KeysOnly, r.Limit = true, sessionsReadMax
	err := s.db.View(ctx, func(rd kv.Reader) error {
		list = nil
		for k := range rd.Scan(r) {
			sn, err := readSession(rd, secret.Hash(k[len(prefix):]))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if sn.User = u; s.isLive(sn) {
				list = append(list, sn)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	slices.SortFunc(list, func(a, b Session) int { return b.AuthenticatedAt.Compare(a.AuthenticatedAt) })
	return list, nil
}

// Is reports whether sn is the sign-in of that token.
func (sn Session) Is(token secret.Token) bool { return sn.hash.Equal(token.Hash()) }

// DeleteOtherSessions ends all sign-ins of the user but the one of that token.
func (s *Store) DeleteOtherSessions(ctx context.Context, u User, keep secret.Token) error {
	if _, err := s.deleteSessions(ctx, u, keep.Hash()); err != nil {
		return fmt.Errorf("delete other sessions: %w", err)
	}
	return nil
}

// DeleteSessions ends all sign-ins of the user and returns how many of them
// were live.
func (s *Store) DeleteSessions(ctx context.Context, u User) (ended int, err error) {
	if ended, err = s.deleteSessions(ctx, u, secret.Hash{}); err != nil {
		return 0, fmt.Errorf("delete sessions: %w", err)
	}
	return ended, nil
}

// deleteSessions ends the sign-ins of the user but the one kept, if any.
func (s *Store) deleteSessions(ctx context.Context, u User, kept secret.Hash) (ended int, err error) {
	_, err = s.eachIndexPage(ctx, userSessionsKey(u.ID), func(ends [][]byte) (more bool, err error) {
		ends = slices.DeleteFunc(ends, func(h []byte) bool { return bytes.Equal(h, kept[:]) })
		live, err := s.liveSessions(ctx, ends)
		if err != nil {
			return false, err
		}
		ended += len(live)
		for batch := range slices.Chunk(ends, deleteBatchMax/4) {
			err := s.db.Update(ctx, func(tx kv.Txn) error {
				for _, h := range batch {
					if err := deleteKeys(tx, sessionKey(secret.Hash(h)), userSessionsKey(u.ID).hash(secret.Hash(h))); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return ended, err
}

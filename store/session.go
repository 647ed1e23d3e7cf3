package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Session is a browser's sign-in.
type Session struct {
	User            User
	AuthenticatedAt time.Time
	SeenAt          time.Time // exact to a few minutes
	ExpiresAt       time.Time // at the latest; or SessionIdle after SeenAt, if earlier
	Browser         string    // that signed in, such as "Firefox on Linux"; "" if it is unknown
	Amr             Amr
	FactorAt        time.Time // when the second factor was last proved, or zero

	hash      secret.Hash
	user      secret.ID
	createdAt time.Time

	generation, accountGeneration, factorRevision uint64
}

const sessionRecord = 1

// seenEvery is how often the last use of a session or family is stored. Writing it on
// each read would make every request wait for the disk.
const seenEvery = 5 * time.Minute

// CreateSession starts a session for a user who has just authenticated, and ends the
// browser's previous one, if any: a session id never survives a sign-in. The sign-in is
// recorded in the audit log with the reason, in the same transaction. Errors: ErrDisabled
// if the user or the account was disabled in the meantime, or their sign-ins were ended, or the user
// needs a second factor; ErrNotFound,
// *BudgetError.
func (s *Store) CreateSession(ctx context.Context, by By, u User, old secret.Token, reason string) (secret.Token, Session, error) {
	return s.beginSession(ctx, by, u, old, reason, AmrPassword)
}

// CreateSessionUnasked is [Store.CreateSession] for a user whom nobody asks for anything: of dev.
func (s *Store) CreateSessionUnasked(ctx context.Context, by By, u User, old secret.Token, reason string) (secret.Token, Session, error) {
	if s.NeedsFactor(u) {
		return s.beginSession(ctx, by, u, old, reason, AmrCode)
	}
	return s.beginSession(ctx, by, u, old, reason, AmrPassword)
}

func (s *Store) beginSession(ctx context.Context, by By, u User, old secret.Token, reason string, amr Amr) (secret.Token, Session, error) {
	token := secret.New(s.random, secret.SessionToken)
	tail, now := secret.NewTail(s.random), s.Now()
	sn := s.newSession(u, by.Browser, token, now)
	if sn.Amr = amr; amr.HasFactor() {
		sn.FactorAt = now
	}
	line := AuditLine{What: AuditLogin, Reason: reason, By: by, UserID: u.Subject(), AccountID: u.Account, Amr: amr}
	signIn := func(tx kv.Txn) error {
		current, err := readUser(tx, u.ID)
		if err != nil {
			return err
		}
		if !current.keeps(u.Generation, u.accountNow.Generation) || current.factorRevision != u.factorRevision || !amr.HasFactor() && s.NeedsFactor(current) {
			return record.ErrDisabled
		}
		if !old.IsZero() {
			if err := deleteSession(tx, old.Hash()); err != nil {
				return err
			}
		}
		if err := createSession(tx, sn); err != nil {
			return err
		}
		return appendAudit(tx, line, now, tail)
	}
	if err := s.signIn(ctx, u, signIn); err != nil {
		return secret.Token{}, Session{}, fmt.Errorf("create session: %w", err)
	}
	return token, sn, nil
}

// signIn is an Update that signs a user in, or refuses to.
func (s *Store) signIn(ctx context.Context, u User, fn func(kv.Txn) error) error {
	ctx = s.naming(ctx, func() [][]byte {
		return [][]byte{record.UserKey(u.ID), record.SignInKey(u.ID), record.AccountKey(u.Account), record.MetaKey(auditHeadName)}
	})
	if u.Operator { // who may be about to stop what fills the disk
		return record.UpdateAs(ctx, s.db, kv.Ruling, fn)
	}
	return s.access(ctx, u.Account, fn)
}

func (s *Store) newSession(u User, browser string, token secret.Token, now time.Time) Session {
	return Session{User: u, Browser: browser, AuthenticatedAt: now, SeenAt: now, ExpiresAt: now.Add(s.Lifetimes().Session), Amr: AmrPassword,
		hash: token.Hash(), user: u.ID, generation: u.Generation, accountGeneration: u.accountNow.Generation, factorRevision: u.factorRevision, createdAt: now}
}

// createSession stores a new session with its index entry, and the user's latest sign-in.
func createSession(tx kv.Txn, sn Session) error {
	if err := tx.Set(record.UserSessionsKey(sn.user).Hash(sn.hash), nil, sn.ExpiresAt); err != nil {
		return err
	}
	if err := raiseLatest(tx, record.SignInKey(sn.user), sn.AuthenticatedAt); err != nil {
		return err
	}
	return writeSession(tx, sn)
}

// FindSession returns the live session of a token with its user, and records that it
// was seen. Errors: ErrNotFound for every reason.
func (s *Store) FindSession(ctx context.Context, token secret.Token) (sn Session, err error) {
	if sn, err = s.PeekSession(ctx, token); err != nil {
		return Session{}, err
	}
	s.SessionSeen(sn)
	return sn, nil
}

// SessionSeen records that a session was used, at most four times in SessionIdle: a
// session in steady use stays, and another may expire up to a quarter of that too early.
func (s *Store) SessionSeen(sn Session) {
	if s.Now().Sub(sn.SeenAt) >= min(seenEvery, s.Lifetimes().SessionIdle/4) {
		s.lastUsed.sessionSeen(sn.hash)
	}
}

// PeekSession is FindSession for a page that refreshes itself: it records no use.
func (s *Store) PeekSession(ctx context.Context, token secret.Token) (sn Session, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		if sn, err = readSession(r, token.Hash()); err != nil {
			return err
		}
		sn.User, err = readUser(r, sn.user)
		return err
	})
	if err == nil && !s.isLive(sn) {
		err = record.ErrNotFound
	}
	if err != nil {
		return Session{}, fmt.Errorf("find session: %w", err)
	}
	return sn, nil
}

func (s *Store) isLive(sn Session) bool {
	now := s.Now()
	return now.Before(sn.ExpiresAt) && now.Before(sn.SeenAt.Add(s.Lifetimes().SessionIdle)) &&
		sn.User.keeps(sn.generation, sn.accountGeneration) && sn.factorRevision == sn.User.factorRevision &&
		(sn.Amr.HasFactor() || !s.NeedsFactor(sn.User))
}

// OperatorIn checks within a transaction that the session of a token is still that of an operator: it
// may end, and the role too, while the transaction waits for its turn. It is a [Guard]'s Live. Errors:
// ended, if it is not.
func (s *Store) OperatorIn(token secret.Token, ended error) func(r kv.Reader) error {
	return func(r kv.Reader) error {
		sn, err := readSessionWithUser(r, token.Hash())
		if errors.Is(err, record.ErrNotFound) || err == nil && !(s.isLive(sn) && sn.User.Operator) {
			return ended
		}
		return err
	}
}

// DeleteSession ends a session. An unknown session is no error.
func (s *Store) DeleteSession(ctx context.Context, token secret.Token) error {
	err := record.UpdateAs(ctx, s.db, kv.Ending, func(tx kv.Txn) error { return deleteSession(tx, token.Hash()) })
	if err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

func deleteSession(tx kv.Txn, h secret.Hash) error {
	sn, err := readSession(tx, h)
	if errors.Is(err, record.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return record.DeleteKeys(tx, record.SessionKey(h), record.UserSessionsKey(sn.user).Hash(h))
}

func readSession(r kv.Reader, h secret.Hash) (Session, error) {
	return record.Read(r, record.SessionKey(h), h, decodeSession)
}

func decodeSession(h secret.Hash, v []byte) (Session, error) {
	d := record.NewDecoder("session", sessionRecord, v)
	sn := Session{hash: h, user: d.ID(), generation: d.Uint(), createdAt: d.Time(), AuthenticatedAt: d.Time(), SeenAt: d.Time(), ExpiresAt: d.Time(), accountGeneration: d.Uint(), Browser: d.Str()}
	if d.More() {
		sn.Amr, sn.factorRevision, sn.FactorAt = decodeAmr(&d), d.Uint(), d.Time()
	}
	return sn, d.Done()
}

func writeSession(tx kv.Txn, sn Session) error {
	return tx.Set(record.SessionKey(sn.hash), encodeSession(sn), sn.ExpiresAt)
}

func encodeSession(sn Session) []byte {
	e := record.NewEncoder(sessionRecord).ID(sn.user).Uint(sn.generation).Time(sn.createdAt).Time(sn.AuthenticatedAt).
		Time(sn.SeenAt).Time(sn.ExpiresAt).Uint(sn.accountGeneration).Str(sn.Browser)
	if sn.Amr != AmrUnknown {
		e.Byte(byte(sn.Amr)).Uint(sn.factorRevision).Time(sn.FactorAt)
	}
	return e.B
}

// sessionsReadMax bounds the sessions of one user that are read.
const sessionsReadMax = 1000

// ListSessions returns the user's live sessions, newest first. If the user has more
// than are read, some are missing.
func (s *Store) ListSessions(ctx context.Context, u User) ([]Session, error) {
	var list []Session
	prefix := record.UserSessionsKey(u.ID)
	r := prefix.All()
	r.KeysOnly, r.Limit = true, sessionsReadMax
	err := s.db.View(ctx, func(rd kv.Reader) error {
		list = nil
		var hashes [][]byte
		for k := range rd.Scan(r) {
			hashes = append(hashes, slices.Clone(k[len(prefix):]))
		}
		prefetchSessions(rd, hashes)
		for _, h := range hashes {
			sn, err := readSession(rd, secret.Hash(h))
			if errors.Is(err, record.ErrNotFound) {
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

// Is reports whether sn is the session of that token.
func (sn Session) Is(token secret.Token) bool { return sn.hash.Equal(token.Hash()) }

// DeleteOtherSessions ends the user's sessions except that of the token, and returns how
// many were live.
func (s *Store) DeleteOtherSessions(ctx context.Context, u User, keep secret.Token) (ended int, err error) {
	line := s.change(ctx, "signed out everywhere else")
	if ended, err = s.deleteSessions(ctx, s.db, kv.Ending, u, keep.Hash(), &line); err != nil {
		return 0, fmt.Errorf("delete other sessions: %w", err)
	}
	return ended, nil
}

// DeleteSessions ends all sessions of the user, for the operator, and returns how many were
// live. The user's unredeemed codes are revoked too. Errors: those of the guards, of which only Live
// is called.
func (s *Store) DeleteSessions(ctx context.Context, by By, u User, guards ...Guard) (ended int, err error) {
	line, db := s.change(ctx, "signed out everywhere by the operator"), checks(guards).guarded(s.db)
	ended, err = s.deleteSessions(ctx, db, kv.Ruling, u, secret.Hash{}, &line)
	if err == nil && line.isAsked { // there was nothing to end
		err = record.UpdateAs(ctx, db, kv.Ruling, func(tx kv.Txn) error { return line.ofUser(tx, u) })
	}
	if err == nil {
		err = s.revokeCodes(ctx, db, by, record.AllUserCodesKey(u.ID), ReasonRevokedByOperator)
	}
	if err != nil {
		return 0, fmt.Errorf("delete sessions: %w", err)
	}
	return ended, nil
}

// deleteSessions ends the user's sessions except kept, if any. The line is written with the
// first of those that were live, and then emptied: otherwise a user could fill the audit record.
func (s *Store) deleteSessions(ctx context.Context, db kv.DB, class kv.Class, u User, kept secret.Hash, line *changeLine) (ended int, err error) {
	line.What = AuditRevoke
	_, err = s.eachIndexPage(ctx, record.UserSessionsKey(u.ID), func(ends [][]byte) (more bool, err error) {
		ends = slices.DeleteFunc(ends, func(h []byte) bool { return bytes.Equal(h, kept[:]) })
		live, err := s.liveSessions(ctx, ends)
		if err != nil {
			return false, err
		}
		ended += len(live)
		for batch := range slices.Chunk(ends, record.DeleteBatchMax/4) {
			var due changeLine
			if ended > 0 {
				due = *line
			}
			err := record.UpdateAs(ctx, db, class, func(tx kv.Txn) error {
				for _, h := range batch {
					if err := record.DeleteKeys(tx, record.SessionKey(secret.Hash(h)), record.UserSessionsKey(u.ID).Hash(secret.Hash(h))); err != nil {
						return err
					}
				}
				return due.ofUser(tx, u)
			})
			if err != nil {
				return false, err
			}
			if ended > 0 {
				*line = changeLine{}
			}
		}
		return true, nil
	})
	return ended, err
}

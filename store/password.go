package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// CheckPassword checks the length of a new password, as it is compared: another keyboard
// may type it in more or fewer bytes. Errors: *InvalidError.
func CheckPassword(password string) error {
	if n := len(secret.PreparePassword(password)); n < secret.PasswordSizeMin || n > secret.PasswordSizeMax {
		return record.Invalid("password", "choose a longer phrase, and none over the limit", "a password has %d to %d bytes; this one has %d",
			secret.PasswordSizeMin, secret.PasswordSizeMax, n)
	}
	return nil
}

// SetPassword gives a user a new password, revokes all sessions, codes and tokens, and
// disables the webhook endpoints that they created.
// Errors: *InvalidError, ErrNotFound.
func (s *Store) SetPassword(ctx context.Context, user, password string) (User, error) {
	if err := CheckPassword(password); err != nil {
		return User{}, err
	}
	hash, err := s.hasher.Hash(ctx, secret.Caller{}, password)
	if err != nil {
		return User{}, fmt.Errorf("set password: %w", err)
	}
	return s.endUser(ctx, user, "password set", nil, func(u *User) {
		u.setPassword(hash)
		u.lent = false
		u.Generation++
	})
}

// AuditPasswordChanged means that a user changed their own password.
const AuditPasswordChanged Audited = "password_changed"

// Reasons of a password change in the audit log.
const (
	reasonAllEnded  = "everything else ended"
	reasonRestStays = "other sign-ins and tokens are kept"
)

// PasswordChange is a user's request to change their password.
type PasswordChange struct {
	User    User         // as [Store.AuthenticateUser] returned it for the old password
	Session secret.Token // the session that asks
	New     string
	EndAll  bool // also end other sessions, codes, tokens and their webhook endpoints
	By      By
	Caller  secret.Caller
}

// ChangePassword gives a user a new password and, in the same transaction, the asking
// browser a session under a new id. It returns the token of that session and the
// changed user. Errors: *InvalidError, ErrBusy, ErrTooOften; ErrDisabled if the session, the user
// or the proved password has changed in the meantime, and then nothing is written.
func (s *Store) ChangePassword(ctx context.Context, c PasswordChange) (secret.Token, User, error) {
	if err := CheckPassword(c.New); err != nil {
		return secret.Token{}, User{}, err
	}
	if !s.passwords.Allows(c.User.ID, s.Now()) {
		return secret.Token{}, User{}, fmt.Errorf("change password: %w", ErrTooOften)
	}
	hash, err := s.hasher.Hash(ctx, c.Caller, c.New)
	if err != nil {
		return secret.Token{}, User{}, fmt.Errorf("change password: %w", err)
	}
	token, tail, now := secret.New(s.random, secret.SessionToken), secret.NewTail(s.random), s.Now()
	line := AuditLine{What: AuditPasswordChanged, Reason: reasonRestStays, By: c.By, UserID: c.User.Subject(), AccountID: c.User.Account}
	if c.EndAll {
		line.Reason = reasonAllEnded
	}
	var u User
	err = s.revoke(ctx, kv.Ending, c.By, tail, func(tx kv.Txn, n *webhook.Ending) (err error) {
		sn, err := s.liveSession(tx, c.Session)
		if err != nil {
			return err
		}
		u = sn.User
		if u.ID != c.User.ID || u.password != c.User.password {
			return record.ErrDisabled
		}
		was := u
		u.setPassword(hash)
		if c.EndAll {
			u.Generation++
			if err := u.endWebhooks(tx, n); err != nil {
				return err
			}
		}
		if err := saveUser(tx, was, &u, changeLine{}); err != nil {
			return err
		}
		if err := deleteSession(tx, c.Session.Hash()); err != nil {
			return err
		}
		next := s.newSession(u, sn.Browser, token, now)
		next.Amr, next.FactorAt = sn.Amr, sn.FactorAt
		if err := createSession(tx, next); err != nil {
			return err
		}
		return appendAudit(tx, line, now, tail)
	})
	if err != nil {
		return secret.Token{}, User{}, fmt.Errorf("change password: %w", err)
	}
	s.passwords.Note(u.ID, 1, now)
	return token, u, nil
}

// liveSession returns a live session with its user, as read in r. Errors: ErrDisabled if it is
// not live.
func (s *Store) liveSession(r kv.Reader, token secret.Token) (Session, error) {
	sn, err := readSession(r, token.Hash())
	if err == nil {
		sn.User, err = readUser(r, sn.user)
	}
	if errors.Is(err, record.ErrNotFound) || err == nil && !s.isLive(sn) {
		return Session{}, record.ErrDisabled
	}
	return sn, err
}

// renewPassword rehashes a password just proved right and returns the updated user. A
// failure does not refuse the sign-in; the next one tries again.
func (s *Store) renewPassword(ctx context.Context, c secret.Caller, u User, password string) User {
	hash, err := s.hasher.Hash(ctx, c, password)
	renewed := u
	if err == nil {
		err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
			now, err := readUser(tx, u.ID)
			if renewed = u; err != nil || now.password != u.password {
				return err
			}
			was := now
			now.password, now.importedOn = hash, time.Time{}
			now.importedRevision = 0 // it was used, so that no import replaces it
			renewed.password, renewed.importedOn = hash, time.Time{}
			return writeUser(tx, was, now)
		})
	}
	if err != nil {
		s.log.Warn("password hash not renewed", "user_id", u.Subject(), "err", err)
		return u
	}
	return renewed
}

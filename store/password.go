package store

import (
	"context"
	"errors"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// CheckPassword refuses what may not become a password. Errors: *InvalidError.
func CheckPassword(password string) error {
	if n := len(password); n < secret.PasswordSizeMin || n > secret.PasswordSizeMax {
		return invalid("password", "choose a longer phrase, and none over the limit", "a password has %d to %d bytes; this one has %d",
			secret.PasswordSizeMin, secret.PasswordSizeMax, n)
	}
	return nil
}

// SetPassword gives a user a new password and ends all that was begun under the
// old one: sessions, codes and tokens. Errors: *InvalidError, ErrNotFound.
func (s *Store) SetPassword(ctx context.Context, username, password string) (User, error) {
	if err := CheckPassword(password); err != nil {
		return User{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return User{}, fmt.Errorf("set password: %w", err)
	}
	return s.changeUser(ctx, username, func(u *User) error {
		u.password = hash
		u.Generation++
		return nil
	})
}

// AuditPasswordChanged is a user's own change of a password.
const AuditPasswordChanged Audited = "password_changed"

// Reasons of a changed password, as the audit record names them.
const (
	reasonAllEnded  = "everything else ended"
	reasonRestStays = "everything else goes on"
)

// PasswordChange is a user's own change of a password.
type PasswordChange struct {
	User    User         // as [Store.AuthenticateUser] returned it for the password up to now
	Session secret.Token // the sign-in that asks
	New     string
	EndAll  bool // whether other sessions, codes and tokens end
	By      By
}

// ChangePassword gives a user another password, as the user asks, and the
// browser that asked a sign-in under a new id in the same transaction. Errors:
// *InvalidError, ErrBusy; ErrDisabled when the sign-in, the user or the password
// that was proved is not what it was any more, and nothing has changed.
func (s *Store) ChangePassword(ctx context.Context, c PasswordChange) (secret.Token, error) {
	if err := CheckPassword(c.New); err != nil {
		return secret.Token{}, err
	}
	hash, err := s.hasher.Hash(ctx, c.New)
	if err != nil {
		return secret.Token{}, fmt.Errorf("change password: %w", err)
	}
	token, tail, now := secret.New(secret.SessionToken), secret.NewTail(), s.Now()
	line := AuditLine{What: AuditPasswordChanged, Reason: reasonRestStays, By: c.By, UserID: c.User.Subject(), AccountID: c.User.Account}
	if c.EndAll {
		line.Reason = reasonAllEnded
	}
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		u, err := s.userOfSession(tx, c.Session)
		if err != nil {
			return err
		}
		if u.ID != c.User.ID || u.password != c.User.password {
			return ErrDisabled
		}
		u.password = hash
		if c.EndAll {
			u.Generation++
		}
		if err := writeUser(tx, u); err != nil {
			return err
		}
		if err := deleteSession(tx, c.Session.Hash()); err != nil {
			return err
		}
		if err := createSession(tx, s.newSession(u, token, now)); err != nil {
			return err
		}
		return appendAudit(tx, line, now, tail)
	})
	if err != nil {
		return secret.Token{}, fmt.Errorf("change password: %w", err)
	}
	return token, nil
}

// userOfSession returns the user of a live session, as the record stands in tx.
// Errors: ErrDisabled for a session that does not live.
func (s *Store) userOfSession(tx kv.Txn, token secret.Token) (User, error) {
	sn, err := readSession(tx, token.Hash())
	if err == nil {
		sn.User, err = readUser(tx, sn.user)
	}
	if errors.Is(err, ErrNotFound) || err == nil && !s.isLive(sn) {
		return User{}, ErrDisabled
	}
	return sn.User, err
}

// renewPassword rehashes a password just proved right, and returns the user as
// it is then. That it fails is no reason to refuse the sign-in; the next one
// tries again.
func (s *Store) renewPassword(ctx context.Context, u User, password string) User {
	hash, err := s.hasher.Hash(ctx, password)
	renewed := u
	if err == nil {
		_, err = s.changeUser(ctx, u.Canonical, func(now *User) error {
			if renewed = u; now.password == u.password {
				now.password, renewed.password = hash, hash
			}
			return nil
		})
	}
	if err != nil {
		s.log.Warn("password hash not renewed", "user_id", u.Subject(), "err", err)
		return u
	}
	return renewed
}

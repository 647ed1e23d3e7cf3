package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// An operator who must not know a user's password makes a code, with which the user sets
// one at /new-password. The user's record has the hash of the code.

// How long a code can be redeemed: unless its maker says otherwise, and within what bounds. An
// invitation must outlive a weekend.
const (
	UserCodeLifetime    = 24 * time.Hour
	UserCodeLifetimeMin = time.Hour
	UserCodeLifetimeMax = 14 * 24 * time.Hour
)

const (
	reasonSetByCode = "password set by code"
	reasonCodeMade  = "code made"
)

// errCodeExpired refuses a right code that is past its time.
var errCodeExpired = fmt.Errorf("%w: %w", record.ErrMismatch, record.ErrExpired)

// userCode is the stored form of a code; the zero userCode is none.
type userCode struct {
	hash              secret.Hash
	expiresAt         time.Time
	accountGeneration uint64
	lent              bool // so is the password that it sets
}

// CodeEnds returns when the user's latest code expires; zero if it was redeemed or there was
// none.
func (u User) CodeEnds() time.Time { return u.code.expiresAt }

// CreateUserCode gives a user a new code, which replaces an earlier one. A lifetime of 0 is
// [UserCodeLifetime]. The password, if any, works until the code is redeemed. Errors:
// *InvalidError, ErrNotFound, ErrDisabled, those of the guards.
func (s *Store) CreateUserCode(ctx context.Context, user string, lifetime time.Duration, guards ...Guard) (User, secret.Token, error) {
	code, kept, err := s.newUserCode(ctx, lifetime)
	if err != nil {
		return User{}, secret.Token{}, err
	}
	u, err := s.changeUser(ctx, user, reasonCodeMade, guards, func(_ kv.Txn, u *User) error {
		if !u.DisabledAt.IsZero() {
			return record.ErrDisabled
		}
		u.setCode(kept)
		return nil
	})
	if err != nil {
		return User{}, secret.Token{}, err
	}
	return u, code, nil
}

func (s *Store) newUserCode(ctx context.Context, lifetime time.Duration) (secret.Token, userCode, error) {
	lifetime = cmp.Or(lifetime, UserCodeLifetime)
	if lifetime < UserCodeLifetimeMin || lifetime > UserCodeLifetimeMax {
		return secret.Token{}, userCode{}, record.Invalid("code_expires_in", "use 1h to 14d", "code_expires_in must be from 1 hour to 14 days")
	}
	code := secret.NewUserCode(s.random)
	return code, userCode{hash: code.Hash(), expiresAt: s.Now().Add(lifetime), lent: isPlatforms(ctx)}, nil
}

// UserCodeUse is a user's request to set a password by a code.
type UserCodeUse struct {
	Username string
	Code     secret.Token // zero for text that is no code
	Password string
	By       By
	Caller   secret.Caller
}

// RedeemUserCode sets the password of a user by a code, once, and revokes all sessions, codes
// and tokens of the user and disables the webhook endpoints that they created, in the same
// transaction. Errors: *InvalidError, ErrBusy;
// ErrMismatch for an unknown user, one who may not sign in, and a wrong, spent or expired code (which is
// ErrExpired too), and then nothing is written.
func (s *Store) RedeemUserCode(ctx context.Context, use UserCodeUse) (User, error) {
	if err := CheckPassword(use.Password); err != nil {
		return User{}, err
	}
	u, err := s.FindUser(ctx, use.Username)
	if errors.Is(err, record.ErrNotFound) {
		err = record.ErrMismatch
	}
	if err == nil {
		err = s.judgeUserCode(u, use.Code)
	}
	if err != nil {
		return User{}, fmt.Errorf("redeem user code: %w", err)
	}
	hash, err := s.hasher.Hash(ctx, use.Caller, use.Password)
	if err != nil {
		return User{}, fmt.Errorf("redeem user code: %w", err)
	}
	now, tail := s.Now(), secret.NewTail(s.random)
	line := AuditLine{What: AuditPasswordChanged, Reason: reasonSetByCode, By: use.By, UserID: u.Subject(), AccountID: u.Account}
	id := u.ID
	err = s.revoke(ctx, kv.Ending, use.By, tail, func(tx kv.Txn, n *webhook.Ending) (err error) {
		if u, err = readUser(tx, id); record.IsAbsent(err) {
			return record.ErrMismatch
		}
		if err == nil {
			err = s.judgeUserCode(u, use.Code)
		}
		if err != nil {
			return err
		}
		was := u
		u.lent = u.code.lent
		u.setPassword(hash)
		u.Generation++
		if err := errors.Join(saveUser(tx, was, &u, changeLine{}), u.endWebhooks(tx, n)); err != nil {
			return err
		}
		return appendAudit(tx, line, now, tail)
	})
	if err != nil {
		return User{}, fmt.Errorf("redeem user code: %w", err)
	}
	return u, nil
}

func (s *Store) judgeUserCode(u User, code secret.Token) error {
	if right := u.code.hash.Equal(code.Hash()); !right || u.code.hash.IsZero() {
		return record.ErrMismatch
	}
	if !u.keeps(u.Generation, u.code.accountGeneration) {
		return record.ErrMismatch
	}
	if !s.Now().Before(u.code.expiresAt) {
		return errCodeExpired
	}
	return nil
}

// CodeExpiresAt returns when the user's unredeemed code expires, or the zero time.
func (u User) CodeExpiresAt() time.Time { return u.code.expiresAt }

// HasPassword reports whether the user has ever had a password. One without waits for a
// code to be redeemed.
func (u User) HasPassword() bool { return u.password != "" }

// setCode gives a user who was read, or whose account was, a code.
func (u *User) setCode(c userCode) {
	c.accountGeneration = u.accountNow.Generation
	u.code = c
}

// setPassword replaces the password and revokes an unredeemed code.
func (u *User) setPassword(hash string) {
	u.password, u.importedOn, u.code = hash, time.Time{}, userCode{}
}

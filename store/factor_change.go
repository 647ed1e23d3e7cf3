package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// AuditSecondFactor means that the second factor of a user was changed.
const AuditSecondFactor Audited = "second_factor"

// Reasons of a change of the second factor in the audit log.
const (
	reasonAppSetUp       = "app set up"
	reasonAppReplaced    = "app replaced"
	reasonAppRemoved     = "app removed"
	reasonPasskeyAdded   = "passkey added"
	reasonPasskeyRemoved = "passkey removed"
	reasonCodesMade      = "recovery codes made"
	reasonFactorReset    = "reset"
)

var (
	// ErrFactorRequired refuses to remove the last factor of a user who must have one.
	ErrFactorRequired = errors.New("the user must have a second factor")
	// ErrTooManyPasskeys refuses a further passkey.
	ErrTooManyPasskeys = fmt.Errorf("a user has %d passkeys at most", PasskeysMax)
)

// FactorChange is a user's change of their own second factor.
type FactorChange struct {
	Session  secret.Token // the session that asks; or
	Step     SecondStep   // a sign-in of a user who must have a factor and has none
	User     User         // who was shown the form, at that FactorRevision
	Revision uint64
	EndAll   bool // also end tokens and their webhook endpoints
	By       By
	Old      secret.Token // a session that this browser had before
}

// FactorChanged is what a change of the second factor gives: a session under a new id, and the
// recovery codes if there are new ones.
type FactorChanged struct {
	Session       secret.Token
	User          User
	RecoveryCodes []secret.Token
}

// SetApp gives the user an authenticator app whose code was confirmed with at that step. With the
// first factor come the recovery codes. Errors: ErrReplayed if the second factor has changed since the
// form was shown, or the step is spent; ErrDisabled if the sign-in is over; ErrExpired.
func (s *Store) SetApp(ctx context.Context, c FactorChange, app secret.AppSecret, step uint64) (FactorChanged, error) {
	return s.changeFactor(ctx, c, AmrCode, func(u User, f *factor) (string, error) {
		reason := reasonAppSetUp
		if f.app != "" {
			reason = reasonAppReplaced
		}
		f.app, f.appStep = s.sealApp(u.ID, app), step
		f.guesses, f.refused = codeGuesses{}, 0
		return reason, nil
	})
}

// RemoveApp removes the user's app; without one it changes nothing. Errors: ErrFactorRequired, those of
// [Store.SetApp].
func (s *Store) RemoveApp(ctx context.Context, c FactorChange) (FactorChanged, error) {
	return s.changeFactor(ctx, c, AmrUnknown, func(_ User, f *factor) (string, error) {
		f.app, f.appStep = "", 0
		return reasonAppRemoved, nil
	})
}

// AddPasskey adds a passkey that the browser made. With the first factor come the recovery codes.
// Errors: ErrTooManyPasskeys, ErrExists, *InvalidError for its name, those of [Store.SetApp].
func (s *Store) AddPasskey(ctx context.Context, c FactorChange, p Passkey) (FactorChanged, error) {
	if err := CheckPasskey(p); err != nil {
		return FactorChanged{}, err
	}
	p.MadeAt = s.Now()
	return s.changeFactor(ctx, c, p.Amr(), func(_ User, f *factor) (string, error) {
		if f.hasPasskey(p.ID) {
			return "", record.ErrExists
		}
		if len(f.passkeys) == PasskeysMax {
			return "", ErrTooManyPasskeys
		}
		f.passkeys = append(f.passkeys, p)
		return reasonPasskeyAdded, nil
	})
}

// CheckPasskey checks the bounds of a passkey. Errors: *InvalidError.
func CheckPasskey(p Passkey) error {
	switch {
	case !IsPasskeyName(p.Name):
		return record.Invalid("name", "choose a short name, such as the device's", "the name of a passkey has 1 to %d visible characters", PasskeyNameMax)
	case len(p.ID) == 0 || len(p.ID) > passkeyIDSizeMax:
		return record.Invalid("id", "export it again", "the id of a passkey has 1 to %d bytes", passkeyIDSizeMax)
	case len(p.Key) == 0 || len(p.Key) > passkeyKeyMax:
		return record.Invalid("public_key", "export it again", "the public key of a passkey has 1 to %d bytes", passkeyKeyMax)
	case p.RPID == "" || len(p.RPID) > 253:
		return record.Invalid("rp_id", "give the host that it was made for", "the rp_id of a passkey has 1 to 253 bytes")
	}
	return nil
}

// IsPasskeyName reports whether a name can be shown.
func IsPasskeyName(name string) bool {
	n := utf8.RuneCountInString(name)
	return utf8.ValidString(name) && n >= 1 && n <= PasskeyNameMax && hasVisible(name) && !bytes.ContainsFunc([]byte(name), unicode.IsControl)
}

// RemovePasskey removes a passkey. Errors: ErrNotFound, ErrFactorRequired, those of [Store.SetApp].
func (s *Store) RemovePasskey(ctx context.Context, c FactorChange, id []byte) (FactorChanged, error) {
	return s.changeFactor(ctx, c, AmrUnknown, func(_ User, f *factor) (string, error) {
		if !f.hasPasskey(id) {
			return "", record.ErrNotFound
		}
		f.passkeys = slices.DeleteFunc(slices.Clone(f.passkeys), func(p Passkey) bool { return bytes.Equal(p.ID, id) })
		return reasonPasskeyRemoved, nil
	})
}

func (f factor) hasPasskey(id []byte) bool {
	return slices.ContainsFunc(f.passkeys, func(p Passkey) bool { return bytes.Equal(p.ID, id) })
}

// NewRecoveryCodes makes new recovery codes; the old ones are void. Errors: ErrNotFound without a
// factor, those of [Store.SetApp].
func (s *Store) NewRecoveryCodes(ctx context.Context, c FactorChange) (FactorChanged, error) {
	return s.changeFactor(ctx, c, AmrUnknown, func(u User, f *factor) (string, error) {
		if f.kinds() == 0 {
			return "", record.ErrNotFound
		}
		f.recovery = nil
		return reasonCodesMade, nil
	})
}

// changeFactor changes the second factor, ends in the same transaction every other sign-in and the
// unredeemed codes of the user, and gives this browser a session under a new id. Of an amr the new
// session counts as proved; AmrUnknown leaves it as it was.
func (s *Store) changeFactor(ctx context.Context, c FactorChange, amr Amr, change func(u User, f *factor) (reason string, err error)) (FactorChanged, error) {
	token, tail, now := secret.New(s.random, secret.SessionToken), secret.NewTail(s.random), s.Now()
	made := make([]secret.Token, RecoveryCodes)
	for i := range made {
		made[i] = secret.NewRecoveryCode(s.random)
	}
	changed := FactorChanged{Session: token}
	err := s.revoke(ctx, kv.Ending, c.By, tail, func(tx kv.Txn, n *webhook.Ending) error {
		changed.RecoveryCodes = nil
		u, was, err := s.asksFactor(tx, FactorUse{Session: c.Session, Step: c.Step}, now)
		if err != nil {
			return err
		}
		if u.ID != c.User.ID || u.factorRevision != c.Revision {
			return record.ErrReplayed
		}
		f, err := readFactor(tx, u.ID)
		if err != nil {
			return err
		}
		before := u
		reason, err := change(u, &f)
		if err != nil {
			return err
		}
		switch {
		case f.kinds() == 0 && s.MustHaveFactor(u):
			return ErrFactorRequired
		case f.kinds() == 0:
			f = factor{}
		case before.factors == 0 || f.recovery == nil && reason == reasonCodesMade:
			changed.RecoveryCodes = made
			f.setRecovery(made)
		}
		if err := s.saveFactor(tx, before, &u, f, changeLine{}); err != nil {
			return err
		}
		if c.EndAll {
			if err := u.endAll(tx, n); err != nil {
				return err
			}
		}
		changed.User = u
		sn := s.newSession(u, c.By.Browser, token, now)
		if !c.Session.IsZero() {
			sn.Browser, sn.AuthenticatedAt, sn.ExpiresAt, sn.Amr, sn.FactorAt = was.Browser, was.AuthenticatedAt, was.ExpiresAt, was.Amr, was.FactorAt
		}
		if amr != AmrUnknown {
			sn.Amr, sn.FactorAt = amr, now
		}
		if u.factors == 0 {
			sn.Amr, sn.FactorAt = AmrPassword, time.Time{}
		}
		line := AuditLine{What: AuditSecondFactor, Reason: reason, By: c.By, UserID: u.Subject(), AccountID: u.Account}
		err = errors.Join(spendStep(tx, c.Step), endSessions(tx, c.Old, c.Session), createSession(tx, sn), appendAudit(tx, line, now, tail))
		if c.Session.IsZero() && err == nil {
			line.What, line.Reason, line.Amr = AuditLogin, "", sn.Amr
			err = appendAudit(tx, line, now, tail)
		}
		return err
	})
	if err != nil {
		return FactorChanged{}, fmt.Errorf("change second factor: %w", err)
	}
	return changed, nil
}

func (f *factor) setRecovery(codes []secret.Token) {
	f.recovery = make([]secret.Hash, len(codes))
	for i, code := range codes {
		f.recovery[i] = secret.HashOfRecoveryCode(code)
	}
}

// saveFactor stores the second factor of a user within tx, under a new revision, which ends the
// sign-ins and codes of before.
func (s *Store) saveFactor(tx kv.Txn, was User, u *User, f factor, line changeLine) error {
	u.factors = f.kinds()
	u.factorRevision++
	return errors.Join(writeFactor(tx, u.ID, f), saveUser(tx, was, u, line))
}

// endAll raises the generation of a user who was saved, which ends tokens and browsers that are known.
func (u *User) endAll(tx kv.Txn, n *webhook.Ending) error {
	was := *u
	u.Generation++
	return errors.Join(writeUser(tx, was, *u), u.endWebhooks(tx, n))
}

// ResetSecondFactor removes the user's second factor with its recovery codes, for the operator, and
// ends the user's sign-ins. Without one it changes nothing. Errors: ErrNotFound, those of the guards.
func (s *Store) ResetSecondFactor(ctx context.Context, user string, guards ...Guard) (u User, err error) {
	line := s.change(ctx, reasonFactorReset)
	line.What = AuditSecondFactor
	hadOne := false
	err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) (err error) {
		hadOne = false
		if u, err = checks(guards).readUser(tx, user); err != nil || !u.HasFactor() {
			return err
		}
		hadOne = true
		return s.saveFactor(tx, u, &u, factor{}, line)
	})
	if err != nil {
		return User{}, fmt.Errorf("reset second factor: %w", err)
	}
	if hadOne {
		s.happened(ctx, HappenedPrivileges, u.Subject())
	}
	return u, nil
}

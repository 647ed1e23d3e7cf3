package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// TokenSpec describes tokens that are issued without a grant, for tests.
type TokenSpec struct {
	Client Client
	User   User // none of a platform client, which gets an access token alone
	Scope  Scope
	// ExpiresIn and RefreshExpiresIn are lifetimes; of 0 or less, a token is expired
	// from the beginning. Nil means the store's own.
	ExpiresIn, RefreshExpiresIn *time.Duration
	// AccessToken and RefreshToken are texts of the caller's own; "" draws one.
	AccessToken, RefreshToken string
	By                        By
}

// TokenLifetimeMax bounds the lifetimes of a TokenSpec, in both directions.
const TokenLifetimeMax = 100 * 365 * 24 * time.Hour

// ReasonFixture is the reason in the audit line of tokens issued without a grant.
const ReasonFixture = "fixture"

// UsedError means that the text given in a TokenSpec is already that of another token.
type UsedError struct{ Field string }

func (e *UsedError) Error() string { return "another token has the text of " + e.Field }

// IssueFixture issues the first tokens of a new family as a grant does. Errors:
// *InvalidError; *UsedError; ErrDisabled if the client or the user is disabled.
func (s *Store) IssueFixture(ctx context.Context, spec TokenSpec) (Issued, error) {
	now, pair := s.Now(), newPairFrom(s.fixtureRandom())
	access, accessErr := fixtureOr(pair.access, "access_token", spec.AccessToken)
	refresh, refreshErr := fixtureOr(pair.refresh, "refresh_token", spec.RefreshToken)
	accessFor, accessForErr := lifetimeOr(s.Lifetimes().AccessToken, "expires_in", spec.ExpiresIn)
	refreshFor, refreshForErr := lifetimeOr(s.Lifetimes().RefreshToken, "refresh_expires_in", spec.RefreshExpiresIn)
	if err := errors.Join(accessErr, refreshErr, accessForErr, refreshForErr); err != nil {
		return Issued{}, err
	}
	isPair := !spec.Client.Platform // which has no refresh token
	if access.Equal(refresh) {
		return Issued{}, &UsedError{Field: "refresh_token"}
	}
	f := s.newFamily(lineageOf(spec.Client, spec.User), spec.Scope, now, pair.family)
	f.expiresAt = now.Add(max(s.Lifetimes().Family, accessFor, refreshFor))
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if _, err := readParties(tx, f.lineage); err != nil {
			return err
		}
		if err := errors.Join(s.keepFixture(tx, f, "access_token", spec.AccessToken), s.keepFixture(tx, f, "refresh_token", spec.RefreshToken)); err != nil {
			return err
		}
		err := errors.Join(createFamily(tx, f), f.writeAccess(tx, access.Hash(), now.Add(accessFor)))
		if err == nil && isPair {
			err = f.writeRefresh(tx, refresh.Hash(), now.Add(refreshFor))
		}
		if err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditGrant, ReasonFixture, spec.By), now, pair.tail)
	})
	if err != nil {
		return Issued{}, fmt.Errorf("issue a fixture: %w", err)
	}
	if !isPair {
		refresh = secret.Token{}
	}
	return f.issued(access, refresh, f.scope, accessFor), nil
}

// fixtureRandom has sequences of its own, so that tokens of grants stay the same
// however many fixtures a test makes.
func (s *Store) fixtureRandom() secret.Source {
	if s.random == nil {
		return nil
	}
	return func(sequence string, b []byte) { s.random("fixture "+sequence, b) }
}

func fixtureOr(drawn secret.Token, field, text string) (secret.Token, error) {
	if text == "" {
		return drawn, nil
	}
	return FixtureToken(field, text)
}

func lifetimeOr(usual time.Duration, field string, given *time.Duration) (time.Duration, error) {
	if given == nil {
		return usual, nil
	}
	if given.Abs() > TokenLifetimeMax {
		return 0, record.Invalid(field, "", "%s is more than 100 years", field)
	}
	return *given, nil
}

// keepFixture keeps the text that a test chose and marks the store. It refuses that of another
// token, live or not.
func (s *Store) keepFixture(tx kv.Txn, f family, field, text string) error {
	if text == "" {
		return nil
	}
	h := secret.HashOf(text)
	_, err := readText(tx, h)
	switch {
	case err == nil:
		return &UsedError{Field: field}
	case !record.IsAbsent(err):
		return err
	}
	return errors.Join(s.markFixture(tx), keepText(tx, f, ImportedToken{Hash: h}, f.createdAt))
}

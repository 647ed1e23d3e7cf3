package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Fixtures are secrets, passwords and redirect URIs that a test chose. Only a store
// with [Options].Fixtures, which is dev's, takes them. It marks itself at the first
// one that is weaker than others may be, so that neither it nor a backup of it is ever
// served to strangers.

// FixturesError means that a store holds fixtures and was opened, or restored, to be
// served.
type FixturesError struct{}

func (*FixturesError) Error() string {
	return "the data is that of tollhouse dev with test fixtures: its secrets and passwords may be anything, such as pw"
}

// Hint returns the next step.
func (*FixturesError) Hint() string {
	return "use a backup of tollhouse serve, or start with an empty data directory"
}

var errNoFixtures = errors.New("this store takes no fixtures")

const metaFixtures = "fixtures" // name of the mark

const fixtureTokenSizeMax = 512 // bytes

// markFixture marks the store within tx.
func (s *Store) markFixture(tx kv.Txn) error {
	if !s.fixtures {
		return errNoFixtures
	}
	return tx.Set(record.MetaKey(metaFixtures), nil, time.Time{})
}

// refuseFixtures refuses a marked store unless this one takes fixtures.
func (s *Store) refuseFixtures(r kv.Reader) error {
	_, err := r.Get(record.MetaKey(metaFixtures))
	switch {
	case record.IsAbsent(err), err == nil && s.fixtures:
		return nil
	case err == nil:
		return &FixturesError{}
	}
	return err
}

// isFixture reports whether the client or its secret, if any, is weaker than others may
// be.
func (c *Client) isFixture(sec secret.Token) bool {
	if _, drawn := secret.Parse(secret.ClientSecret, sec.Reveal()); !drawn && !sec.IsZero() {
		return true
	}
	return slices.ContainsFunc(c.RedirectURIs, func(uri string) bool { return CheckRedirectURI(uri) != nil })
}

// CreateFixtureUser is CreateUser with a password of any length from 1 to 1,024 bytes.
// Errors: *InvalidError, ErrExists, ErrBusy.
func (s *Store) CreateFixtureUser(ctx context.Context, spec UserSpec) (User, error) {
	if n := len(secret.PreparePassword(spec.Password)); n < 1 || n > secret.PasswordSizeMax {
		return User{}, record.Invalid("password", "", "a password has 1 to %d bytes; this one has %d", secret.PasswordSizeMax, n)
	}
	weak := CheckPassword(spec.Password) != nil
	u, _, err := s.createUser(ctx, spec, weak, nil)
	return u, err
}

// FixtureToken returns a token with a text of the caller's own. Errors: *InvalidError.
func FixtureToken(field, text string) (secret.Token, error) {
	token, ok := secret.Fixture(text)
	if !ok || len(text) > fixtureTokenSizeMax || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return secret.Token{}, record.Invalid(field, "leave it out to have one drawn", "%s has 1 to %d visible ASCII characters", field, fixtureTokenSizeMax)
	}
	return token, nil
}

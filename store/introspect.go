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
)

// Introspection is what a client may learn about a valid token (RFC 7662 §2.2).
type Introspection struct {
	ClientID  string
	Username  string
	Subject   string    // the user, or a client that acts for itself
	Scope     Scope     // current permissions, all stated; empty if the client was narrowed to others
	IssuedAt  time.Time // zero for a refresh token
	ExpiresAt time.Time
	Access    bool // an access token; otherwise a refresh token
	Platform  bool // of a platform client
	Amr       Amr  // of the sign-in behind the authorization
}

// Introspect describes a token to an authenticated client: one of its own, or any
// token if the client may introspect ([Client].Introspect). A valid token counts as
// used whichever client asks, since introspection is how a resource server uses it.
// Errors: ErrNotFound for every token that is invalid or that the client may not
// introspect.
func (s *Store) Introspect(ctx context.Context, c Client, text string) (Introspection, error) {
	kind, token, err := s.kindOf(ctx, text, secret.AccessToken, secret.RefreshToken)
	switch {
	case err != nil:
		return Introspection{}, fmt.Errorf("introspect: %w", err)
	case kind == secret.AccessToken:
		return s.introspectAccess(ctx, c, token)
	}
	return s.introspectRefresh(ctx, c, token)
}

func (s *Store) introspectAccess(ctx context.Context, c Client, token secret.Token) (Introspection, error) {
	p, used, err := s.findPrincipal(ctx, token, decodeFamily)
	if err != nil {
		return Introspection{}, fmt.Errorf("introspect: %w", err)
	}
	if p.ClientID != c.ID && !c.Introspect {
		return Introspection{}, fmt.Errorf("introspect: %w", record.ErrNotFound)
	}
	if err := s.noteUse(ctx, used); err != nil {
		return Introspection{}, fmt.Errorf("introspect: %w", err)
	}
	return Introspection{
		ClientID: p.ClientID, Username: p.Username, Subject: cmp.Or(p.UserID, p.ClientID), Scope: givesNow(p.Scope, p.narrowed),
		IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt, Access: true, Platform: p.Platform, Amr: p.amr,
	}, nil
}

// givesNow returns the permissions that a token of that scope gives while its client
// is limited to narrowed. An empty result means none, not all.
func givesNow(scope, narrowed Scope) Scope { return scope.Effective() & narrowed.Effective() }

func (s *Store) introspectRefresh(ctx context.Context, c Client, token secret.Token) (Introspection, error) {
	now := s.Now()
	var found Introspection
	var used tokenUse
	err := s.db.View(ctx, func(r kv.Reader) error {
		t, f, err := readRefreshWithFamily(r, token.Hash())
		if err != nil {
			return err
		}
		alive := t.spentAt.IsZero() && t.retiredAt.IsZero() && now.Before(t.expiresAt) && f.revokedAt.IsZero()
		if !alive || f.client != c.ID && !c.Introspect {
			return record.ErrNotFound
		}
		p, err := readParties(r, f.lineage)
		if err != nil {
			return err
		}
		found = Introspection{ClientID: f.client, Username: p.user.Username, Subject: p.user.Subject(), Scope: givesNow(t.scope, p.client.Scope), ExpiresAt: t.expiresAt, Amr: f.amr}
		used = tokenUse{at: now, token: t.hash, familyUsedAt: f.usedAt}
		used.confirms, err = unconfirmedParent(r, t)
		return err
	})
	if errors.Is(err, record.ErrDisabled) {
		err = record.ErrNotFound
	}
	if err == nil {
		err = s.noteUse(ctx, used)
	}
	if err != nil {
		return Introspection{}, fmt.Errorf("introspect: %w", err)
	}
	return found, nil
}

// unconfirmedParent returns the refresh token that t was made from if no use of their
// pair has been stored.
func unconfirmedParent(r kv.Reader, t refreshToken) (secret.Hash, error) {
	if t.parent.IsZero() {
		return secret.Hash{}, nil
	}
	parent, err := readRefreshToken(r, t.parent)
	if err != nil || parent.confirmed {
		return secret.Hash{}, record.GoneIsNil(err)
	}
	return t.parent, nil
}

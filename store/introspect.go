package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Introspection is what a client may learn of a live token (RFC 7662 §2.2).
type Introspection struct {
	ClientID  string
	Username  string
	Subject   string
	Scope     Scope     // what it gives now, all stated: none for a client narrowed to other things since
	IssuedAt  time.Time // zero for a refresh token
	ExpiresAt time.Time
	Access    bool // an access token; else a refresh token
}

// Introspect tells an authenticated client about a token: one of its own, or
// anybody's when the client was made for that ([Client].Introspect). An access
// token that its own client finds alive counts as used. Errors: ErrNotFound for
// every token that is dead or that the client may not ask about.
func (s *Store) Introspect(ctx context.Context, c Client, text string) (Introspection, error) {
	if token, ok := secret.Parse(secret.AccessToken, text); ok {
		return s.introspectAccess(ctx, c, token)
	}
	if token, ok := secret.Parse(secret.RefreshToken, text); ok {
		return s.introspectRefresh(ctx, c, token)
	}
	return Introspection{}, fmt.Errorf("introspect: %w", ErrNotFound)
}

func (s *Store) introspectAccess(ctx context.Context, c Client, token secret.Token) (Introspection, error) {
	p, used, err := s.findPrincipal(ctx, token)
	if err != nil {
		return Introspection{}, fmt.Errorf("introspect: %w", err)
	}
	if p.ClientID != c.ID && !c.Introspect {
		return Introspection{}, fmt.Errorf("introspect: %w", ErrNotFound)
	}
	if p.ClientID == c.ID {
		s.noteUse(used)
	}
	return Introspection{
		ClientID: p.ClientID, Username: p.Username, Subject: p.UserID, Scope: givesNow(p.Scope, p.narrowed),
		IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt, Access: true,
	}, nil
}

// givesNow is what a token of that scope gives while its client may do no more
// than narrowed. No name means nothing here, not everything.
func givesNow(scope, narrowed Scope) Scope { return scope.Effective() & narrowed.Effective() }

func (s *Store) introspectRefresh(ctx context.Context, c Client, token secret.Token) (Introspection, error) {
	now := s.Now()
	var found Introspection
	err := s.db.View(ctx, func(r kv.Reader) error {
		t, err := readRefreshToken(r, token.Hash())
		if isAbsent(err) {
			return refuseAbsent(r, standInRefreshToken, standInFamily, standInClientHead, standInUserHead)
		}
		if err != nil {
			return err
		}
		f, err := readFamily(r, t.family)
		if isAbsent(err) {
			return refuseAbsent(r, standInFamily, standInClientHead, standInUserHead)
		}
		if err != nil {
			return err
		}
		p, err := readParties(r, f.lineage)
		if err != nil {
			return err
		}
		alive := t.spentAt.IsZero() && t.retiredAt.IsZero() && now.Before(t.expiresAt) && f.revokedAt.IsZero()
		if !alive || f.client != c.ID && !c.Introspect {
			return ErrNotFound
		}
		found = Introspection{ClientID: f.client, Username: p.user.Username, Subject: p.user.Subject(), Scope: givesNow(t.scope, p.client.Scope), ExpiresAt: t.expiresAt}
		return nil
	})
	if errors.Is(err, ErrDisabled) {
		err = ErrNotFound
	}
	if err != nil {
		return Introspection{}, fmt.Errorf("introspect: %w", err)
	}
	return found, nil
}

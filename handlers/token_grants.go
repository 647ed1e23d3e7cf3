package handlers

import (
	"context"
	"errors"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// passwordGrant is RFC 6749 §4.3. Whatever is wrong with the user, the answer
// and its cost are the same.
func (s *Server) passwordGrant(ctx context.Context, client store.Client, p params) (store.Issued, error) {
	if err := need(p, "username", "password"); err != nil {
		return store.Issued{}, err
	}
	scope, err := grantScope(client, p.value("scope"))
	if err != nil {
		return store.Issued{}, err
	}
	wrong := invalidGrant("The username or the password is wrong.")
	// A confidential client posts for many people, so that it is charged in
	// place of the address that it posts from.
	user, err := s.authenticateUser(ctx, attempt{name: p.value("username"), client: client.ID}, p.value("password"))
	if errors.Is(err, store.ErrMismatch) {
		return store.Issued{}, wrong.because(err)
	}
	if err != nil {
		return store.Issued{}, err
	}
	issued, err := s.store.IssueForPassword(ctx, by(ctx), client, user, scope)
	if errors.Is(err, store.ErrDisabled) {
		return store.Issued{}, wrong.because(err)
	}
	return issued, err
}

// codeGrant is RFC 6749 §4.1.3 with RFC 7636 §4.5.
func (s *Server) codeGrant(ctx context.Context, client store.Client, p params) (store.Issued, error) {
	if err := need(p, "code", "redirect_uri"); err != nil {
		return store.Issued{}, err
	}
	wrong := invalidGrant("The authorization code is unknown, used, expired, or does not belong to this request.")
	code, ok := secret.Parse(secret.Code, p.value("code"))
	if !ok {
		s.auditRefusal(ctx, client, store.ErrNotFound)
		return store.Issued{}, wrong
	}
	issued, err := s.store.RedeemCode(ctx, store.Redemption{
		Client: client, Code: code, RedirectURI: p.value("redirect_uri"), Verifier: p.value("code_verifier"), By: by(ctx),
	})
	if isRefusal(err) {
		s.auditRefusal(ctx, client, err)
		return store.Issued{}, wrong.because(err)
	}
	return issued, err
}

// refreshGrant is RFC 6749 §6.
func (s *Server) refreshGrant(ctx context.Context, client store.Client, p params) (store.Issued, error) {
	if err := need(p, "refresh_token"); err != nil {
		return store.Issued{}, err
	}
	scope, ok := store.ParseScope(p.value("scope"))
	if !ok {
		return store.Issued{}, unknownScope()
	}
	wrong := invalidGrant("The refresh token is unknown, used, expired, revoked, or another client's.")
	token, ok := secret.Parse(secret.RefreshToken, p.value("refresh_token"))
	if !ok {
		s.auditRefusal(ctx, client, store.ErrNotFound)
		return store.Issued{}, wrong
	}
	issued, err := s.store.RotateRefresh(ctx, store.Refresh{Client: client, Token: token, Scope: scope, By: by(ctx)})
	switch {
	case errors.Is(err, store.ErrScope):
		s.auditRefusal(ctx, client, err)
		return store.Issued{}, invalidScope("The scope is not covered by what was granted.").because(err)
	case isRefusal(err):
		s.auditRefusal(ctx, client, err)
		return store.Issued{}, wrong.because(err)
	}
	return issued, err
}

// auditRefusal records the real reason of a refusal, once.
func (s *Server) auditRefusal(ctx context.Context, client store.Client, err error) {
	reason, isRecorded := store.RefusalReason(err)
	served(ctx).Refusal = reason
	line := store.AuditLine{What: store.AuditRefused, Reason: reason, By: by(ctx), ClientID: client.ID}
	switch {
	case isRecorded:
	case client.Public: // anybody can be one
		s.auditBounded(ctx, line)
	default:
		s.store.Audit(line)
	}
}

// isRefusal reports whether a grant was refused for what it is: one answer for
// all reasons, which only the log tells apart.
func isRefusal(err error) bool {
	for _, refusal := range []error{store.ErrNotFound, store.ErrMismatch, store.ErrDisabled, store.ErrReplayed, store.ErrRevoked, store.ErrExpired} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// need refuses a request in which a required parameter is absent or empty.
func need(p params, names ...string) error {
	for _, name := range names {
		if !p.has(name) {
			return invalidRequest("The parameter %s is missing.", name).on(name)
		}
	}
	return nil
}

// grantScope returns what a client gets when it asks for the scope in text.
func grantScope(client store.Client, text string) (store.Scope, error) {
	asked, ok := store.ParseScope(text)
	if !ok {
		return 0, unknownScope()
	}
	scope, ok := client.GrantScope(asked)
	if !ok {
		return 0, invalidScope("The client may not have this scope.")
	}
	return scope, nil
}

func unknownScope() *problem {
	return invalidScope("The scopes are events:read, resources:read and resources:write, separated by single spaces.")
}

package handlers

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// passwordGrant is RFC 6749 §4.3. All failures of the user have the same response and
// cost.
func (s *Server) passwordGrant(ctx context.Context, client store.Client, p params) (store.Issued, error) {
	if err := need(p, "username", "password"); err != nil {
		return store.Issued{}, err
	}
	scope, err := grantScope(client, p.value("scope"))
	if err != nil {
		return store.Issued{}, err
	}
	wrong := invalidGrant("Wrong username or password.")
	// A confidential client serves many people, so it is charged instead of its
	// address.
	user, err := s.authenticateUser(ctx, attempt{name: p.value("username"), client: client.ID}, p.value("password"))
	if errors.Is(err, record.ErrMismatch) {
		return store.Issued{}, wrong.because(err)
	}
	if err != nil {
		return store.Issued{}, err
	}
	issued, err := s.store.IssueForPassword(ctx, by(ctx), client, user, scope)
	switch {
	case errors.Is(err, store.ErrTooOften):
		return store.Issued{}, tooOften("The client requests tokens for this user too often", store.ClientGrantEvery).because(err)
	case errors.Is(err, record.ErrDisabled):
		return store.Issued{}, wrong.because(err)
	}
	return issued, err
}

// codeGrant is RFC 6749 §4.1.3 with RFC 7636 §4.5.
func (s *Server) codeGrant(ctx context.Context, client store.Client, p params) (store.Issued, error) {
	if err := need(p, "code", "redirect_uri"); err != nil {
		return store.Issued{}, err
	}
	wrong := invalidGrant("The authorization code is unknown, used or expired, or it does not match this request.")
	code, ok := secret.Parse(secret.Code, p.value("code"))
	if !ok {
		s.auditRefusal(ctx, client, record.ErrNotFound)
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
	wrong := invalidGrant("The refresh token is unknown, used, expired or revoked, or it belongs to another client.")
	token, ok := s.store.ParseToken(secret.RefreshToken, p.value("refresh_token"))
	if !ok {
		s.auditRefusal(ctx, client, record.ErrNotFound)
		return store.Issued{}, wrong
	}
	issued, err := s.store.RotateRefresh(ctx, store.Refresh{Client: client, Token: token, Scope: scope, By: by(ctx)})
	switch {
	case errors.Is(err, record.ErrScope):
		s.auditRefusal(ctx, client, err)
		return store.Issued{}, invalidScope("The scope exceeds what was granted, or what the client may have now.").because(err)
	case errors.Is(err, store.ErrTooOften):
		return store.Issued{}, tooOften("These tokens are refreshed too often", store.RotationEvery).because(err)
	case isRefusal(err):
		s.auditRefusal(ctx, client, err)
		return store.Issued{}, wrong.because(err)
	}
	return issued, err
}

// clientGrant is RFC 6749 §4.4: the client acts for its account without a user.
func (s *Server) clientGrant(ctx context.Context, client store.Client, p params) (store.Issued, error) {
	scope, err := grantScope(client, p.value("scope"))
	if err != nil {
		return store.Issued{}, err
	}
	issued, err := s.store.IssueForClient(ctx, by(ctx), client, scope)
	switch {
	case errors.Is(err, store.ErrTooOften):
		return store.Issued{}, tooOften("The client requests tokens too often", store.ClientGrantEvery).because(err)
	case isRefusal(err):
		s.auditRefusal(ctx, client, err)
		return store.Issued{}, unauthorizedClient("The client acts for no account; the operator names one with tollhouse client update --account.").because(err)
	}
	return issued, err
}

func tooOften(what string, every time.Duration) *problem {
	seconds := strconv.Itoa(int(every.Seconds()))
	return newProblem(http.StatusTooManyRequests, "too_many_requests", "%s; use the access token until it expires. %s", what, tryAgainIn(seconds)).
		with("Retry-After", seconds)
}

// auditRefusal records the reason of a refusal. Revoked families have their own,
// unbounded lines.
func (s *Server) auditRefusal(ctx context.Context, client store.Client, err error) {
	reason, isRecorded := store.RefusalReason(err)
	served(ctx).Refusal = reason
	if !isRecorded {
		s.auditBounded(ctx, store.AuditLine{What: store.AuditRefused, Reason: reason, ClientID: client.ID})
	}
}

// isRefusal reports whether a grant was refused. All reasons get one response; only the
// audit record shows them.
func isRefusal(err error) bool {
	for _, refusal := range []error{record.ErrNotFound, record.ErrMismatch, record.ErrDisabled, record.ErrReplayed, record.ErrRevoked, record.ErrExpired} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// need refuses a request without the parameter.
func need(p params, names ...string) error {
	for _, name := range names {
		if !p.has(name) {
			return invalidRequest("The parameter %s is missing.", name).on(name)
		}
	}
	return nil
}

// grantScope returns the scope that a client gets for the requested one.
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
	return invalidScope("The scopes are events:read, resources:read, resources:write, webhooks:read and webhooks:write, separated by single spaces.")
}

package oauth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/throttle"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/spelling"
)

// passwordGrant is RFC 6749 §4.3. All failures of the user have the same response and
// cost, until the password is right.
func (s *Server) passwordGrant(ctx context.Context, client store.Client, p web.Params) (store.Issued, error) {
	if err := need(p, "username", "password"); err != nil {
		return store.Issued{}, err
	}
	scope, err := GrantScope(client, p.Value("scope"))
	if err != nil {
		return store.Issued{}, err
	}
	const wrong = "Wrong username or password."
	// A confidential client serves many people, so it is charged instead of its
	// address.
	try := throttle.Attempt{Name: p.Value("username"), Client: client.ID, Source: web.FactsFrom(ctx).Source}
	user, err := s.AuthenticateUser(ctx, attempt{Attempt: try}, p.Value("password"))
	if errors.Is(err, record.ErrMismatch) {
		return store.Issued{}, web.InvalidGrant(wrong).Because(err)
	}
	if err != nil {
		return store.Issued{}, err
	}
	issued, err := s.site.Store.IssueForPassword(ctx, web.By(ctx), client, user, scope)
	switch {
	case errors.Is(err, store.ErrTooOften):
		return store.Issued{},
			tooOften("The client requests tokens for this user too often", store.ClientGrantEvery).Because(err)
	case errors.Is(err, record.ErrDisabled):
		return store.Issued{}, web.InvalidGrant(wrong).Because(err)
	case errors.Is(err, store.ErrFactorNeeded):
		web.OutcomeOf(ctx).SignIn = web.SecondFactorNeeded
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditLoginRefused, Reason: web.SecondFactorNeeded, ClientID: client.ID, UserID: user.Subject()})
		return store.Issued{}, web.InvalidGrant("The user needs a second factor; use the authorization code grant.").Because(err)
	}
	return issued, err
}

// codeGrant is RFC 6749 §4.1.3 with RFC 7636 §4.5.
func (s *Server) codeGrant(ctx context.Context, client store.Client, p web.Params) (store.Issued, error) {
	if err := need(p, "code", "redirect_uri"); err != nil {
		return store.Issued{}, err
	}
	const wrong = "The authorization code is unknown, used or expired, or it does not match this request."
	code, ok := secret.Parse(secret.Code, p.Value("code"))
	if !ok {
		s.auditRefusedToken(ctx, client, record.ErrNotFound)
		return store.Issued{}, web.InvalidGrant(wrong)
	}
	issued, err := s.site.Store.RedeemCode(ctx, store.Redemption{
		Client: client, Code: code, RedirectURI: p.Value("redirect_uri"), Verifier: p.Value("code_verifier"), By: web.By(ctx),
	})
	if isRefusal(err) {
		s.auditRefusedToken(ctx, client, err)
		return store.Issued{}, web.InvalidGrant(wrong).Because(err)
	}
	return issued, err
}

// refreshGrant is RFC 6749 §6.
func (s *Server) refreshGrant(ctx context.Context, client store.Client, p web.Params) (store.Issued, error) {
	if err := need(p, "refresh_token"); err != nil {
		return store.Issued{}, err
	}
	scope, ok := store.ParseScope(p.Value("scope"))
	if !ok {
		return store.Issued{}, unknownScope(p.Value("scope"))
	}
	token, err := s.site.Store.ParseToken(ctx, secret.RefreshToken, p.Value("refresh_token"))
	var issued store.Issued
	if err == nil {
		issued, err = s.site.Store.RotateRefresh(ctx, store.Refresh{Client: client, Token: token, Scope: scope, By: web.By(ctx)})
	}
	var beyond *store.ScopeError
	switch {
	case errors.As(err, &beyond):
		s.auditRefusedToken(ctx, client, err)
		return store.Issued{}, scopeProblem(beyond)
	case errors.Is(err, store.ErrTooOften):
		return store.Issued{}, tooOften("Too many refreshes", s.site.Store.Lifetimes().RotationEvery()).Because(err)
	case isRefusal(err):
		s.auditRefusedToken(ctx, client, err)
		return store.Issued{}, web.InvalidGrant("The refresh token is unknown, used, expired or revoked, or it belongs to another client.").Because(err)
	}
	return issued, err
}

// clientGrant is RFC 6749 §4.4: the client acts for its account without a user.
func (s *Server) clientGrant(ctx context.Context, client store.Client, p web.Params) (store.Issued, error) {
	account, err := accountAsked(client, p)
	if err != nil {
		return store.Issued{}, err
	}
	scope, err := GrantScope(client, p.Value("scope"))
	if err == nil && client.Platform && account != "" {
		scope, err = boundScope(client, scope, p.Value("scope") == "")
	}
	if err != nil {
		return store.Issued{}, err
	}
	issued, err := s.site.Store.IssueForClient(ctx, web.By(ctx), client, account, scope)
	switch {
	case errors.Is(err, store.ErrUnknownAccount):
		return store.Issued{}, web.InvalidRequest("The account does not exist.").On(accountParam).Because(err)
	case errors.Is(err, store.ErrTooOften):
		return store.Issued{}, tooOften("The client requests tokens too often", store.ClientGrantEvery).Because(err)
	case errors.Is(err, record.ErrDisabled):
		s.auditRefusedToken(ctx, client, err)
		return store.Issued{}, web.UnauthorizedClient("The client or its account is disabled.").Because(err)
	case isRefusal(err):
		s.auditRefusedToken(ctx, client, err)
		return store.Issued{}, web.UnauthorizedClient(
			"This client has no account; set one with tollhouse client update --account.").Because(err)
	}
	return issued, err
}

const accountParam = "account"

// accountAsked returns the account to which a token of a platform client is to be bound, or "":
// it then acts for the account that each request names. Unlike other parameters an empty one
// does not count as absent (RFC 6749 §3.2), because the token would act for all accounts.
func accountAsked(client store.Client, p web.Params) (account string, err error) {
	if refused := p.RefuseRepeated(accountParam); refused != nil {
		return "", refused
	}
	account, given := p.Values[accountParam]
	switch {
	case !given:
	case !client.Platform && account != client.Account:
		return "", web.InvalidRequest("The client acts for another account.").On(accountParam)
	case !client.Platform:
	case !client.Scope.Covers(store.ScopeAccountsAct):
		return "", web.UnauthorizedClient("The client may not act for an account; it lacks the scope " + store.ScopeAccountsAct.String() + ".")
	case record.CheckAccountID(account) != nil:
		return "", web.InvalidRequest("The parameter account must be the id of an account.").On(accountParam)
	}
	return account, nil
}

// boundScope returns the scope of a token that is bound to one account: data scopes, all that
// the client has if the request names none.
func boundScope(client store.Client, scope store.Scope, unstated bool) (store.Scope, error) {
	if unstated {
		scope &= store.ScopeData
	}
	switch {
	case scope == 0:
		return 0, web.InvalidScope("The client has no data scope, so it cannot get a token for one account.")
	case scope&store.ScopePlatform != 0:
		return 0, web.InvalidScope("A token for one account cannot have the scope %s.", scope&store.ScopePlatform)
	}
	return scope, nil
}

func tooOften(what string, every time.Duration) *web.Problem {
	seconds := strconv.Itoa(int(every.Seconds()))
	return web.NewProblem(http.StatusTooManyRequests, "too_many_requests",
		"%s; use the access token until it expires. %s", what, web.TryAgainIn(seconds)).
		With("Retry-After", seconds)
}

// auditRefusedToken records why a code or token was refused. A revoked family has a line
// already.
func (s *Server) auditRefusedToken(ctx context.Context, client store.Client, err error) {
	reason, isRecorded := store.RefusalReason(err)
	web.OutcomeOf(ctx).Refusal = reason
	if !isRecorded {
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditRefused, Reason: reason, ClientID: client.ID})
	}
}

// isRefusal reports whether a grant was refused. All reasons get one response; only the
// audit record shows them.
func isRefusal(err error) bool {
	for _, refusal := range []error{record.ErrNotFound, record.ErrMismatch, record.ErrDisabled, record.ErrReplayed,
		record.ErrRevoked, record.ErrExpired} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// need refuses a request without the parameter.
func need(p web.Params, names ...string) error {
	for _, name := range names {
		if !p.Has(name) {
			return web.InvalidRequest("The parameter %s is missing.", name).On(name)
		}
	}
	return nil
}

// GrantScope returns the scope that a client gets for the requested one.
func GrantScope(client store.Client, text string) (store.Scope, error) {
	asked, ok := store.ParseScope(text)
	if !ok {
		return 0, unknownScope(text)
	}
	scope, ok := client.GrantScope(asked)
	if !ok {
		return 0, web.InvalidScope("The client does not have the scope %s.", asked.Beyond(client.Scope))
	}
	return scope, nil
}

// unknownScope refuses a list of scopes by the first that does not exist.
func unknownScope(text string) *web.Problem {
	name := store.UnknownScope(text)
	shown := web.PlainWords(web.ShownName(name))
	if near, ok := spelling.Nearest(name, slices.Values(store.ScopeNames())); ok {
		return web.InvalidScope("Unknown scope %s; did you mean %s?", shown, near)
	}
	return web.InvalidScope("Unknown scope %s. The scopes are %s, separated by spaces.", shown,
		strings.Join(store.ScopeNames(), ", "))
}

// scopeProblem names the scope that a refresh may not have.
func scopeProblem(e *store.ScopeError) *web.Problem {
	switch {
	case e.Beyond != 0:
		return web.InvalidScope("The scope %s exceeds the original grant or the client's current scope.", e.Beyond).Because(e)
	case e.Repeats == store.ScopeUnstated:
		return web.InvalidScope("This token was refreshed for all scopes; a retry must request the same.").Because(e)
	}
	return web.InvalidScope("This token was refreshed for the scope %s; a retry must request the same.",
		e.Repeats).Because(e)
}

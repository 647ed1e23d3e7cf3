package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// tokenRequest is a parsed request to the token endpoint (RFC 6749 §3.2).
type tokenRequest struct {
	credentials clientCredentials
	params      web.Params
}

// tokenParams are the parameters of the token endpoint; the first repeated one is
// reported.
var tokenParams = []string{"grant_type", "client_id", "client_secret", "username", "password", "code", "redirect_uri",
	"code_verifier", "refresh_token", "scope", "token", "token_type_hint"}

// token is POST /oauth/v2/token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) error {
	web.OAuthHeaders(w)
	web.OutcomeOf(r.Context()).GrantType = web.NoGrant
	request, err := s.parseTokenRequest(w, r)
	if err != nil {
		return err
	}
	client, isRemembered := s.rememberedClient(r.Context(), request)
	issued, err := store.Issued{}, store.ErrClientChanged
	if isRemembered {
		issued, err = s.issue(r, client, request)
	}
	if errors.Is(err, store.ErrClientChanged) {
		// Client first: an unknown caller learns nothing else.
		web.OutcomeOf(r.Context()).GrantType = web.NoGrant
		if client, err = s.authenticateClient(r, request.credentials); err != nil {
			return err
		}
		issued, err = s.issue(r, client, request)
	}
	if err != nil {
		return err
	}
	web.Note(r.Context(), slog.String("family_id", issued.FamilyID), slog.String("user_id", issued.UserID),
		slog.String("account_id", issued.Account))
	WriteToken(w, issued)
	return nil
}

// rememberedClient returns the client of a refresh without reading it, if the refresh is sure to
// reach the transaction that compares it with the stored one.
func (s *Server) rememberedClient(ctx context.Context, request tokenRequest) (store.Client, bool) {
	p := request.params
	_, isToken := secret.Parse(secret.RefreshToken, p.Value("refresh_token"))
	_, isScope := store.ParseScope(p.Value("scope"))
	if p.Value("grant_type") != string(store.GrantRefreshToken) || !isToken || !isScope {
		return store.Client{}, false
	}
	client, ok := s.site.Store.RememberedClient(request.credentials.ID, request.credentials.Secret)
	if ok {
		web.Note(ctx, slog.String("client_id", client.ID))
	}
	return client, ok
}

// issue issues tokens to an authenticated client, or to a remembered one.
func (s *Server) issue(r *http.Request, client store.Client, request tokenRequest) (store.Issued, error) {
	if client.Platform && !s.site.AdmitsPlatform(r) {
		return store.Issued{}, web.UnauthorizedClient("Platform clients cannot be used here; the operator can allow it with --platform and --platform-from, and never over plain http from elsewhere.")
	}
	grant, err := s.grantOf(client, request.params)
	if err != nil {
		return store.Issued{}, err
	}
	name := request.params.Value("grant_type")
	web.OutcomeOf(r.Context()).GrantType = name
	web.Note(r.Context(), slog.String("grant_type", name))
	if name == string(store.GrantPassword) { // few run at the same time: each waits its turn to hash
		return grant(r.Context(), client, request.params)
	}
	ctx, err := s.site.BeginChange(r.Context(), client.ID)
	if err != nil {
		return store.Issued{}, err
	}
	defer s.site.EndChange(client.ID)
	return grant(ctx, client, request.params)
}

func (s *Server) parseTokenRequest(w http.ResponseWriter, r *http.Request) (tokenRequest, error) {
	if err := web.RefuseSecretsInQuery(r); err != nil {
		return tokenRequest{}, err
	}
	p, err := web.ParseBody(w, r)
	if err != nil {
		return tokenRequest{}, err
	}
	if refused := p.RefuseRepeated(tokenParams...); refused != nil {
		return tokenRequest{}, refused
	}
	if query, _ := web.ParseOAuthParams(r.URL.RawQuery); p.Value("grant_type") == "client_credentials" && len(query.All(accountParam)) > 0 {
		// Overlooked, it would make a token for all accounts.
		return tokenRequest{}, web.InvalidRequest("The parameter account must be in the body, not in the URL.").On(accountParam)
	}
	credentials, refused := parseClientCredentials(r, p, s.site.Testers)
	if refused != nil {
		return tokenRequest{}, refused
	}
	return tokenRequest{credentials: credentials, params: p}, nil
}

// grantFunc issues tokens by one grant to an authenticated client.
type grantFunc func(ctx context.Context, client store.Client, p web.Params) (store.Issued, error)

// grantOf returns the requested grant if the client may use it.
func (s *Server) grantOf(client store.Client, p web.Params) (grantFunc, error) {
	name := store.Grant(p.Value("grant_type"))
	var grant grantFunc
	switch name {
	case store.GrantPassword:
		grant = s.passwordGrant
	case store.GrantAuthorizationCode:
		grant = s.codeGrant
	case store.GrantRefreshToken:
		grant = s.refreshGrant
	case store.GrantClientCredentials:
		grant = s.clientGrant
	case "":
		return nil, web.InvalidRequest("The parameter grant_type is missing.")
	default:
		return nil, web.NewProblem(http.StatusBadRequest, "unsupported_grant_type",
			"grant_type must be password, authorization_code, refresh_token or client_credentials.")
	}
	if !client.Allows(name) {
		return nil, web.UnauthorizedClient("The client may not use this grant.")
	}
	return grant, nil
}

// TokenAnswer is the body of RFC 6749 §5.1, with the specification's null scope.
type TokenAnswer struct {
	AccessToken  string  `json:"access_token"`
	ExpiresIn    int64   `json:"expires_in"`              // seconds
	RefreshToken string  `json:"refresh_token,omitempty"` // left out by the client_credentials grant (RFC 6749 §4.4.3)
	Scope        *string `json:"scope"`
	TokenType    string  `json:"token_type"`
}

// AnswerOf returns the answer that reveals issued tokens.
func AnswerOf(issued store.Issued) TokenAnswer {
	answer := TokenAnswer{
		AccessToken: issued.AccessToken.Reveal(),
		ExpiresIn:   int64(issued.ExpiresIn.Seconds()),
		TokenType:   "bearer",
	}
	if !issued.RefreshToken.IsZero() {
		answer.RefreshToken = issued.RefreshToken.Reveal()
	}
	if issued.Scope != store.ScopeUnstated {
		scope := issued.Scope.String()
		answer.Scope = &scope
	}
	return answer
}

// WriteToken sends issued tokens.
func WriteToken(w http.ResponseWriter, issued store.Issued) {
	body := append(AnswerOf(issued).append(make([]byte, 0, answerSize)), '\n')
	web.WriteBody(w, http.StatusOK, web.AsJSON, body) // a client that disconnected repeats its request
}

const answerSize = 256 // bytes, that most answers fit into

// append appends the answer as JSON.
func (a TokenAnswer) append(b []byte) []byte {
	b = snapshot.AppendString(append(b, `{"access_token":`...), a.AccessToken)
	b = strconv.AppendInt(append(b, `,"expires_in":`...), a.ExpiresIn, 10)
	if a.RefreshToken != "" {
		b = snapshot.AppendString(append(b, `,"refresh_token":`...), a.RefreshToken)
	}
	b = append(b, `,"scope":`...)
	if a.Scope == nil {
		b = append(b, "null"...)
	} else {
		b = snapshot.AppendString(b, *a.Scope)
	}
	return append(snapshot.AppendString(append(b, `,"token_type":`...), a.TokenType), '}')
}

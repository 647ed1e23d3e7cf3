package handlers

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"tollhouse/store"
)

// tokenRequest is a parsed request to the token endpoint (RFC 6749 §3.2).
type tokenRequest struct {
	credentials clientCredentials
	params      params
}

// tokenParams are the parameters of the token endpoint; the first repeated one is
// reported.
var tokenParams = []string{"grant_type", "client_id", "client_secret", "username", "password", "code", "redirect_uri",
	"code_verifier", "refresh_token", "scope", "token", "token_type_hint"}

// secretParams are not allowed in URLs, which proxies and browsers log.
var secretParams = []string{"client_secret", "password", "code", "refresh_token", "code_verifier", "token"}

// token is POST /oauth/v2/token.
func (s *Server) token(w http.ResponseWriter, r *http.Request) error {
	oauthHeaders(w)
	served(r.Context()).GrantType = noGrant
	request, err := parseTokenRequest(w, r)
	if err != nil {
		return err
	}
	// Client first: an unknown caller learns nothing else.
	client, err := s.authenticateClient(r, request.credentials)
	if err != nil {
		return err
	}
	grant, err := s.grantOf(client, request.params)
	if err != nil {
		return err
	}
	served(r.Context()).GrantType = request.params.value("grant_type")
	note(r.Context(), slog.String("grant_type", request.params.value("grant_type")))
	issued, err := grant(r.Context(), client, request.params)
	if err != nil {
		return err
	}
	note(r.Context(), slog.String("family_id", issued.FamilyID), slog.String("user_id", issued.UserID), slog.String("account_id", issued.Account))
	writeToken(w, issued)
	return nil
}

// oauthHeaders are required by the specification and RFC 6749 §5.1, on errors too.
func oauthHeaders(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store, private")
	w.Header().Set("Pragma", "no-cache")
}

func parseTokenRequest(w http.ResponseWriter, r *http.Request) (tokenRequest, error) {
	if err := refuseSecretsInQuery(r); err != nil {
		return tokenRequest{}, err
	}
	p, err := parseBody(w, r)
	if err != nil {
		return tokenRequest{}, err
	}
	if refused := p.refuseRepeated(tokenParams...); refused != nil {
		return tokenRequest{}, refused
	}
	credentials, refused := parseClientCredentials(r, p)
	if refused != nil {
		return tokenRequest{}, refused
	}
	return tokenRequest{credentials: credentials, params: p}, nil
}

func refuseSecretsInQuery(r *http.Request) error {
	query, refused := parseOAuthParams(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	for _, name := range secretParams {
		if query.given(name) {
			return invalidRequest("%s must not be in the URL, because URLs are logged; send it in the body.", name)
		}
	}
	return nil
}

// grantFunc issues tokens by one grant to an authenticated client.
type grantFunc func(ctx context.Context, client store.Client, p params) (store.Issued, error)

// grantOf returns the requested grant if the client may use it.
func (s *Server) grantOf(client store.Client, p params) (grantFunc, error) {
	name := store.Grant(p.value("grant_type"))
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
		return nil, invalidRequest("The parameter grant_type is missing.")
	default:
		return nil, newProblem(http.StatusBadRequest, "unsupported_grant_type", "grant_type must be password, authorization_code, refresh_token or client_credentials.")
	}
	if !client.Allows(name) {
		return nil, unauthorizedClient("The client may not use this grant.")
	}
	return grant, nil
}

// tokenAnswer is the body of RFC 6749 §5.1, with the specification's null scope.
type tokenAnswer struct {
	AccessToken  string  `json:"access_token"`
	ExpiresIn    int64   `json:"expires_in"`              // seconds
	RefreshToken string  `json:"refresh_token,omitempty"` // left out by the client_credentials grant (RFC 6749 §4.4.3)
	Scope        *string `json:"scope"`
	TokenType    string  `json:"token_type"`
}

func answerOf(issued store.Issued) tokenAnswer {
	answer := tokenAnswer{
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

func writeToken(w http.ResponseWriter, issued store.Issued) {
	body, err := json.Marshal(answerOf(issued))
	if err != nil {
		panic("handlers: token answer cannot be encoded: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a client that disconnected repeats its request
}

package handlers

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// bearer calls next if the access token is active and has the scope (RFC 6750
// §2.1). next finds the token's principal in the request's context.
func (s *Server) bearer(need store.Scope, next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h := w.Header()
		h["Cache-Control"], h["Vary"] = headerPrivate, headerVary
		p, err := s.findPrincipal(r)
		if err != nil {
			return err
		}
		note(r.Context(), slog.String("client_id", p.ClientID), slog.String("user_id", p.UserID), slog.String("account_id", p.Account))
		if !p.Allows(need) {
			return insufficientScope(need)
		}
		notePrincipal(r.Context(), &p)
		return next(w, r)
	}
}

// findPrincipal returns the current principal of the request's access token.
func (s *Server) findPrincipal(r *http.Request) (store.Principal, error) {
	text, err := parseBearer(r)
	if err != nil {
		return store.Principal{}, err
	}
	token, ok := s.store.ParseToken(secret.AccessToken, text)
	if !ok {
		return store.Principal{}, invalidToken()
	}
	p, err := s.store.FindPrincipal(r.Context(), token)
	if errors.Is(err, record.ErrNotFound) {
		return store.Principal{}, invalidToken()
	}
	return p, err
}

// parseBearer returns the token in the Authorization header. Tokens in the query are
// refused, because URLs are logged.
func parseBearer(r *http.Request) (string, error) {
	inQuery := hasQueryToken(r.URL.RawQuery)
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) > 1:
		return "", bearerInvalid("The request has more than one Authorization header.")
	case len(headers) == 1 && inQuery:
		return "", bearerInvalid("The access token is in both the header and the query; send only the header.").on("access_token")
	case inQuery:
		return "", bearerChallenge("Tokens in the query are not accepted; send the header Authorization: Bearer TOKEN.")
	case len(headers) == 0:
		return "", bearerChallenge("An access token is required; send the header Authorization: Bearer TOKEN.")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", bearerChallenge("Only the Bearer scheme is accepted; send the header Authorization: Bearer TOKEN.")
	}
	token = strings.Trim(token, " ")
	if token == "" {
		return "", bearerInvalid("The Authorization header has no token after Bearer.")
	}
	return token, nil
}

// hasQueryToken finds access_token in a query, however it is encoded.
func hasQueryToken(query string) bool {
	p, refused := parseOAuthParams(query)
	if refused != nil {
		return strings.Contains(query, "access_token")
	}
	return p.given("access_token")
}

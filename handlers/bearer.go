package handlers

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// bearer lets a request through to next when its access token is live and
// carries the scope (RFC 6750 §2.1). next finds the token's principal by the
// request's context.
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

// findPrincipal returns whom the request's access token speaks for, as things
// stand now.
func (s *Server) findPrincipal(r *http.Request) (store.Principal, error) {
	text, err := parseBearer(r)
	if err != nil {
		return store.Principal{}, err
	}
	token, ok := secret.Parse(secret.AccessToken, text)
	if !ok {
		return store.Principal{}, invalidToken()
	}
	p, err := s.store.FindPrincipal(r.Context(), token)
	if errors.Is(err, store.ErrNotFound) {
		return store.Principal{}, invalidToken()
	}
	return p, err
}

// parseBearer returns the text of the token in the Authorization header. A
// token in the query is never taken: URLs are written down on their way.
func parseBearer(r *http.Request) (string, error) {
	inQuery := hasQueryToken(r.URL.RawQuery)
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) > 1:
		return "", invalidRequest("The request has more than one Authorization header.")
	case len(headers) == 1 && inQuery:
		return "", invalidRequest("The access token is given twice, in the header and in the query; send the header alone.").on("access_token")
	case inQuery:
		return "", bearerChallenge("A token in the query is not accepted; send the header Authorization: Bearer TOKEN.")
	case len(headers) == 0:
		return "", bearerChallenge("An access token is needed; send the header Authorization: Bearer TOKEN.")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", bearerChallenge("Only the Bearer scheme is accepted; send the header Authorization: Bearer TOKEN.")
	}
	token = strings.Trim(token, " ")
	if token == "" {
		return "", invalidRequest("The Authorization header names the Bearer scheme and no token.")
	}
	return token, nil
}

// hasQueryToken looks for access_token in a query, however it is spelt there.
func hasQueryToken(query string) bool {
	if strings.IndexByte(query, '%') < 0 && !strings.Contains(query, "access_token") {
		return false // as most; nothing there can be decoded to it
	}
	p, refused := parsePairs(query)
	if refused != nil {
		return strings.Contains(query, "access_token")
	}
	return p.given("access_token")
}

package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// bearer calls next if the access token is active and has the scope (RFC 6750
// §2.1). next finds the token's principal in the request's context.
func (s *Server) bearer(need store.Scope, next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h := w.Header()
		h["Cache-Control"], h["Vary"] = web.HeaderPrivate, web.HeaderVary
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		if isRead {
			r = s.sharing(r)
			defer web.FactsFrom(r.Context()).Lease.EndReads()
		}
		p, err := s.authorize(r, need)
		if p.ClientID != "" {
			web.Note(r.Context(), slog.String("client_id", p.ClientID), slog.String("user_id", p.UserID), slog.String("account_id", p.Account))
		}
		if err != nil {
			return err
		}
		if p.Platform || len(r.Header[web.AccountHeader]) > 0 {
			h[web.AccountHeader] = []string{p.Account} // so that a caller can see where it acted
		}
		web.NotePrincipal(r.Context(), &p)
		if p.Platform {
			r = r.WithContext(store.WithActor(r.Context(), store.Actor{ClientID: p.ClientID, ClientName: p.ClientName}))
		}
		if !isRead {
			r = withContext(r, s.site.Store.Naming(r.Context(), p))
		}
		return next(w, r)
	}
}

// reading calls next and tells it which keys the request reads besides its principal.
func (s *Server) reading(keys func(r *http.Request, account string) [][]byte, next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx := s.site.Store.Reading(r.Context(), func(account string) [][]byte { return keys(r, account) })
		return next(w, withContext(r, ctx))
	}
}

// sharing lets a request read its principal and all else in one snapshot, which it holds until it
// waits or responds.
func (s *Server) sharing(r *http.Request) *http.Request {
	ctx, end := s.site.Store.Sharing(r.Context())
	web.FactsFrom(ctx).Lease.Reads = end
	return withContext(r, ctx)
}

// withContext copies the request only if it has another context.
func withContext(r *http.Request, ctx context.Context) *http.Request {
	if ctx == r.Context() {
		return r
	}
	return r.WithContext(ctx)
}

// FindPrincipal returns the current principal of the request's access token. That of a platform
// client is refused where such clients may not be used.
func (s *Server) FindPrincipal(r *http.Request) (store.Principal, error) {
	text, err := ParseBearer(r)
	if err != nil {
		return store.Principal{}, err
	}
	token, err := s.site.Store.ParseToken(r.Context(), secret.AccessToken, text)
	var p store.Principal
	if err == nil {
		p, err = s.site.Store.FindPrincipal(r.Context(), token)
	}
	if errors.Is(err, record.ErrNotFound) || err == nil && p.Platform && !s.site.AdmitsPlatform(r) {
		return store.Principal{}, web.InvalidToken()
	}
	return p, err
}

// ParseBearer returns the token in the Authorization header. Tokens in the query are
// refused, because URLs are logged.
func ParseBearer(r *http.Request) (string, error) {
	inQuery := web.HasQueryToken(r.URL.RawQuery)
	headers := r.Header.Values("Authorization")
	switch {
	case len(headers) > 1:
		return "", web.BearerInvalid("The request has more than one Authorization header.")
	case len(headers) == 1 && inQuery:
		return "", web.BearerInvalid("The access token is in both the header and the query; send only the header.").On("access_token")
	case inQuery:
		return "", web.BearerChallenge("Tokens in the query are not accepted; send the header Authorization: Bearer TOKEN.")
	case len(headers) == 0:
		return "", web.BearerChallenge("An access token is required; send the header Authorization: Bearer TOKEN.")
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", web.BearerChallenge("Only the Bearer scheme is accepted; send the header Authorization: Bearer TOKEN.")
	}
	token = strings.Trim(token, " ")
	if token == "" {
		return "", web.BearerInvalid("The Authorization header has no token after Bearer.")
	}
	return token, nil
}

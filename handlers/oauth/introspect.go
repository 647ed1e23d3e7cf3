package oauth

import (
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store/record"
)

// introspection is RFC 7662 §2.2 for an active token.
type introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope"`
	ClientID  string `json:"client_id"`
	Username  string `json:"username,omitempty"` // not of a client that acts for itself
	Subject   string `json:"sub"`
	TokenType string `json:"token_type,omitempty"`
	ExpiresAt int64  `json:"exp"`
	IssuedAt  int64  `json:"iat,omitempty"`
	Issuer    string `json:"iss"`

	Amr []string `json:"amr,omitempty"` // RFC 8176; not of a client that acts for itself
}

// introspect is POST /oauth/v2/introspect (RFC 7662). Expired, unknown and foreign
// tokens are all merely not active.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) error {
	web.OAuthHeaders(w)
	request, err := s.parseTokenRequest(w, r)
	if err != nil {
		return err
	}
	client, err := s.authenticateClient(r, request.credentials)
	if err != nil {
		return err
	}
	if client.Public { // RFC 7662 §2.1: the caller must be authenticated
		return web.InvalidClient()
	}
	if err := need(request.params, "token"); err != nil {
		return err
	}
	found, err := s.site.Store.Introspect(r.Context(), client, request.params.Value("token"))
	if errors.Is(err, record.ErrNotFound) || err == nil && found.Platform && !s.site.HasPlatform() {
		web.WriteJSON(w, http.StatusOK, map[string]bool{"active": false})
		return nil
	}
	if err != nil {
		return err
	}
	answer := introspection{
		Active: true, Scope: found.Scope.String(), ClientID: found.ClientID, Username: found.Username, Subject: found.Subject,
		ExpiresAt: found.ExpiresAt.Unix(), Issuer: s.site.IssuerOf(r), Amr: found.Amr.Values(),
	}
	if found.Access {
		answer.TokenType, answer.IssuedAt = "bearer", found.IssuedAt.Unix()
	}
	web.WriteJSON(w, http.StatusOK, answer)
	return nil
}

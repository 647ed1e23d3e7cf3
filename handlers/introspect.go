package handlers

import (
	"errors"
	"net/http"

	"tollhouse/store"
)

// introspection is RFC 7662 §2.2 for a live token.
type introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope"`
	ClientID  string `json:"client_id"`
	Username  string `json:"username"`
	Subject   string `json:"sub"`
	TokenType string `json:"token_type,omitempty"`
	ExpiresAt int64  `json:"exp"`
	IssuedAt  int64  `json:"iat,omitempty"`
	Issuer    string `json:"iss"`
}

// introspect is POST /oauth/v2/introspect (RFC 7662). Whatever is dead, or is
// not the caller's to ask about, is merely not active.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) error {
	oauthHeaders(w)
	request, err := parseTokenRequest(w, r)
	if err != nil {
		return err
	}
	client, err := s.authenticateClient(r.Context(), request.credentials)
	if err != nil {
		return err
	}
	if client.Public { // RFC 7662 §2.1: the caller must have proved who it is
		return invalidClient(request.credentials.basic)
	}
	if err := need(request.params, "token"); err != nil {
		return err
	}
	found, err := s.store.Introspect(r.Context(), client, request.params.value("token"))
	if errors.Is(err, store.ErrNotFound) {
		writeJSON(w, http.StatusOK, map[string]bool{"active": false})
		return nil
	}
	if err != nil {
		return err
	}
	answer := introspection{
		Active: true, Scope: found.Scope.String(), ClientID: found.ClientID, Username: found.Username, Subject: found.Subject,
		ExpiresAt: found.ExpiresAt.Unix(), Issuer: s.issuer,
	}
	if found.Access {
		answer.TokenType, answer.IssuedAt = "bearer", found.IssuedAt.Unix()
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

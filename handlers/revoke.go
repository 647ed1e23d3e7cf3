package handlers

import (
	"net/http"
)

// revoke is POST /oauth/v2/revoke (RFC 7009). Unknown, expired and foreign tokens get
// the same response as valid ones.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) error {
	oauthHeaders(w)
	request, err := parseTokenRequest(w, r)
	if err != nil {
		return err
	}
	client, err := s.authenticateClient(r, request.credentials)
	if err != nil {
		return err
	}
	if err := need(request.params, "token"); err != nil {
		return err
	}
	// RFC 7009 §2.1: the hint is optional, and a token shows its own kind.
	if err := s.store.RevokeToken(r.Context(), by(r.Context()), client, request.params.value("token")); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct{}{}) // {}: some clients parse the body
	return nil
}

package handlers

import (
	"net/http"
)

// revoke is POST /oauth/v2/revoke (RFC 7009). Every token that is not the
// client's own live one gets the same answer as one that was.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) error {
	oauthHeaders(w)
	request, err := parseTokenRequest(w, r)
	if err != nil {
		return err
	}
	client, err := s.authenticateClient(r.Context(), request.credentials)
	if err != nil {
		return err
	}
	if err := need(request.params, "token"); err != nil {
		return err
	}
	// RFC 7009 §2.1: the hint is no more than one, and a token tells its kind itself.
	if err := s.store.RevokeToken(r.Context(), by(r.Context()), client, request.params.value("token")); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct{}{}) // {}: some clients parse the body
	return nil
}

package oauth

import (
	"net/http"

	"tollhouse/handlers/web"
)

// revoke is POST /oauth/v2/revoke (RFC 7009). Unknown, expired and foreign tokens get
// the same response as valid ones.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) error {
	web.OAuthHeaders(w)
	request, err := s.parseTokenRequest(w, r)
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
	err = s.site.Store.RevokeToken(r.Context(), web.By(r.Context()), client, request.params.Value("token"))
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, struct{}{}) // {}: some clients parse the body
	return nil
}

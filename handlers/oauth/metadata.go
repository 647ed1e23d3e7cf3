package oauth

import (
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
)

// serverMetadata is RFC 8414 §2. We serve no OpenID document, since we issue no ID
// tokens.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	RevocationAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	IntrospectAuthMethods []string `json:"introspection_endpoint_auth_methods_supported"`
	CodeChallengeMethods  []string `json:"code_challenge_methods_supported"`
	Scopes                []string `json:"scopes_supported"`
	IssuerParameter       bool     `json:"authorization_response_iss_parameter_supported"`
	ServiceDocumentation  string   `json:"service_documentation"`
}

// metadata is GET /.well-known/oauth-authorization-server (RFC 8414).
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) error {
	confidential := []string{"client_secret_basic", "client_secret_post"}
	issuer, programs := s.site.IssuerOf(r), s.site.ProgramsURL(r)
	w.Header().Set("Cache-Control", "public, max-age=300")
	web.WriteJSON(w, http.StatusOK, serverMetadata{
		Issuer:                issuer,
		AuthorizationEndpoint: issuer + "/oauth/v2/auth",
		TokenEndpoint:         programs + "/oauth/v2/token",
		RevocationEndpoint:    programs + "/oauth/v2/revoke",
		IntrospectionEndpoint: programs + "/oauth/v2/introspect",
		ResponseTypes:         []string{"code"},
		ResponseModes:         []string{"query"},
		GrantTypes:            []string{"password", "authorization_code", "refresh_token", "client_credentials"},
		TokenAuthMethods:      append(confidential[:2:2], "none"),
		RevocationAuthMethods: append(confidential[:2:2], "none"),
		IntrospectAuthMethods: confidential,
		CodeChallengeMethods:  []string{"S256"},
		Scopes:                store.ScopeNames(),
		IssuerParameter:       true,
		ServiceDocumentation:  issuer + "/",
	})
	return nil
}

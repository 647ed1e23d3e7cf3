package web

import (
	"net/http"
	"strings"
)

// HasQueryToken finds access_token in a query, however it is encoded.
func HasQueryToken(query string) bool {
	p, refused := ParseOAuthParams(query)
	if refused != nil {
		return strings.Contains(query, "access_token")
	}
	return p.given("access_token")
}

// secretParams are not allowed in URLs, which proxies and browsers log.
var secretParams = []string{"client_secret", "password", "code", "refresh_token", "code_verifier", "token"}

// RefuseSecretsInQuery refuses a request with a secret in its URL.
func RefuseSecretsInQuery(r *http.Request) error {
	query, refused := ParseOAuthParams(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	for _, name := range secretParams {
		if query.given(name) {
			return InvalidRequest("%s must not be in the URL, because URLs are logged; send it in the body.", name)
		}
	}
	return nil
}

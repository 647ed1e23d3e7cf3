package web

import (
	"slices"
	"strings"
)

// AuthScheme splits an Authorization header into its scheme (RFC 9110 §11.4) and the rest. The
// scheme is "" if the first word may be a secret itself.
func AuthScheme(header string) (scheme, credentials string) {
	scheme, credentials, found := strings.Cut(header, " ")
	switch {
	case !found && slices.Contains(loneSchemes, strings.ToLower(header)):
	case !found || len(scheme) > schemeSizeMax || strings.ContainsFunc(scheme, isNotOfAScheme):
		return "", header
	}
	return scheme, strings.TrimSpace(credentials)
}

const schemeSizeMax = 20 // bytes; SCRAM-SHA-256 has 13

// loneSchemes are named without credentials too, as programs send them by mistake.
var loneSchemes = []string{"basic", "bearer", "digest", "negotiate"}

func isNotOfAScheme(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

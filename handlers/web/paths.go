package web

import (
	"cmp"
	"net/http"
	"strings"
)

// Where the doors of other rooms begin.
const (
	DeskPath     = "/desk"
	DevPath      = "/_dev" // the testers' controls
	DocsPath     = "/docs"
	MetadataPath = "/.well-known/oauth-authorization-server" // RFC 8414 §3; an issuer's path follows it
	OpenAPIPath  = "/openapi.json"
	PlatformPath = "/api/platform" // management by programs; also on the admin socket
)

// isDevRequest reports whether the request is for the testers' controls.
func (s *Site) isDevRequest(r *http.Request) bool {
	if !s.Testers {
		return false
	}
	path, under := strings.CutPrefix(r.URL.Path, s.Base())
	return under && IsDevPath(path)
}

// IsDevPath reports whether a path is of the testers' controls.
func IsDevPath(path string) bool {
	rest, is := strings.CutPrefix(path, DevPath)
	return is && (rest == "" || rest[0] == '/')
}

// PathOf returns the path of a request without that of the public URL.
func (s *Site) PathOf(r *http.Request) string {
	path, under := strings.CutPrefix(r.URL.Path, s.Base())
	if !under || path != "" && path[0] != '/' {
		return r.URL.Path
	}
	return cmp.Or(path, "/")
}

// IsPlatformPath reports whether a path is of management by programs.
func IsPlatformPath(path string) bool { return isBelow(path, PlatformPath) }

// IsStaticOrHealth reports whether a path is of a static file or a health check.
func IsStaticOrHealth(path string) bool {
	return path == "/healthz" || path == "/readyz" || strings.HasPrefix(path, "/static/")
}

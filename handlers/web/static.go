package web

import (
	"net/http"

	"tollhouse/static"
)

// static is GET /static/*name. A name carries the hash of its bytes, so the
// answer never changes.
func (s *Site) static(w http.ResponseWriter, r *http.Request) error {
	content, contentType, ok := static.Open(r.URL.Path)
	if !ok && s.logo.path != "" && r.URL.Path == s.logo.path {
		content, contentType, ok = s.logo.content, "image/png", true
	}
	if !ok && s.Shared {
		// A page of a server of another release asks for it.
		if content, contentType, ok = static.OpenOther(r.URL.Path); ok {
			WriteBody(w, http.StatusOK, contentType, content) // which adds no-store
			return nil
		}
	}
	if !ok {
		return NewProblem(http.StatusNotFound, "not_found", "The file does not exist.")
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	WriteBody(w, http.StatusOK, contentType, content)
	return nil
}

// logo is the operator's picture, served under the hash of its bytes.
type logo struct {
	path    string // "" for none
	content []byte
}

func newLogo(png []byte) logo {
	if png == nil {
		return logo{}
	}
	return logo{path: static.PathOf("logo.png", png), content: png}
}

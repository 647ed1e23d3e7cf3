package handlers

import (
	"net/http"

	"tollhouse/static"
)

// static is GET /static/*name. A name carries the hash of its bytes, so the
// answer never changes.
func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	content, contentType, ok := static.Open(r.URL.Path)
	if !ok {
		return newProblem(http.StatusNotFound, "not_found", "The file does not exist.")
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	writeBody(w, http.StatusOK, contentType, content)
	return nil
}

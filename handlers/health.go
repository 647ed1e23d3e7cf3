package handlers

import (
	"context"
	"net/http"
)

// healthz is GET /healthz: the process answers.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// readyz is GET /readyz: the process can do its work. It reads the store.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.whyNotReady(r.Context()); err != nil {
		return temporarilyUnavailable(err)
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// adminReadyz is readyz for the operator, who is told the reason.
func (s *Server) adminReadyz(w http.ResponseWriter, r *http.Request) error {
	err := s.whyNotReady(r.Context())
	if err == nil {
		return s.readyz(w, r)
	}
	return newProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "The server is not ready: %v.", err).because(err)
}

func (s *Server) whyNotReady(ctx context.Context) error {
	if err := s.ready(); err != nil {
		return err
	}
	return s.store.Check(ctx)
}

func (s *Server) options(w http.ResponseWriter, r *http.Request) {
	noteRoute(r, "")
	w.WriteHeader(http.StatusNoContent) // Allow is set by the router
}

func (s *Server) notFound(_ http.ResponseWriter, _ *http.Request) error {
	return newProblem(http.StatusNotFound, "not_found", "There is no such address; paths are spelt exactly, without a slash at the end.")
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	description := "This address does not take the method; the Allow header lists those that it takes."
	if r.URL.Path == "/oauth/v2/token" {
		oauthHeaders(w)
		description = "The token endpoint takes POST only, with the parameters in the body and never in the URL."
	}
	return newProblem(http.StatusMethodNotAllowed, "invalid_request", "%s", description)
}

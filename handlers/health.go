package handlers

import (
	"context"
	"errors"
	"net/http"
)

// healthz is GET /healthz.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// readyz is GET /readyz. It reads the store.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.whyNotReady(r.Context()); err != nil {
		p := temporarilyUnavailable(err)
		var public interface{ Public() string } // a reason for everybody
		if errors.As(err, &public) {
			p.description = public.Public()
		}
		return p
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// adminReadyz is readyz with the reason, for the operator.
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
	w.WriteHeader(http.StatusNoContent) // the router sets Allow
}

func (s *Server) notFound(_ http.ResponseWriter, _ *http.Request) error {
	return newProblem(http.StatusNotFound, "not_found", "Unknown address. Paths must match exactly, without a slash at the end.")
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	description := "The method is not allowed here; the Allow header lists those that are."
	if r.URL.Path == "/oauth/v2/token" {
		oauthHeaders(w)
		description = "The token endpoint accepts only POST, with the parameters in the body and not in the URL."
	}
	return newProblem(http.StatusMethodNotAllowed, "invalid_request", "%s", description)
}

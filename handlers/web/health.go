package web

import (
	"context"
	"errors"
	"net/http"
)

// MountMonitoring adds the routes of health checks and metrics; ready answers /readyz.
func (s *Site) MountMonitoring(r *Router, ready Handler) {
	r.Get("/healthz", healthz)
	r.Get("/readyz", ready)
	if s.metrics != nil {
		r.Get("/metrics", s.showMetrics)
	}
}

// showMetrics is GET /metrics, for Prometheus.
func (s *Site) showMetrics(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	s.metrics.ServeHTTP(w, r)
	return nil
}

// healthz is GET /healthz.
func healthz(w http.ResponseWriter, _ *http.Request) error {
	WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// Readyz is GET /readyz. It reads the store.
func (s *Site) readyz(w http.ResponseWriter, r *http.Request) error {
	if err := s.whyNotReady(r.Context()); err != nil {
		p := TemporarilyUnavailable(err)
		var public interface{ Public() string } // a reason for everybody
		if errors.As(err, &public) {
			p.Description = public.Public()
		}
		return p.refusing(err)
	}
	WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// AdminReadyz is /readyz with the reason, for the operator.
func (s *Site) AdminReadyz(w http.ResponseWriter, r *http.Request) error {
	err := s.whyNotReady(r.Context())
	if err == nil {
		return s.readyz(w, r)
	}
	return NewProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "The server is not ready: %v.",
		err).Because(err).refusing(err)
}

// refusing names the classes of updates that the server refuses, if its disk is nearly full.
func (p *Problem) refusing(err error) *Problem {
	var full interface{ Refused() []string }
	if errors.As(err, &full) {
		p.Extra = map[string]any{"refused": full.Refused()}
	}
	return p
}

func (s *Site) whyNotReady(ctx context.Context) error {
	if err := s.ready(); err != nil {
		return err
	}
	return s.Store.Check(ctx)
}

package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// Handler responds to a request or returns why it could not.
type Handler func(w http.ResponseWriter, r *http.Request) error

// handle sends the errors of a handler as JSON and logs them.
func (s *Site) handle(route string, h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		NoteRoute(r, route)
		if err := h(w, r); err != nil {
			p := AsProblem(err)
			NoteProblem(r.Context(), p)
			WriteProblem(w, p)
		}
	})
}

// handlePage is handle for pages: errors are pages unless the caller asks for JSON by
// name, and forms from other sites are refused.
func (s *Site) handlePage(route string, h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		NoteRoute(r, route)
		err := s.CheckOrigin(r)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			p := AsProblem(err)
			NoteProblem(r.Context(), p)
			s.WriteProblemPage(w, r, p)
		}
	})
}

// handleLost is for requests without a route: browsers get a page, programs get JSON.
func (s *Site) handleLost(h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		NoteRoute(r, "")
		if isAllowedPreflight(w, r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		p := AsProblem(h(w, r))
		NoteProblem(r.Context(), p)
		if AsksForHTML(r) {
			s.WriteProblemPage(w, r, p)
			return
		}
		WriteProblem(w, p)
	})
}

// NoteRoute names the route of a request in its log line and in metrics.
func NoteRoute(r *http.Request, route string) {
	if route == "" {
		route = noRoute // never the path, which is the caller's text
	}
	OutcomeOf(r.Context()).Route = route
	Note(r.Context(), slog.String("route", route))
}

// NoteProblem records why a request was refused.
func NoteProblem(ctx context.Context, p *Problem) {
	OutcomeOf(ctx).Code = p.Code
	Note(ctx, slog.String("error", p.Code))
	if p.cause != nil && !errors.Is(p.cause, context.Canceled) {
		Note(ctx, slog.String("err", p.cause.Error()))
	}
}

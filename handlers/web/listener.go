package web

import (
	"net/http"

	"tollhouse/store/secret"
)

// listener is the kind of listener that accepted a request.
type listener int

const (
	publicListener   listener = iota
	redirectListener          // plain http next to TLS
	operatorListener          // the admin socket, health and metrics
)

// requestIDs returns the source of a request's id. The testers' controls, health checks
// and the operator have sequences of their own, so that a look at a journal does not
// change what others get.
func (s *Site) requestIDs(on listener, r *http.Request) secret.Source {
	switch {
	case s.publicIDs == nil:
		return nil
	case on == operatorListener || s.isHealth(r.URL.Path):
		return s.adminIDs
	case s.isDevRequest(r):
		return s.devIDs
	}
	return s.publicIDs
}

// sequenceOf returns a source with a sequence of its own, or nil for
// nil.
func sequenceOf(from secret.Source, name string) secret.Source {
	if from == nil {
		return nil
	}
	return func(_ string, b []byte) { from(name, b) }
}

package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"tollhouse/store"
	"tollhouse/store/record"
)

// problem is an error with the form in which the caller sees it. Only the log shows
// cause.
type problem struct {
	status      int
	code        string
	description string // one sentence; never contains the caller's text
	param       string
	extra       map[string]any
	header      http.Header
	cause       error

	// The text for people, on routes that respond with pages.
	page *pageText
}

func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %s: %v", p.code, p.description, p.cause)
	}
	return p.code + ": " + p.description
}

func (p *problem) Unwrap() error { return p.cause }

func newProblem(status int, code, format string, args ...any) *problem {
	return &problem{status: status, code: code, description: fmt.Sprintf(format, args...)}
}

// because sets the cause for the log.
func (p *problem) because(cause error) *problem {
	p.cause = cause
	return p
}

func (p *problem) with(name, value string) *problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// on sets the parameter at fault.
func (p *problem) on(param string) *problem {
	p.param = param
	return p
}

// The errors of RFC 6749 §5.2.

func invalidRequest(format string, args ...any) *problem {
	return newProblem(http.StatusBadRequest, "invalid_request", format, args...)
}

// invalidClient is the one response for every failed client authentication. It has
// a challenge only if the Authorization header was used (RFC 6749 §5.2).
func invalidClient(basic bool) *problem {
	p := newProblem(http.StatusUnauthorized, "invalid_client", "The client is unknown or its credentials are wrong.")
	if basic {
		p.with("WWW-Authenticate", `Basic realm="tollhouse", charset="UTF-8"`)
	}
	return p
}

func invalidGrant(description string) *problem {
	return newProblem(http.StatusBadRequest, "invalid_grant", "%s", description)
}

func unauthorizedClient(description string) *problem {
	return newProblem(http.StatusBadRequest, "unauthorized_client", "%s", description)
}

func invalidScope(description string) *problem {
	return newProblem(http.StatusBadRequest, "invalid_scope", "%s", description)
}

// The errors of RFC 6750 §3.1. The challenge never contains the caller's text.

func bearerChallenge(description string) *problem {
	return newProblem(http.StatusUnauthorized, "unauthorized", "%s", description).
		with("WWW-Authenticate", `Bearer realm="tollhouse"`)
}

// bearerInvalid is RFC 6750 §3: every answer to a request without a usable token has a
// challenge.
func bearerInvalid(description string) *problem {
	return invalidRequest("%s", description).with("WWW-Authenticate", `Bearer realm="tollhouse", error="invalid_request"`)
}

func invalidToken() *problem {
	const description = "The access token is unknown, expired or revoked."
	return newProblem(http.StatusUnauthorized, "invalid_token", description).
		with("WWW-Authenticate", `Bearer realm="tollhouse", error="invalid_token", error_description="`+description+`"`)
}

func insufficientScope(need store.Scope) *problem {
	what := "the scope " + need.String()
	if names := need.Names(); len(names) > 1 {
		what = "the scopes " + strings.Join(names, " and ")
	}
	return newProblem(http.StatusForbidden, "insufficient_scope", "The access token does not carry %s.", what).
		with("WWW-Authenticate", `Bearer realm="tollhouse", error="insufficient_scope", scope="`+need.String()+`"`)
}

// retryAfterSeconds is for requests that were refused before they changed anything;
// retryAwaySeconds for those that wait for a database.
const (
	retryAfterSeconds = 1
	retryAwaySeconds  = 2
)

func temporarilyUnavailable(cause error) *problem {
	if errors.Is(cause, record.ErrAway) {
		return newProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "The database does not answer; nothing was changed. Try again shortly.").
			with("Retry-After", strconv.Itoa(retryAwaySeconds)).because(cause)
	}
	description := "The server is busy; nothing was changed. Try again shortly."
	if errors.Is(cause, record.ErrFull) {
		description = "The server cannot accept changes now; nothing was changed. Try again later."
	}
	return newProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "%s", description).
		with("Retry-After", strconv.Itoa(retryAfterSeconds)).because(cause)
}

func serverError(cause error) *problem {
	return newProblem(http.StatusInternalServerError, "server_error", "The server failed to complete the request; the operator can find the cause by the request id.").because(cause)
}

func tooLarge(limitBytes int64) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "too_large", "The request body is larger than %d bytes.", limitBytes)
}

// asProblem gives every error its wire form; unknown errors become server_error
// without details.
func asProblem(err error) *problem {
	var p *problem
	var tooLong *http.MaxBytesError
	var bad *record.InvalidError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLong):
		return tooLarge(tooLong.Limit)
	case errors.As(err, &bad):
		return invalidValue(bad)
	case errors.Is(err, record.ErrUnavailable), errors.Is(err, record.ErrBusy), errors.Is(err, context.Canceled):
		// A caller that disconnected was dropped before anything began.
		return temporarilyUnavailable(err)
	case errors.Is(err, record.ErrUnknownOutcome):
		return newProblem(http.StatusInternalServerError, "server_error", "It is not known whether this was done.").because(err)
	case errors.Is(err, record.ErrNotFound):
		return newProblem(http.StatusNotFound, "not_found", "Not found.").because(err)
	case errors.Is(err, record.ErrExists):
		return newProblem(http.StatusConflict, "exists", "The name is already in use.").because(err)
	case errors.Is(err, record.ErrConflict):
		return newProblem(http.StatusConflict, "conflict", "It was changed by another request, or it is in use.").because(err)
	}
	return serverError(err)
}

// asOperatorProblem is asProblem for operators: it says how full the disk is.
func asOperatorProblem(err error) *problem {
	p := asProblem(err)
	var full interface {
		error
		Hint() string
	}
	if errors.Is(err, record.ErrFull) && errors.As(err, &full) {
		p.code, p.description = DiskFull, fmt.Sprintf("No change is accepted: %v.", full)
		p.extra = map[string]any{"hint": full.Hint()}
		p.page = &pageText{title: "The disk is nearly full", message: p.description}
	}
	return p
}

// forOperator explains the errors of a handler as asOperatorProblem does.
func forOperator(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := h(w, r); err != nil {
			return asOperatorProblem(err)
		}
		return nil
	}
}

// invalidValue explains a value that the store refused. The store's text may quote
// the value.
func invalidValue(bad *record.InvalidError) *problem {
	text := bad.Reason + "."
	if strings.HasSuffix(bad.Reason, "?") {
		text = sentence(bad.Reason)
	}
	p := newProblem(http.StatusBadRequest, "invalid_request", "%s", text).on(bad.Field)
	if bad.Hint != "" {
		p.extra = map[string]any{"hint": bad.Hint}
	}
	return p
}

func writeProblem(w http.ResponseWriter, p *problem) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	body := map[string]any{}
	for name, value := range p.extra {
		body[name] = value
	}
	body["error"], body["error_description"] = p.code, p.description
	if p.param != "" {
		body["param"] = p.param
	}
	writeJSON(w, p.status, body)
}

// writeJSON sends value. The encoder escapes <, > and &, so that no browser can
// mistake it for HTML.
func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic("handlers: answer cannot be encoded: " + err.Error())
	}
	writeBody(w, status, "application/json", append(body, '\n'))
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if len(h["Cache-Control"]) == 0 {
		h["Cache-Control"] = headerNoStore
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller may be gone
}

package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// Problem is an error with the form in which the caller sees it. Only the log shows
// cause.
type Problem struct {
	Status      int
	Code        string
	Description string // one sentence; never contains the caller's text
	Param       string
	Extra       map[string]any
	Header      http.Header
	cause       error

	// The text for people, on routes that respond with pages.
	Page *views.ErrorText
}

func (p *Problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %s: %v", p.Code, p.Description, p.cause)
	}
	return p.Code + ": " + p.Description
}

func (p *Problem) Unwrap() error { return p.cause }

// NewProblem returns a problem without a cause.
func NewProblem(status int, code, format string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Description: fmt.Sprintf(format, args...)}
}

// Because sets the cause for the log.
func (p *Problem) Because(cause error) *Problem {
	p.cause = cause
	return p
}

// With sets a header of the response.
func (p *Problem) With(name, value string) *Problem {
	if p.Header == nil {
		p.Header = http.Header{}
	}
	p.Header.Set(name, value)
	return p
}

// On sets the parameter at fault.
func (p *Problem) On(param string) *Problem {
	p.Param = param
	return p
}

// The errors of RFC 6749 §5.2.

func InvalidRequest(format string, args ...any) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_request", format, args...)
}

// InvalidClient is the one response for every failed client authentication. RFC 9110
// §15.5.2: every 401 has a challenge.
func InvalidClient() *Problem {
	return NewProblem(http.StatusUnauthorized, "invalid_client", "The client is unknown or its credentials are wrong.").
		With("WWW-Authenticate", `Basic realm="tollhouse", charset="UTF-8"`)
}

func InvalidGrant(description string) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_grant", "%s", description)
}

func UnauthorizedClient(description string) *Problem {
	return NewProblem(http.StatusBadRequest, "unauthorized_client", "%s", description)
}

func InvalidScope(format string, args ...any) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_scope", format, args...)
}

// The errors of RFC 6750 §3.1. The challenge never contains the caller's text.

// BearerChallenge refuses a request without credentials.
func BearerChallenge(description string) *Problem {
	return NewProblem(http.StatusUnauthorized, "unauthorized", "%s", description).
		With("WWW-Authenticate", `Bearer realm="tollhouse"`)
}

// BearerInvalid is RFC 6750 §3: every answer to a request without a usable token has a
// challenge.
func BearerInvalid(description string) *Problem {
	return InvalidRequest("%s", description).With("WWW-Authenticate", `Bearer realm="tollhouse", error="invalid_request"`)
}

// InvalidToken refuses an access token.
func InvalidToken() *Problem {
	const description = "The access token is unknown, expired or revoked."
	return NewProblem(http.StatusUnauthorized, "invalid_token", description).
		With("WWW-Authenticate", `Bearer realm="tollhouse", error="invalid_token", error_description="`+description+`"`)
}

// InsufficientScope refuses an access token that lacks some of the scopes that a request needs. The
// text names those; the challenge names all, as RFC 6750 §3 has it: a token for the others alone
// would be refused too.
func InsufficientScope(need, has store.Scope) *Problem {
	lacks := need &^ has
	what := "the scope " + lacks.String()
	if names := lacks.Names(); len(names) > 1 {
		what = "the scopes " + strings.Join(names, " and ")
	}
	return NewProblem(http.StatusForbidden, "insufficient_scope", "The access token does not carry %s.", what).
		With("WWW-Authenticate", `Bearer realm="tollhouse", error="insufficient_scope", scope="`+need.String()+`"`)
}

const (
	// RetryAfterSeconds is for requests that were refused before they changed anything.
	RetryAfterSeconds = 1
	retryAwaySeconds  = 2 // for those that need a database which does not answer
)

// TemporarilyUnavailable refuses what changed nothing, and says when to try again.
func TemporarilyUnavailable(cause error) *Problem {
	if errors.Is(cause, record.ErrAway) {
		return NewProblem(http.StatusServiceUnavailable, "temporarily_unavailable",
			"The database does not answer; nothing was changed. Try again shortly.").
			With("Retry-After", strconv.Itoa(retryAwaySeconds)).Because(cause)
	}
	description := "The server is busy; nothing was changed. Try again shortly."
	if errors.Is(cause, record.ErrFull) {
		description = "The server is read-only right now. Nothing was changed. Try again later."
	}
	return NewProblem(http.StatusServiceUnavailable, "temporarily_unavailable", "%s", description).
		With("Retry-After", strconv.Itoa(RetryAfterSeconds)).Because(cause)
}

// writtenTooMuch is for an account that has used up its budget.
func writtenTooMuch(e *record.BudgetError) *Problem {
	seconds := strconv.Itoa(int((e.Wait + time.Second - 1) / time.Second))
	return NewProblem(http.StatusTooManyRequests, "too_many_requests",
		"The account has written too much lately; nothing was changed. %s", TryAgainIn(seconds)).
		With("Retry-After", seconds).Because(e)
}

const serverError = "server_error"

// ServerError hides the cause, which only the log shows.
func ServerError(cause error) *Problem {
	return NewProblem(http.StatusInternalServerError, serverError,
		"The server failed to complete the request; the operator can find the cause by the request id.").Because(cause)
}

// Absent says that the name is unknown, with a hint where to look.
func Absent(what, name, hint string) *Problem {
	p := NewProblem(http.StatusNotFound, "not_found", "Unknown %s %q.", what, ShownName(name))
	p.Extra = map[string]any{"hint": hint}
	return p
}

// TooLarge refuses a body above the limit.
func TooLarge(limitBytes int64) *Problem {
	return NewProblem(http.StatusRequestEntityTooLarge, "too_large", "The request body is larger than %d bytes.",
		limitBytes)
}

// AsProblem gives every error its wire form; unknown errors become server_error
// without details.
func AsProblem(err error) *Problem {
	var p *Problem
	var tooLong *http.MaxBytesError
	var bad *record.InvalidError
	var overdrawn *record.BudgetError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &overdrawn):
		return writtenTooMuch(overdrawn)
	case errors.As(err, &tooLong):
		return TooLarge(tooLong.Limit)
	case errors.As(err, &bad):
		return InvalidValue(bad)
	case errors.Is(err, record.ErrUnavailable), errors.Is(err, record.ErrBusy), errors.Is(err, context.Canceled):
		// A caller that disconnected was dropped before anything began.
		return TemporarilyUnavailable(err)
	case errors.Is(err, record.ErrUnknownOutcome):
		return NewProblem(http.StatusInternalServerError, "server_error",
			"The outcome is unknown; check before retrying.").Because(err)
	case errors.Is(err, store.ErrProtected):
		return NewProblem(http.StatusForbidden, "protected",
			"Only the machine may change an operator, a platform client, or a client that may introspect.").Because(err)
	case errors.Is(err, record.ErrPrecondition):
		return NewProblem(http.StatusPreconditionFailed, "precondition_failed",
			"It does not meet If-Match or If-None-Match; read it again and retry.").Because(err)
	case errors.Is(err, store.ErrUnknownAccount):
		return NewProblem(http.StatusNotFound, "unknown_account", "The account does not exist.").
			On("account").Because(err)
	case errors.Is(err, store.ErrTooManyClients):
		return NewProblem(http.StatusConflict, "limit_reached",
			"There are as many clients as there may be; delete those not in use.").Because(err)
	case errors.Is(err, record.ErrNotFound):
		return NewProblem(http.StatusNotFound, "not_found", "Not found.").Because(err)
	case errors.Is(err, record.ErrExists):
		return NewProblem(http.StatusConflict, "exists", "The name is already in use.").Because(err)
	case errors.Is(err, record.ErrConflict):
		return NewProblem(http.StatusConflict, "conflict", "It was changed by another request, or it is in use.").Because(err)
	}
	return ServerError(err)
}

// DiskFull is the code of a refusal because the disk is nearly full.
const DiskFull = "disk_full"

// AsOperatorProblem is [AsProblem] for operators: it says how full the disk is.
func AsOperatorProblem(err error) *Problem {
	p := AsProblem(err)
	var full interface {
		error
		Hint() string
	}
	if errors.Is(err, record.ErrFull) && errors.As(err, &full) {
		p.Code, p.Description = DiskFull, fmt.Sprintf("Writes are disabled: %v.", full)
		p.Extra = maps.Clone(p.Extra)
		if p.Extra == nil {
			p.Extra = map[string]any{}
		}
		p.Extra["hint"] = full.Hint()
		p.Page = &views.ErrorText{Kind: views.ErrorDiskFull}
	}
	return p
}

// forOperator explains the errors of a handler as AsOperatorProblem does.
func forOperator(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := h(w, r); err != nil {
			return AsOperatorProblem(err)
		}
		return nil
	}
}

// InvalidValue explains a value that the store refused. The store's text may quote
// the value.
func InvalidValue(bad *record.InvalidError) *Problem {
	p := NewProblem(http.StatusBadRequest, cmp.Or(bad.Code, "invalid_request"), "%s", Sentence(bad.Reason, bad.Field)).On(bad.Field)
	if bad.Hint != "" {
		p.Extra = map[string]any{"hint": bad.Hint}
	}
	return p
}

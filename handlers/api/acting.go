package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// A platform client acts for the account that the header Tollhouse-Account names, as a client
// that is bound to that account. Its token may be bound to one account, and needs no header
// then. Tokens of all other clients have an account of their own.

// acting is what a request says about the account that it is for.
type acting struct {
	account string // "" if the request names none
	label   string // a header that says where its events come from, or ""
}

// parseActing checks the form of the headers. An empty one never counts as absent: a library
// that sends it empty would otherwise act for an account that nobody chose.
func parseActing(h http.Header) (a acting, refused *web.Problem) {
	if values, given := h[web.AccountHeader]; given {
		if len(values) > 1 || record.CheckAccountID(values[0]) != nil {
			return a, web.InvalidParameter(web.AccountHeader, "must be the id of one account, given once.")
		}
		a.account = values[0]
	}
	for _, name := range []string{web.SourceHeader, web.LocationHeader} {
		values, given := h[name]
		if !given {
			continue
		}
		if len(values) > 1 || !store.IsLabel(values[0]) {
			return a, web.InvalidParameter(name, "must have 1 to %d bytes of UTF-8 without invisible characters, and be given once.", store.LabelSizeMax)
		}
		a.label = name
	}
	return a, nil
}

// authorize returns the principal of the request's access token, with the account for which it
// acts. Who may not act for accounts learns nothing of them: the account is looked up last.
func (s *Server) authorize(r *http.Request, need store.Scope) (store.Principal, error) {
	p, err := s.FindPrincipal(r)
	if err != nil {
		return p, err
	}
	asked, refused := parseActing(r.Header)
	if refused != nil {
		return p, refused
	}
	if asked.label != "" && !p.Platform {
		return p, web.InvalidParameter(asked.label, "is for platform clients; leave it out.")
	}
	actsForAny := actsForAny(p)
	if !actsForAny && asked.account != "" && asked.account != p.Account {
		s.AuditRefused(r.Context(), p, "account_mismatch", store.AuditLine{})
		return p, web.NewProblem(http.StatusForbidden, "account_mismatch", "The access token acts for another account than %s names.", web.AccountHeader).On(web.AccountHeader)
	}
	if err := allows(p, need); err != nil {
		return p, err
	}
	if !actsForAny {
		return p, s.guardLabels(r, p, asked)
	}
	if asked.account == "" {
		return p, web.NewProblem(http.StatusBadRequest, "account_required", "A platform client names the account in the header %s.", web.AccountHeader).On(web.AccountHeader)
	}
	if p, err = s.actFor(r.Context(), p, asked.account); err != nil {
		return p, err
	}
	return p, s.guardLabels(r, p, asked)
}

// actsForAny reports whether the header names the account that a token acts for.
func actsForAny(p store.Principal) bool { return p.Platform && p.Account == "" }

// allows refuses a token without the scopes that a request needs.
func allows(p store.Principal, need store.Scope) error {
	if actsForAny(p) {
		need |= store.ScopeAccountsAct
	}
	if !p.Allows(need) {
		return web.InsufficientScope(need, p.Permissions())
	}
	return nil
}

// needing is allows for [store.Store.LiveIn].
func needing(need store.Scope) func(store.Principal) error {
	return func(now store.Principal) error { return allows(now, need) }
}

// guardLabels looks for card numbers and secrets in what will stand in events.
func (s *Server) guardLabels(r *http.Request, p store.Principal, asked acting) error {
	if asked.label == "" {
		return nil
	}
	for _, name := range []string{web.SourceHeader, web.LocationHeader} {
		err := s.site.Store.Events.CheckText(r.Context(), p.Account, "event", name, r.Header.Get(name))
		if found := (*snapshot.Error)(nil); errors.As(err, &found) {
			return web.DocumentProblem(found).Because(err)
		}
	}
	return nil
}

func (s *Server) actFor(ctx context.Context, p store.Principal, account string) (store.Principal, error) {
	acts, err := s.site.Store.ActFor(ctx, p, account)
	if err != nil {
		return p, actingProblem(err)
	}
	return acts, nil
}

// actingProblem maps ErrUnknownAccount and ErrRevoked, also of a change that found them in its
// transaction. An account that is being erased is as unknown as one that never was.
func actingProblem(err error) error {
	switch {
	case errors.Is(err, store.ErrUnknownAccount):
		return web.NewProblem(http.StatusNotFound, "unknown_account", "The account does not exist.").On(web.AccountHeader).Because(err)
	case errors.Is(err, record.ErrRevoked):
		return web.InvalidToken().Because(err)
	}
	return err
}

// sourceOf returns the source and the location of the events that a request causes.
func sourceOf(r *http.Request, p store.Principal) (source, location string) {
	return cmp.Or(r.Header.Get(web.SourceHeader), Actor(p)), cmp.Or(r.Header.Get(web.LocationHeader), "api")
}

package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// AccountProblem maps the store's errors about an account that an operator named.
func AccountProblem(err error, id string) error {
	switch {
	case errors.Is(err, record.ErrNotFound):
		return web.Absent("account", id, "tollhouse account list shows the accounts").Because(err)
	case errors.Is(err, record.ErrConflict):
		left := "users"
		if inUse, ok := errors.AsType[*store.AccountInUseError](err); ok && inUse.Clients {
			left = "clients that act for it"
		}
		p := web.NewProblem(http.StatusConflict, "conflict", "Account %q still has %s.", id, left).Because(err)
		p.Extra = map[string]any{"hint": "delete them first; tollhouse user list and tollhouse client list show them"}
		return p
	}
	return err
}

// AdminAccount takes the account of a read request out of its query. An unknown
// account is an error, since a misspelt name would look like an empty list.
func (s *Server) AdminAccount(r *http.Request) (string, []web.QueryPair, error) {
	account, pairs, err := s.NamedAccount(r)
	if err != nil {
		return "", nil, err
	}
	return account, pairs, s.mustExist(r.Context(), account)
}

func (s *Server) mustExist(ctx context.Context, account string) error {
	_, err := s.site.Store.FindAccount(ctx, account)
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("account", account, "choose one with --account; tollhouse account list shows the accounts").Because(err)
	}
	return err
}

// NamedAccount takes the account out of a query, or returns the default one.
func (s *Server) NamedAccount(r *http.Request) (string, []web.QueryPair, error) {
	pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return "", nil, refused
	}
	account, given, rest, refused := web.TakePair(pairs, "account")
	if refused != nil {
		return "", nil, refused
	}
	if !given {
		account = s.DefaultAccount()
	}
	web.Note(r.Context(), slog.String("account_id", account))
	return account, rest, nil
}

// DefaultAccount is used if no account is given.
func (s *Server) DefaultAccount() string {
	if s.site.Demo != nil {
		return s.site.Demo.Account
	}
	return store.DefaultAccount
}

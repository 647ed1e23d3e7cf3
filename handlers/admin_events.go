package handlers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/snapshot"
)

// adminListEvents is GET /admin/events?account=A: the list of the API, for any
// account.
func (s *Server) adminListEvents(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.adminAccount(r)
	if err != nil {
		return err
	}
	return s.writeEvents(w, r, account, "/admin/events", pairs, aliveAlways)
}

// adminFindEvent is GET /admin/events/:id?account=A.
func (s *Server) adminFindEvent(w http.ResponseWriter, r *http.Request) error {
	id, err := nameIn(r)
	if err != nil {
		return err
	}
	account, pairs, err := s.adminAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return unknownParameter(pairs[0].name, nil, []string{"account"})
	}
	err = s.writeEvent(w, r, account)
	if errors.Is(err, store.ErrNotFound) {
		return absent("event", id, fmt.Sprintf("the account %s has none of that id; tollhouse event list shows its latest, --account names another", account)).because(err)
	}
	return err
}

// adminAccount takes the account of a request that reads out of its query. One
// that does not exist is not found: its events would be an empty list for a slip
// in its name.
func (s *Server) adminAccount(r *http.Request) (string, []queryPair, error) {
	account, pairs, err := s.namedAccount(r)
	if err != nil {
		return "", nil, err
	}
	if _, err := s.store.FindAccount(r.Context(), account); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return "", nil, absent("account", account, "name one with --account; tollhouse account list shows those that there are").because(err)
		}
		return "", nil, err
	}
	return account, pairs, nil
}

// namedAccount takes the account out of a query, and the default one when none
// is named.
func (s *Server) namedAccount(r *http.Request) (string, []queryPair, error) {
	pairs, refused := parseQuery(r.URL.RawQuery)
	if refused != nil {
		return "", nil, refused
	}
	account, given, rest, refused := takePair(pairs, "account")
	if refused != nil {
		return "", nil, refused
	}
	if !given {
		account = s.defaultAccount()
	}
	note(r.Context(), slog.String("account_id", account))
	return account, rest, nil
}

// defaultAccount is the one that is meant when none is named.
func (s *Server) defaultAccount() string {
	if s.demo != nil {
		return s.demo.Account
	}
	return store.DefaultAccount
}

// adminRecordEvent is POST /admin/events?account=A: one event, now.
func (s *Server) adminRecordEvent(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.namedAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return unknownParameter(pairs[0].name, nil, []string{"account"})
	}
	if err := requireMediaType(r, "application/json"); err != nil {
		return err
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	e, err := store.ParseNewEvent(body, account)
	if err != nil {
		return eventProblem(err)
	}
	wire, err := s.store.RecordEvent(r.Context(), e)
	if err != nil {
		return eventProblem(err)
	}
	noteAdmin(r, "account_id", account)
	writeBody(w, http.StatusCreated, "application/json", wire)
	return nil
}

func eventProblem(err error) error {
	var doc *snapshot.Error
	if errors.As(err, &doc) {
		return documentProblem(doc)
	}
	var bad *store.InvalidError
	if !errors.As(err, &bad) {
		return err
	}
	p := invalidValue(bad)
	p.code = "invalid_event"
	return p
}

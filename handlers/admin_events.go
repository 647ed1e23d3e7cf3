package handlers

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// adminListEvents is GET /admin/events?account=A.
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
	if errors.Is(err, record.ErrNotFound) {
		return absent("event", id, fmt.Sprintf("tollhouse event list shows the latest events of account %s; --account selects another account", account)).because(err)
	}
	return err
}

// adminAccount takes the account of a read request out of its query. An unknown
// account is an error, since a misspelt name would look like an empty list.
func (s *Server) adminAccount(r *http.Request) (string, []queryPair, error) {
	account, pairs, err := s.namedAccount(r)
	if err != nil {
		return "", nil, err
	}
	if _, err := s.store.FindAccount(r.Context(), account); err != nil {
		if errors.Is(err, record.ErrNotFound) {
			return "", nil, absent("account", account, "choose one with --account; tollhouse account list shows the accounts").because(err)
		}
		return "", nil, err
	}
	return account, pairs, nil
}

// namedAccount takes the account out of a query, or returns the default one.
func (s *Server) namedAccount(r *http.Request) (string, []queryPair, error) {
	pairs, refused := parseAPIQuery(r.URL.RawQuery)
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

// defaultAccount is used if no account is given.
func (s *Server) defaultAccount() string {
	if s.demo != nil {
		return s.demo.Account
	}
	return store.DefaultAccount
}

// adminRecordEvent is POST /admin/events?account=A.
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
	e, err := eventlog.ParseNewEvent(body, account)
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
	var bad *record.InvalidError
	if !errors.As(err, &bad) {
		return err
	}
	p := invalidValue(bad)
	p.code = "invalid_event"
	return p
}

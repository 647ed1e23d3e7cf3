package handlers

import (
	"errors"
	"net/http"

	"tollhouse/store"
	"tollhouse/store/record"
)

// AdminAccount is an account.
type AdminAccount struct {
	Account   string `json:"account"`
	Name      string `json:"name"`
	CreatedAt int64  `json:"created_at"` // Unix seconds
}

func showAccount(a store.Account) AdminAccount {
	return AdminAccount{Account: a.ID, Name: a.Name, CreatedAt: a.CreatedAt.Unix()}
}

// adminCreateAccount is POST /admin/accounts.
func (s *Server) adminCreateAccount(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Account string `json:"account"`
		Name    string `json:"name"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	a, err := s.store.CreateAccount(r.Context(), asked.Account, asked.Name)
	if errors.Is(err, record.ErrExists) {
		p := newProblem(http.StatusConflict, "exists", "Account %q already exists.", asked.Account).because(err)
		p.extra = map[string]any{"hint": "tollhouse account show " + asked.Account + " shows it"}
		return p
	}
	if err != nil {
		return err
	}
	noteAdmin(r, "account_id", a.ID)
	writeJSON(w, http.StatusCreated, showAccount(a))
	return nil
}

// adminListAccounts is GET /admin/accounts.
func (s *Server) adminListAccounts(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	accounts, err := s.store.ListAccounts(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	writeAdminList(w, accounts, limit, func(a store.Account) any { return showAccount(a) })
	return nil
}

// adminFindAccount is GET /admin/accounts/:id.
func (s *Server) adminFindAccount(w http.ResponseWriter, r *http.Request) error {
	id, err := nameIn(r)
	if err != nil {
		return err
	}
	a, err := s.store.FindAccount(r.Context(), id)
	if err != nil {
		return accountProblem(err, id)
	}
	noteAdmin(r, "account_id", a.ID)
	writeJSON(w, http.StatusOK, showAccount(a))
	return nil
}

// adminDeleteAccount is DELETE /admin/accounts/:id. It also deletes the account's
// resources and events.
func (s *Server) adminDeleteAccount(w http.ResponseWriter, r *http.Request) error {
	id, err := nameIn(r)
	if err != nil {
		return err
	}
	takeTime(w)
	if err := s.store.DeleteAccount(r.Context(), id); err != nil {
		return accountProblem(err, id)
	}
	noteAdmin(r, "account_id", id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func accountProblem(err error, id string) error {
	switch {
	case errors.Is(err, record.ErrNotFound):
		return absent("account", id, "tollhouse account list shows the accounts").because(err)
	case errors.Is(err, record.ErrConflict):
		p := newProblem(http.StatusConflict, "conflict", "Account %q still has users.", id).because(err)
		p.extra = map[string]any{"hint": "delete its users first; tollhouse user list shows them"}
		return p
	}
	return err
}

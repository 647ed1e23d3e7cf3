package admin

import (
	"errors"
	"net/http"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
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

// createAccount is POST /admin/accounts.
func (s *Server) createAccount(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Account string `json:"account"`
		Name    string `json:"name"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	a, err := s.site.Store.CreateAccount(r.Context(), asked.Account, asked.Name)
	if errors.Is(err, record.ErrExists) {
		p := web.NewProblem(http.StatusConflict, "exists", "Account %q already exists.", asked.Account).Because(err)
		p.Extra = map[string]any{"hint": "tollhouse account show " + web.ShellOperand(asked.Account) + " shows it"}
		return p
	}
	if err != nil {
		return err
	}
	noteAdmin(r, "account_id", a.ID)
	web.WriteJSON(w, http.StatusCreated, showAccount(a))
	return nil
}

// listAccounts is GET /admin/accounts.
func (s *Server) listAccounts(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	accounts, err := s.site.Store.ListAccounts(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	writeAdminList(w, accounts, limit, func(a store.Account) any { return showAccount(a) })
	return nil
}

// findAccount is GET /admin/accounts/:id.
func (s *Server) findAccount(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	a, err := s.site.Store.FindAccount(r.Context(), id)
	if err != nil {
		return api.AccountProblem(err, id)
	}
	noteAdmin(r, "account_id", a.ID)
	web.WriteJSON(w, http.StatusOK, showAccount(a))
	return nil
}

// deleteAccount is DELETE /admin/accounts/:id. It also deletes the account's
// resources and events.
func (s *Server) deleteAccount(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	takeTime(w)
	if err := s.site.Store.DeleteAccount(r.Context(), id); err != nil {
		return api.AccountProblem(err, id)
	}
	noteAdmin(r, "account_id", id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

package desk

import (
	"net/http"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/views"
)

const accountsPath = "/desk/accounts"

// accounts is GET /desk/accounts.
func (s *Server) accounts(v *visit) error {
	accounts, err := s.site.Store.ListAccounts(v.ctx, v.after(), deskPageSize+1)
	if err != nil {
		return err
	}
	p := views.AccountsProps{Commands: s.oauth.Command("tollhouse account disable ACCOUNT\ntollhouse account enable ACCOUNT")}
	if len(accounts) > deskPageSize {
		accounts = accounts[:deskPageSize]
		p.Older = accountsPath + "?after=" + api.Escaped(accounts[deskPageSize-1].ID)
	}
	for _, a := range accounts {
		p.Accounts = append(p.Accounts, views.ListedAccount{
			ID: a.ID, Name: a.Name, URL: deskEventsPath + "?account=" + api.Escaped(a.ID), Created: web.Moment(a.CreatedAt, v.now), Disabled: !a.DisabledAt.IsZero(),
		})
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Accounts(p))
	return nil
}

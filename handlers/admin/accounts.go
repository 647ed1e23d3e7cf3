package admin

import (
	"context"
	"errors"
	"net/http"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

var accountCalls = []platformCall{
	{
		method: "GET", path: "/accounts", handle: listAccounts, scope: store.ScopeAccountsRead,
		id: "listAccounts", does: "List the accounts, sorted by id", filters: []api.FormParam{}, sends: "AccountList",
	},
	{
		method: "GET", path: "/accounts/:account", handle: findAccount, scope: store.ScopeAccountsRead,
		id: "findAccount", does: "Show an account", sends: "Account", refuses: []int{404},
	},
	{
		method: "PUT", path: "/accounts/:account", handle: putAccount, scope: store.ScopeAccountsWrite,
		id: "putAccount", does: "Create an account, or rename one", takes: "AccountPut", sends: "Account", made: []int{200, 201}, refuses: []int{409, 412},
	},
	{
		method: "POST", path: "/accounts/:account/disable", handle: disableAccount, scope: store.ScopeAccountsWrite,
		id: "disableAccount", does: "Disable an account: nobody signs in for it, and its tokens and webhooks stop", sends: "Account", refuses: []int{404, 409, 412},
	},
	{
		method: "POST", path: "/accounts/:account/enable", handle: enableAccount, scope: store.ScopeAccountsWrite,
		id: "enableAccount", does: "Enable an account; its old tokens stay revoked", sends: "Account", refuses: []int{404, 409, 412},
	},
	{
		method: "POST", path: "/accounts/:account/revoke", handle: revokeAccount, scope: store.ScopeAccountsWrite,
		id: "revokeAccount", does: "Revoke all tokens of an account", sends: "Account", refuses: []int{404, 409, 412},
	},
	{
		method: "DELETE", path: "/accounts/:account", handle: deleteAccount, scope: store.ScopeAccountsErase,
		id: "deleteAccount", does: "Delete an account with its resources and events", refuses: []int{404, 409, 412},
	},
}

var accountForm = api.Form{
	Name: "Account", Does: "An account, which owns resources and events.",
	Example: `{"account":"acct_larkspur","name":"Larkspur Tea Room","disabled":false,"created_at":1780315200}`,
	Members: []api.FormMember{
		{"account", "string!", "Its id."},
		{"name", "string!", "A name for people; it may be empty."},
		{"disabled", "boolean!", "Whether its users and tokens are refused."},
		{"created_at", "integer!", "In Unix seconds."},
	},
}

var accountForms = []api.Form{
	accountForm, listForm("AccountList", accountForm, "A page of accounts. Its cursors are ids."),
	{Name: "AccountPut", Does: "What an account should be.", Closed: true, Example: `{"name":"Larkspur Tea Room"}`, Members: []api.FormMember{
		{"account", "string", "The id in the path, if it is repeated."},
		{"name", "string", "A name for people; left out, it stays."},
	}},
}

// AdminAccount is an account.
type AdminAccount struct {
	Account   string `json:"account"`
	Name      string `json:"name"`
	Disabled  bool   `json:"disabled"`
	CreatedAt int64  `json:"created_at"` // Unix seconds
}

func showAccount(a store.Account) AdminAccount {
	return AdminAccount{Account: a.ID, Name: a.Name, Disabled: !a.DisabledAt.IsZero(), CreatedAt: a.CreatedAt.Unix()}
}

// listAccounts is GET /accounts.
func listAccounts(c *call) error {
	q, limit, err := c.listed(nil)
	if err != nil {
		return err
	}
	accounts, err := c.s.site.Store.ListAccounts(c.ctx(), q["after"], limit+1)
	if err != nil {
		return err
	}
	return sendPage(c, accounts, limit, q["after"], showAccount, func(a AdminAccount) string { return a.Account })
}

// findAccount is GET /accounts/:account.
func findAccount(c *call) error { return c.onAccount(unguarded(c.s.site.Store.FindAccount)) }

// putAccount is PUT /accounts/:account.
func putAccount(c *call) error {
	m, err := c.read([]string{"account", "name"})
	if err != nil {
		return err
	}
	id, name := c.name("account"), m.TextIf("name")
	m.MustBe("account", id)
	if err := m.Err(); err != nil {
		return err
	}
	a, isNew, err := c.s.site.Store.PutAccount(c.ctx(), id, name, c.guard())
	if errors.Is(err, record.ErrPrecondition) && c.isMachine() && c.r.Header.Get("If-None-Match") == "*" {
		p := web.NewProblem(http.StatusPreconditionFailed, "precondition_failed", "Account %q already exists.", id).Because(err)
		p.Extra = map[string]any{"hint": "tollhouse account show " + web.ShellOperand(id) + " shows it"}
		return p
	}
	if err != nil {
		return err
	}
	noteAdmin(c.r, "account_id", a.ID)
	if !isNew {
		return c.sendVersion(http.StatusOK, a.Revision, showAccount(a))
	}
	return c.sendVersion(http.StatusCreated, a.Revision, showAccount(a))
}

// disableAccount is POST /accounts/:account/disable.
func disableAccount(c *call) error { return c.onAccount(c.s.site.Store.DisableAccount) }

// enableAccount is POST /accounts/:account/enable.
func enableAccount(c *call) error { return c.onAccount(c.s.site.Store.EnableAccount) }

// revokeAccount is POST /accounts/:account/revoke.
func revokeAccount(c *call) error { return c.onAccount(c.s.site.Store.RevokeAccount) }

// deleteAccount is DELETE /accounts/:account. It also deletes the account's resources and
// events.
func deleteAccount(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	id := c.name("account")
	c.takeTime()
	if err := c.s.site.Store.DeleteAccount(c.ctx(), id, c.guard()); err != nil {
		return c.accountProblem(err, id)
	}
	noteAdmin(c.r, "account_id", id)
	return c.done()
}

// onAccount makes a call that has no members about the account in the path, and shows it.
func (c *call) onAccount(do func(ctx context.Context, id string, guards ...store.Guard) (store.Account, error)) error {
	if err := c.readNone(); err != nil {
		return err
	}
	id := c.name("account")
	a, err := do(c.ctx(), id, c.guard())
	if err != nil {
		return c.accountProblem(err, id)
	}
	noteAdmin(c.r, "account_id", a.ID)
	return c.sendVersion(http.StatusOK, a.Revision, showAccount(a))
}

// accountProblem is [api.AccountProblem] for the caller.
func (c *call) accountProblem(err error, id string) error {
	if c.isMachine() {
		return api.AccountProblem(err, id)
	}
	var inUse *store.AccountInUseError
	switch {
	case errors.Is(err, record.ErrNotFound):
		return c.absent("account", id, "", err)
	case errors.As(err, &inUse):
		return web.NewProblem(http.StatusConflict, "conflict", "The account still has users or clients; delete them first.").Because(err)
	}
	return err
}

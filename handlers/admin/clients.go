package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"tollhouse/handlers/api"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

var clientCalls = []platformCall{
	{
		method: "GET", path: "/clients", handle: listClients, scope: store.ScopeClientsRead,
		id: "listClients", does: "List the clients, sorted by id", filters: clientFilters, sends: "IntegratorList",
	},
	{
		method: "POST", path: "/clients", handle: createClient, scope: store.ScopeClientsWrite,
		id: "createClient", does: "Create a client with a drawn id; only this answer has its secret", takes: "ClientCreation", needed: true, sends: "Integrator", made: []int{201}, refuses: []int{404, 409},
	},
	{
		method: "GET", path: "/clients/:client_id", handle: findClient, scope: store.ScopeClientsRead,
		id: "findClient", does: "Show a client", sends: "Integrator", refuses: []int{404},
	},
	{
		method: "PUT", path: "/clients/:client_id", handle: putClient, scope: store.ScopeClientsWrite,
		id: "putClient", does: "Create a client with an id of your own, or replace its settings", takes: "ClientPut", needed: true, sends: "Integrator", made: []int{200, 201}, refuses: []int{404, 409, 412},
	},
	{
		method: "PATCH", path: "/clients/:client_id", handle: updateClient, scope: store.ScopeClientsWrite,
		id: "updateClient", does: "Change settings of a client", takes: "ClientPatch", needed: true, sends: "Integrator", refuses: []int{404, 412},
	},
	{
		method: "DELETE", path: "/clients/:client_id", handle: deleteClient, scope: store.ScopeAccountsErase,
		id: "deleteClient", does: "Delete a client and revoke its tokens", refuses: []int{404, 409, 412},
	},
	{
		method: "POST", path: "/clients/:client_id/rotate-secret", handle: rotateClientSecret, scope: store.ScopeClientsWrite,
		id: "rotateClientSecret", does: "Give a client a new secret; the previous one stays valid until the next rotation", takes: "SecretRotation", sends: "RotatedSecret", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/clients/:client_id/disable", handle: disableClient, scope: store.ScopeClientsWrite,
		id: "disableClient", does: "Disable a client and revoke its tokens", sends: "Integrator", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/clients/:client_id/enable", handle: enableClient, scope: store.ScopeClientsWrite,
		id: "enableClient", does: "Enable a client; its old tokens stay revoked", sends: "Integrator", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/clients/:client_id/revoke", handle: revokeClient, scope: store.ScopeClientsWrite,
		id: "revokeClient", does: "Revoke all tokens of a client", sends: "Integrator", refuses: []int{404, 412},
	},
}

var clientFilters = []api.FormParam{{"account", "string", "Only clients that act for this account without a user.", `"acct_larkspur"`}}

// integratorForm is not called Client, which generated code has for itself.
var integratorForm = api.Form{
	Name: "Integrator", Does: "A client: a program that requests tokens.",
	Example: `{"client_id":"tollhouse_larkspur","name":"Larkspur Bookkeeping","redirect_uris":["https://app.example/cb"],"grants":["authorization_code","refresh_token"],"scopes":["events:read"],"public":false,"introspect":false,"consent":"ask","platform":false,"disabled":false}`,
	Members: append([]api.FormMember{
		{"client_id", "string!", "Its id."},
		{"client_secret", "string", "Its secret, only when it was just created; a public client has none."},
		{"introspect", "boolean!", "Whether it may introspect all tokens; only the machine changes one that may."},
		{"platform", "boolean!", "Whether it is a platform client, which only the machine changes."},
		{"disabled", "boolean!", "Whether it is disabled."},
	}, always(clientSettings, "name", "redirect_uris", "grants", "scopes", "public", "consent")...),
}

// clientSettings are what a caller decides about a client.
var clientSettings = []api.FormMember{
	{"name", "string", "The name that users see when they are asked for consent."},
	{"redirect_uris", "[]string", "Where users are sent back to."},
	{"grants", "[]string", "Its grant types. password and client_credentials need accounts:act, and scopes that the caller has."},
	{"scopes", "[]string", "The data scopes that it is limited to; none: not limited."},
	{"public", "boolean", "Whether it cannot keep a secret; it stays so."},
	{"consent", "string", "ask or remember.", `"default":"ask"`},
	{"account", "string", "The account that it acts for without a user, by client_credentials."},
}

// always are the members, of which those with these names are always there.
func always(members []api.FormMember, names ...string) []api.FormMember {
	members = slices.Clone(members)
	for i, m := range members {
		if slices.Contains(names, m[0]) {
			members[i][1] += "!"
		}
	}
	return members
}

var clientForms = []api.Form{
	integratorForm, listForm("IntegratorList", integratorForm, "A page of clients. Its cursors are ids."),
	{Name: "ClientCreation", Does: "A client to create. Without grants it has authorization_code and refresh_token.", Closed: true, Example: `{"name":"Larkspur Bookkeeping","redirect_uris":["https://app.example/cb"],"scopes":["events:read"]}`,
		Members: always(clientSettings, "name")},
	{Name: "ClientPut", Does: "What a client should be. What is left out has its default.", Closed: true, Example: `{"name":"Larkspur Bookkeeping","redirect_uris":["https://app.example/cb"],"scopes":["events:read"]}`,
		Members: append(always(clientSettings, "name"), api.FormMember{"client_id", "string", "The id in the path, if it is repeated."})},
	{Name: "ClientPatch", Does: "Settings to change. Redirect URIs are either replaced, or added and removed.", Closed: true, Example: `{"add_redirect_uris":["https://app.example/cb2"]}`,
		Members: append(slices.DeleteFunc(slices.Clone(clientSettings), func(m api.FormMember) bool { return m[0] == "public" }),
			api.FormMember{"client_id", "string", "The id in the path, if it is repeated."},
			api.FormMember{"add_redirect_uris", "[]string", "Redirect URIs to add."}, api.FormMember{"remove_redirect_uris", "[]string", "Redirect URIs to remove."})},
	{Name: "SecretRotation", Does: "How to rotate.", Closed: true, Example: `{"revoke_tokens":false}`, Members: []api.FormMember{
		{"client_id", "string", "The id in the path, if it is repeated."},
		{"revoke_tokens", "boolean", "Whether to end the previous secret, all tokens and their webhooks immediately.", `"default":false`},
	}},
	{Name: "RotatedSecret", Does: "The new secret.", Example: `{"client_id":"tollhouse_larkspur","client_secret":"tollcs_DemoClientSecretThatEverybodyKnows0000000003NHca9"}`, Members: []api.FormMember{
		{"client_id", "string!", "The client's id."},
		{"client_secret", "string!", "The new secret, which no other answer shows."},
	}},
}

// AdminClient is a client. Its secret is set only when it was just created.
type AdminClient struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret,omitempty"`
	Name         string   `json:"name"`
	RedirectURIs []string `json:"redirect_uris"`
	Grants       []string `json:"grants"`
	Scopes       []string `json:"scopes"` // none: not restricted
	Public       bool     `json:"public"`
	Introspect   bool     `json:"introspect"`
	Consent      string   `json:"consent"`
	Account      string   `json:"account,omitempty"`
	Platform     bool     `json:"platform"`
	Disabled     bool     `json:"disabled"`
}

func ShowClient(c store.Client) AdminClient {
	shown := AdminClient{
		ClientID: c.ID, Name: c.Name, RedirectURIs: append([]string{}, c.RedirectURIs...), Grants: []string{},
		Scopes: append([]string{}, c.Scope.Names()...), Public: c.Public, Introspect: c.Introspect, Consent: c.Consent(), Account: c.Account, Platform: c.Platform, Disabled: !c.DisabledAt.IsZero(),
	}
	for _, g := range c.Grants {
		shown.Grants = append(shown.Grants, string(g))
	}
	return shown
}

// ClientSecret is the answer of rotate-secret, the only one with the new secret.
type ClientSecret struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

// readClient reads the description of a new client, or of one that is replaced. What a platform
// client makes has users' consent, unless it says otherwise.
func (c *call) readClient(further ...string) (store.ClientSpec, *api.Members, error) {
	known := []string{"name", "redirect_uris", "grants", "scopes", "public", "consent", "account"}
	m, err := c.read(append(known, further...), "introspect", "platform")
	if err != nil {
		return store.ClientSpec{}, nil, err
	}
	spec := store.ClientSpec{
		Name: m.Text("name"), RedirectURIs: m.Texts("redirect_uris"), Grants: m.Texts("grants"), Scopes: m.Texts("scopes"),
		Public: m.Flag("public"), Introspect: m.Flag("introspect"), Platform: m.Flag("platform"), Consent: m.Text("consent"), Account: m.Text("account"),
	}
	if !c.isMachine() && len(spec.Grants) == 0 {
		spec.Grants = []string{string(store.GrantAuthorizationCode), string(store.GrantRefreshToken)}
	}
	return spec, m, m.Err()
}

// clientGuard is guard for a change of what a client has or is. A client that has access without
// its users' consent is changed only by who could have that access without it.
func (c *call) clientGuard() store.Guard {
	g := c.guard()
	g.Client = func(of store.Client) error {
		if !of.Allows(store.GrantPassword) && !of.Allows(store.GrantClientCredentials) {
			return nil
		}
		return c.needs(store.ScopeAccountsAct | of.Scope.Effective())
	}
	return g
}

// createClient is POST /clients. Only its answer has the secret.
func createClient(c *call) error {
	spec, _, err := c.readClient()
	if err != nil {
		return err
	}
	made, sec, err := c.s.site.Store.CreateClient(c.ctx(), spec, c.clientGuard())
	if err != nil {
		return err
	}
	return c.sendNewClient(made, sec)
}

func (c *call) sendNewClient(made store.Client, sec secret.Token) error {
	noteAdmin(c.r, "client_id", made.ID)
	shown := ShowClient(made)
	shown.ClientSecret = sec.Reveal()
	return c.sendVersion(http.StatusCreated, made.Revision, shown)
}

// putClient is PUT /clients/:client_id.
func putClient(c *call) error {
	spec, m, err := c.readClient("client_id")
	if err != nil {
		return err
	}
	id := c.name("client_id")
	if m.MustBe("client_id", id); m.Err() != nil {
		return m.Err()
	}
	made, sec, isNew, err := c.s.site.Store.PutClient(c.ctx(), id, spec, c.clientGuard())
	if err != nil {
		return err
	}
	if isNew {
		return c.sendNewClient(made, sec)
	}
	noteAdmin(c.r, "client_id", made.ID)
	return c.sendVersion(http.StatusOK, made.Revision, ShowClient(made))
}

// listClients is GET /clients.
func listClients(c *call) error {
	q, limit, err := c.listed(clientFilters)
	if err != nil {
		return err
	}
	clients, err := c.clients(q["account"], q["after"], limit+1)
	if err != nil {
		return err
	}
	return sendPage(c, clients, limit, q["after"], ShowClient, func(c AdminClient) string { return c.ClientID })
}

// clients reads the clients that act for an account, or with "" all.
func (c *call) clients(account, after string, limit int) (found []store.Client, err error) {
	if account == "" {
		return c.s.site.Store.ListClients(c.ctx(), after, limit)
	}
	err = c.s.eachClient(c.ctx(), after, func(of store.Client) bool {
		if of.Account == account {
			found = append(found, of)
		}
		return len(found) < limit
	})
	return found, err
}

// findClient is GET /clients/:client_id.
func findClient(c *call) error { return c.onClient(unguarded(c.s.site.Store.FindClient)) }

// disableClient is POST /clients/:client_id/disable.
func disableClient(c *call) error { return c.onClient(c.s.site.Store.DisableClient) }

// enableClient is POST /clients/:client_id/enable.
func enableClient(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	return c.changeClient(c.clientGuard(), c.s.site.Store.EnableClient)
}

// revokeClient is POST /clients/:client_id/revoke.
func revokeClient(c *call) error { return c.onClient(c.s.site.Store.RevokeClient) }

// updateClient is PATCH /clients/:client_id. Redirect URIs are either replaced, or added and
// removed.
func updateClient(c *call) error {
	m, err := c.read([]string{"client_id", "name", "redirect_uris", "add_redirect_uris", "remove_redirect_uris", "grants", "scopes", "consent", "account"}, "introspect")
	if err != nil {
		return err
	}
	change := store.ClientChange{
		Name: m.TextIf("name"), RedirectURIs: m.TextsIf("redirect_uris"), AddRedirectURIs: m.Texts("add_redirect_uris"), RemoveRedirectURIs: m.Texts("remove_redirect_uris"),
		Grants: m.TextsIf("grants"), Scopes: m.TextsIf("scopes"), Introspect: m.FlagIf("introspect"), Consent: m.TextIf("consent"), Account: m.TextIf("account"),
	}
	m.MustBe("client_id", c.name("client_id"))
	if err := m.Err(); err != nil {
		return err
	}
	return c.changeClient(c.clientGuard(), func(ctx context.Context, id string, guards ...store.Guard) (store.Client, error) {
		return c.s.site.Store.UpdateClient(ctx, id, change, guards...)
	})
}

// rotateClientSecret is POST /clients/:client_id/rotate-secret.
func rotateClientSecret(c *call) error {
	m, err := c.read([]string{"client_id", "revoke_tokens"})
	if err != nil {
		return err
	}
	id, revoke := c.name("client_id"), m.Flag("revoke_tokens")
	m.MustBe("client_id", id)
	if err := m.Err(); err != nil {
		return err
	}
	of, sec, err := c.s.site.Store.RotateClientSecret(c.ctx(), id, revoke, c.clientGuard())
	if err != nil {
		return c.clientProblem(err, id)
	}
	noteAdmin(c.r, "client_id", of.ID)
	return c.sendVersion(http.StatusOK, of.Revision, ClientSecret{ClientID: of.ID, ClientSecret: sec.Reveal()})
}

// deleteClient is DELETE /clients/:client_id.
func deleteClient(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	id := c.name("client_id")
	c.takeTime()
	if err := c.s.site.Store.DeleteClient(c.ctx(), id, c.guard()); err != nil {
		return c.clientProblem(err, id)
	}
	noteAdmin(c.r, "client_id", id)
	return c.done()
}

type clientChange = func(ctx context.Context, id string, guards ...store.Guard) (store.Client, error)

// onClient makes a call that has no members about the client in the path, and shows the client.
func (c *call) onClient(do clientChange) error {
	if err := c.readNone(); err != nil {
		return err
	}
	return c.changeClient(c.guard(), do)
}

func (c *call) changeClient(guard store.Guard, do clientChange) error {
	id := c.name("client_id")
	of, err := do(c.ctx(), id, guard)
	if err != nil {
		return c.clientProblem(err, id)
	}
	noteAdmin(c.r, "client_id", of.ID)
	return c.sendVersion(http.StatusOK, of.Revision, ShowClient(of))
}

func (c *call) clientProblem(err error, id string) error {
	if errors.Is(err, record.ErrNotFound) {
		return c.absent("client", id, "tollhouse client list shows the clients", err)
	}
	return err
}

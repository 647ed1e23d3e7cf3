package handlers

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

const (
	deskPageSize    = 50
	deskFamiliesMax = 20 // shown with a client
	clientsPath     = "/desk/clients"
	newClientPath   = "/desk/new-client"
)

// below is the address of a record. The router splits a path after decoding it, so a
// name is encoded twice, as in [nameIn].
func below(path, name string) string { return path + "/" + url.PathEscape(url.PathEscape(name)) }

// after is the cursor of a list: a name, which has no NUL.
func (v *visit) after() string {
	after, _, _ := strings.Cut(v.r.URL.Query().Get("after"), "\x00")
	return after
}

func (v *visit) act(do, action, label, of string) views.DeskAct {
	return views.DeskAct{Do: do, Action: action, Token: v.token(), Label: label, Of: of}
}

// deskClients is GET /desk/clients.
func (s *Server) deskClients(v *visit) error {
	clients, err := s.store.ListClients(v.ctx, v.after(), deskPageSize+1)
	if err != nil {
		return err
	}
	t := views.DeskTable{Label: "Clients", List: "clients", Columns: []string{"Name", "Id", "Kind", "Grants", "Scopes", "Last used", "State"}, Next: "Next",
		Empty: "No clients yet. An application needs one to ask for tokens."}
	if len(clients) > deskPageSize {
		clients = clients[:deskPageSize]
		t.Older = clientsPath + "?after=" + escaped(clients[deskPageSize-1].ID)
	}
	var ids []string
	for _, c := range clients {
		ids = append(ids, c.ID)
	}
	used, err := s.store.LatestUses(v.ctx, ids...)
	if err != nil {
		return err
	}
	for i, c := range clients {
		t.Rows = append(t.Rows, views.DeskRow{Hook: "client", ID: c.ID, Cells: []views.DeskCell{
			{Text: c.Name, Href: below(clientsPath, c.ID)}, {Text: c.ID, Code: true}, {Text: clientKind(c)},
			{Text: grantWords(c)}, {Text: cmp.Or(strings.Join(c.Scope.Names(), ", "), "not narrowed")}, v.lastCell(used[i]), stateCell(!c.DisabledAt.IsZero()),
		}})
	}
	v.show(http.StatusOK, views.DeskProps{Name: "clients", Title: "Clients", Links: []views.Link{{Label: "Register an application", Href: newClientPath}}}, views.List(v.page(v.r), t))
	return nil
}

func grantWords(c store.Client) string {
	grants := showClient(c).Grants
	if slices.Equal(grants, userGrants) {
		return "default"
	}
	return strings.Join(grants, ", ")
}

func clientKind(c store.Client) string {
	if c.Public {
		return "public"
	}
	return "with a secret"
}

func stateCell(disabled bool) views.DeskCell {
	if disabled {
		return views.DeskCell{Text: "disabled", State: "warning"}
	}
	return views.DeskCell{Text: "enabled", State: "ok"}
}

// clientAsked is a form of a client as it was typed.
type clientAsked struct {
	spec    store.ClientSpec
	refused error
}

func (v *visit) askedClient() clientAsked {
	var uris []string
	for uri := range strings.FieldsSeq(v.form.value("redirect_uris")) {
		uris = append(uris, uri)
	}
	return clientAsked{spec: store.ClientSpec{
		Name: strings.TrimSpace(v.form.value("name")), RedirectURIs: uris, Grants: v.form.all("grants"), Scopes: v.form.all("scopes"),
		Public: v.form.has("public"), Introspect: v.form.has("introspect"), Consent: consentAsked(v.form.has("remember")), Account: strings.TrimSpace(v.form.value("account")),
	}}
}

func consentAsked(remember bool) string {
	if remember {
		return store.ConsentRemember
	}
	return store.ConsentAsk
}

var (
	userGrants = []string{string(store.GrantPassword), string(store.GrantAuthorizationCode), string(store.GrantRefreshToken)}
	grantNames = append(userGrants[:3:3], string(store.GrantClientCredentials))
	scopeNames = store.ScopeNames()
)

// narrowed returns the list of boxes without those that mean "not narrowed": all of them.
func narrowed(chosen, all []string) []string {
	if len(chosen) == len(all) {
		return nil
	}
	return chosen
}

// clientForm draws the form of a client.
func (v *visit) clientForm(a clientAsked, form views.DeskForm, fresh bool) templ.Component {
	wrong := map[string]string{}
	collectInvalid(a.refused, wrong)
	boxes := func(all, chosen []string) (options []views.DeskOption) {
		for _, name := range all {
			options = append(options, views.DeskOption{Value: name, Label: name, Chosen: slices.Contains(chosen, name)})
		}
		return options
	}
	form.Token, form.Fields = v.token(), []views.DeskField{
		{Name: "name", Label: "Name", Hint: "Users see it when the application asks for access.", Value: a.spec.Name, Wrong: wrong["name"]},
		{As: "lines", Name: "redirect_uris", Label: "Redirect URIs", Hint: "One on each line.", Value: strings.Join(a.spec.RedirectURIs, "\n"), Wrong: wrong["redirect_uris"]},
	}
	if fresh {
		form.Fields = append(form.Fields, views.DeskField{As: "box", Name: "public", Label: "Public: runs on the user's device and has no secret", Checked: a.spec.Public})
	}
	form.Fields = append(form.Fields,
		views.DeskField{As: "boxes", Name: "grants", Label: "Grants", Options: boxes(grantNames, a.spec.Grants), Wrong: wrong["grants"]},
		views.DeskField{As: "boxes", Name: "scopes", Label: "Scopes", Hint: "All of them: not narrowed.", Options: boxes(scopeNames, a.spec.Scopes), Wrong: wrong["scopes"]},
		views.DeskField{As: "box", Name: "introspect", Label: "May introspect the tokens of every client", Checked: a.spec.Introspect},
	)
	if fresh || !a.spec.Public {
		form.Fields = append(form.Fields, views.DeskField{Name: "account", Label: "Account", Hint: "For client_credentials alone: the account for which it acts without a user.", Value: a.spec.Account, Wrong: wrong["account"]})
		form.Fields = append(form.Fields, views.DeskField{As: "box", Name: "remember", Label: "Remembers consent: users who allowed it are not asked again for a year. Never for a public client.", Checked: a.spec.Consent == store.ConsentRemember})
	}
	return views.Form(v.page(v.r), form)
}

// collectInvalid sorts the refusals of the store by field.
func collectInvalid(err error, wrong map[string]string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			collectInvalid(e, wrong)
		}
		return
	}
	var bad *record.InvalidError
	if errors.As(err, &bad) {
		wrong[bad.Field] = sentence(bad.Reason)
		if bad.Hint != "" {
			wrong[bad.Field] += " " + sentence(strings.ToUpper(bad.Hint[:1])+bad.Hint[1:])
		}
	}
}

func isInvalid(err error) bool {
	var bad *record.InvalidError
	return errors.As(err, &bad)
}

// deskNewClient is GET /desk/new-client.
func (s *Server) deskNewClient(v *visit) error {
	v.showNewClient(http.StatusOK, clientAsked{spec: store.ClientSpec{Grants: userGrants, Scopes: scopeNames}}, v.onceField())
	return nil
}

func (v *visit) showNewClient(status int, a clientAsked, once string) {
	page := views.DeskProps{Name: "new-client", Title: "Register an application"}
	if a.refused != nil {
		page.Alert = refusalOf(a.refused, "The client was not created.")
	}
	v.show(status, page, v.clientForm(a, views.DeskForm{Do: "create-client", Action: clientsPath, Once: once, Button: "Register"}, true))
}

// refusalOf heads a refused form.
func refusalOf(err error, text string) string {
	wrong := map[string]string{}
	collectInvalid(err, wrong)
	for _, reason := range wrong {
		return text + " " + reason
	}
	return text
}

// deskCreateClient is POST /desk/clients. Only its answer shows the secret.
func (s *Server) deskCreateClient(v *visit) error {
	return v.makeOnce(func() (done onceDone, err error) {
		asked := v.askedClient()
		spec := asked.spec
		if spec.Public && slices.Equal(spec.Grants, userGrants) { // what the form proposes
			spec.Grants = userGrants[1:]
		}
		if len(spec.Grants) == 0 {
			asked.refused = record.Invalid("grants", "choose the grants that the application uses", "a client needs one grant at least")
		}
		spec.Scopes = narrowed(spec.Scopes, scopeNames)
		if asked.refused == nil && len(asked.spec.Scopes) == 0 {
			asked.refused = record.Invalid("scopes", "choose what the application may do", "a client needs one scope at least")
		}
		if asked.refused != nil {
			v.showNewClient(http.StatusBadRequest, asked, v.form.value("once"))
			return done, nil
		}
		c, sec, err := s.store.CreateClient(v.ctx, spec)
		if isInvalid(err) {
			asked.refused = err
			v.showNewClient(http.StatusBadRequest, asked, v.form.value("once"))
			return done, nil
		}
		if err != nil {
			return done, err
		}
		v.audit("client created", store.AuditLine{ClientID: c.ID})
		shown := views.DeskSecret{Label: c.Name, IDHook: "client-id", ID: c.ID, Text: "A public client has no secret; it uses PKCE."}
		if !c.Public {
			shown.Hook, shown.Value = "secret", sec.Reveal()
			shown.Text, shown.Command = "Shown once. Store it now.", v.clientCurl(c, sec.Reveal())
		}
		v.show(http.StatusOK, views.DeskProps{Name: "client", Title: c.Name, Notice: "The client was created.",
			Links: []views.Link{{Label: "Open the client", Href: below(clientsPath, c.ID)}}}, views.Secret(shown))
		return onceDone{"Open the client", below(clientsPath, c.ID)}, nil
	})
}

// clientCurl is a request that a client can make now.
func (v *visit) clientCurl(c store.Client, sec string) string {
	id := " -d client_id=" + c.ID
	if !isPlainWord(c.ID) {
		id = " --data-urlencode " + shellQuote("client_id="+c.ID)
	}
	base := "curl " + v.issuerOf(v.r) + "/oauth/v2/token" + id + " -d client_secret=" + sec
	if c.Allows(store.GrantPassword) {
		return base + " -d grant_type=password -d username=NAME -d password=PASSWORD"
	}
	if c.Account != "" {
		return base + " -d grant_type=client_credentials"
	}
	return base + " -d grant_type=authorization_code -d code=CODE --data-urlencode redirect_uri=URI"
}

func (v *visit) clientOf() (store.Client, error) {
	id, err := nameIn(v.r)
	if err != nil {
		return store.Client{}, err
	}
	c, err := v.store.FindClient(v.ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return c, newProblem(http.StatusNotFound, "not_found", "There is no such client.").because(err)
	}
	return c, err
}

// deskClient is GET /desk/clients/:id.
func (s *Server) deskClient(v *visit) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	return v.showClientPage(http.StatusOK, c, v.askedOf(c), views.DeskProps{})
}

// askedOf is the form of a client as it is.
func (v *visit) askedOf(c store.Client) clientAsked {
	shown := showClient(c)
	scopes := shown.Scopes
	if len(scopes) == 0 {
		scopes = scopeNames
	}
	return clientAsked{spec: store.ClientSpec{Name: c.Name, RedirectURIs: c.RedirectURIs, Grants: shown.Grants, Scopes: scopes, Public: c.Public, Introspect: c.Introspect, Consent: c.Consent(), Account: c.Account}}
}

func (v *visit) showClientPage(status int, c store.Client, asked clientAsked, page views.DeskProps, more ...templ.Component) error {
	used, err := v.store.LatestUses(v.ctx, c.ID)
	if err != nil {
		return err
	}
	families, err := v.store.ListFamilies(v.ctx, store.FamilyFilter{ClientID: c.ID}, "", deskFamiliesMax+1)
	if err != nil {
		return err
	}
	lines, err := v.auditTable(auditSearch{client: c.ID}, 10)
	if err != nil {
		return err
	}
	lines.Heading, lines.Label, lines.Older, lines.Clear = "Latest audit lines", "", "/desk/audit?client="+escaped(c.ID), ""
	lines.Next, lines.Empty = "All of this client", "No audit line names this client yet."
	p, path := v.page(v.r), below(clientsPath, c.ID)
	facts := []views.DeskFact{
		{Label: "Id", DeskCell: views.DeskCell{Text: c.ID, Code: true}}, {Label: "Kind", DeskCell: views.DeskCell{Text: clientKind(c)}},
		{Label: "State", DeskCell: stateCell(!c.DisabledAt.IsZero())}, {Label: "Last used", DeskCell: v.lastCell(used[0])},
		{Label: "Created", DeskCell: views.DeskCell{When: moment(c.CreatedAt, v.now)}},
	}
	access := v.familyTable(families[:min(len(families), deskFamiliesMax)], "Live access of this client")
	if len(families) > deskFamiliesMax {
		access.Older, access.Next = "/desk/access?client="+escaped(c.ID), "All access"
	}
	acts := []views.DeskAct{v.act("disable", path+"/disable", "Disable", "")}
	if !c.DisabledAt.IsZero() {
		acts = []views.DeskAct{v.act("enable", path+"/enable", "Enable", "")}
	}
	parts := append(more, views.Facts(p, "", facts),
		v.clientForm(asked, views.DeskForm{Do: "update-client", Action: path, Heading: "Settings", Button: "Save"}, false))
	if !c.Public {
		parts = append(parts, views.Form(p, views.DeskForm{Do: "rotate-secret", Action: path + "/rotate-secret", Token: v.token(), Once: v.onceField(), Heading: "New secret", Second: true,
			Text:   "The present secret works until the next rotation, so deployments can change one by one.",
			Fields: []views.DeskField{{As: "box", Name: "revoke_tokens", Label: "The old secret leaked: end it and all tokens now"}}, Button: "Rotate the secret"}),
			views.Folded("curl", v.clientCurl(c, "$SECRET"), true))
	}
	parts = append(parts, views.Acts(p, "Use", acts), views.List(p, without(access, "Client")), views.List(p, without(lines, "Client")),
		views.Commands("Clients are deleted on the machine:", "tollhouse client delete "+shellWord(c.ID)))
	page.Name, page.Title = "client", c.Name
	v.show(status, page, parts...)
	return nil
}

// deskUpdateClient is POST /desk/clients/:id.
func (s *Server) deskUpdateClient(v *visit) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	asked := v.askedClient()
	spec := asked.spec
	switch {
	case len(spec.Grants) == 0:
		asked.refused = record.Invalid("grants", "choose the grants that the application uses", "a client needs one grant at least")
	case len(spec.Scopes) == 0:
		asked.refused = record.Invalid("scopes", "choose what the application may do", "a client needs one scope at least")
	}
	if asked.refused == nil {
		scopes := narrowed(spec.Scopes, scopeNames)
		_, err = s.store.UpdateClient(v.ctx, c.ID, store.ClientChange{Name: &spec.Name, RedirectURIs: &spec.RedirectURIs, Grants: &spec.Grants, Scopes: &scopes, Introspect: &spec.Introspect, Consent: &spec.Consent, Account: &spec.Account})
		if isInvalid(err) {
			asked.refused, err = err, nil
		}
	}
	if err != nil {
		return err
	}
	if asked.refused != nil {
		return v.showClientPage(http.StatusBadRequest, c, asked, views.DeskProps{Alert: refusalOf(asked.refused, "The client was not changed.")})
	}
	v.audit("client updated", store.AuditLine{ClientID: c.ID})
	return v.finish(doneClientSaved, below(clientsPath, c.ID))
}

// deskRotateSecret is POST /desk/clients/:id/rotate-secret. Only its answer shows the
// secret.
func (s *Server) deskRotateSecret(v *visit) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	return v.makeOnce(func() (done onceDone, err error) {
		revoke := v.form.has("revoke_tokens")
		c, sec, err := s.store.RotateClientSecret(v.ctx, c.ID, revoke)
		if err != nil {
			return done, err
		}
		v.audit("client secret rotated", store.AuditLine{ClientID: c.ID})
		notice := "The client has a new secret. The previous one works until the next rotation."
		if revoke {
			notice = "The client has a new secret. The old one and all tokens have ended, and webhook endpoints made with them are disabled."
		}
		v.show(http.StatusOK, views.DeskProps{Name: "client", Title: c.Name, Notice: notice, Links: []views.Link{{Label: "Open the client", Href: below(clientsPath, c.ID)}}},
			views.Secret(views.DeskSecret{Label: "New secret", IDHook: "client-id", ID: c.ID, Hook: "secret", Value: sec.Reveal(), Text: "Shown once. Store it now.", Command: v.clientCurl(c, sec.Reveal())}))
		return onceDone{"Open the client", below(clientsPath, c.ID)}, nil
	})
}

// deskDisableClient is POST /desk/clients/:id/disable.
func (s *Server) deskDisableClient(v *visit) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	if _, err := s.store.DisableClient(v.ctx, c.ID); err != nil {
		return err
	}
	v.audit("client disabled", store.AuditLine{ClientID: c.ID})
	return v.finish(doneClientDisabled, below(clientsPath, c.ID))
}

// deskEnableClient is POST /desk/clients/:id/enable.
func (s *Server) deskEnableClient(v *visit) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	if _, err := s.store.EnableClient(v.ctx, c.ID); err != nil {
		return err
	}
	v.audit("client enabled", store.AuditLine{ClientID: c.ID})
	return v.finish(doneClientEnabled, below(clientsPath, c.ID))
}

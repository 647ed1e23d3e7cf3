package desk

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
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

// clients is GET /desk/clients.
func (s *Server) clients(v *visit) error {
	clients, err := s.site.Store.ListClients(v.ctx, v.after(), deskPageSize+1)
	if err != nil {
		return err
	}
	p := views.ClientsProps{NewURL: newClientPath}
	if len(clients) > deskPageSize {
		clients = clients[:deskPageSize]
		p.Older = clientsPath + "?after=" + api.Escaped(clients[deskPageSize-1].ID)
	}
	var ids []string
	for _, c := range clients {
		ids = append(ids, c.ID)
	}
	used, err := s.site.Store.LatestUses(v.ctx, ids...)
	if err != nil {
		return err
	}
	for i, c := range clients {
		p.Clients = append(p.Clients, v.listedClient(c, used[i]))
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Clients(p))
	return nil
}

func (v *visit) listedClient(c store.Client, used time.Time) views.ListedClient {
	return views.ListedClient{
		ID: c.ID, Name: c.Name, URL: below(clientsPath, c.ID), Public: c.Public, Platform: c.Platform, Grants: admin.ShowClient(c).Grants,
		Scopes: c.Scope.Names(), Used: v.momentOrNever(used), Disabled: !c.DisabledAt.IsZero(),
	}
}

// momentOrNever is a time as pages show it; the zero time is never.
func (v *visit) momentOrNever(t time.Time) views.Moment {
	if t.IsZero() {
		return views.Moment{}
	}
	return web.Moment(t, v.now)
}

// clientAsked is a form of a client as it was typed.
type clientAsked struct {
	spec    store.ClientSpec
	refused error // by the store
}

// lacksBoxes reports whether no grant or no scope is chosen. The store would take that for
// the usual grants and for all scopes.
func (a clientAsked) lacksBoxes() bool { return len(a.spec.Grants) == 0 || len(a.spec.Scopes) == 0 }

func (v *posted) askedClient() clientAsked {
	var uris []string
	for uri := range strings.FieldsSeq(v.form.Value("redirect_uris")) {
		uris = append(uris, uri)
	}
	return clientAsked{spec: store.ClientSpec{
		Name: strings.TrimSpace(v.form.Value("name")), RedirectURIs: uris, Grants: v.form.All("grants"), Scopes: v.form.All("scopes"),
		Public: v.form.Has("public"), Introspect: v.form.Has("introspect"), Consent: consentAsked(v.form.Has("remember")), Account: strings.TrimSpace(v.form.Value("account")),
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

// form is what the page shows of the form.
func (a clientAsked) form() views.ClientForm {
	return views.ClientForm{
		Name: a.spec.Name, RedirectURIs: a.spec.RedirectURIs, Grants: a.spec.Grants, Scopes: a.spec.Scopes, AllGrants: grantNames, AllScopes: scopeNames,
		Public: a.spec.Public, Introspect: a.spec.Introspect, Remember: a.spec.Consent == store.ConsentRemember, Account: a.spec.Account,
		Refusal: refusalOf(a.refused),
	}
}

// refusalOf sorts the refusals of the store by field; nil for none.
func refusalOf(err error) views.Refusal {
	if err == nil {
		return nil
	}
	wrong := views.Refusal{}
	collectInvalid(err, wrong)
	return wrong
}

func collectInvalid(err error, wrong map[string]string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			collectInvalid(e, wrong)
		}
		return
	}
	var bad *record.InvalidError
	if errors.As(err, &bad) {
		wrong[bad.Field] = web.Sentence(bad.Reason, bad.Field)
		if bad.Hint != "" {
			wrong[bad.Field] += " " + web.Sentence(bad.Hint, "")
		}
	}
}

func isInvalid(err error) bool {
	var bad *record.InvalidError
	return errors.As(err, &bad)
}

// newClient is GET /desk/new-client.
func (s *Server) newClient(v *visit) error {
	v.showNewClient(http.StatusOK, clientAsked{spec: store.ClientSpec{Grants: userGrants, Scopes: scopeNames}}, onceField())
	return nil
}

func (v *visit) showNewClient(status int, a clientAsked, once string) {
	v.draw(status, views.NewClient(views.NewClientProps{Frame: v.frame(), Form: a.form(), URL: clientsPath, Once: once}))
}

// createClient is POST /desk/clients. Only its answer shows the secret.
func (s *Server) createClient(v *posted) error {
	return v.makeOnce(func() (done onceDone, err error) {
		asked := v.askedClient()
		spec := asked.spec
		if spec.Public && slices.Equal(spec.Grants, userGrants) { // what the form proposes
			spec.Grants = userGrants[1:]
		}
		if asked.lacksBoxes() {
			v.showNewClient(http.StatusBadRequest, asked, v.form.Value("once"))
			return done, nil
		}
		spec.Scopes = narrowed(spec.Scopes, scopeNames)
		c, sec, err := s.site.Store.CreateClient(v.ctx, spec, v.guard())
		if isInvalid(err) {
			asked.refused = err
			v.showNewClient(http.StatusBadRequest, asked, v.form.Value("once"))
			return done, nil
		}
		if err != nil {
			return done, err
		}
		v.showClientSecret(c, sec, views.ClientSecretProps{New: true})
		return onceDone{views.MadeClient, below(clientsPath, c.ID)}, nil
	})
}

// showClientSecret shows a secret, once. A new public client has none.
func (v *posted) showClientSecret(c store.Client, sec secret.Token, p views.ClientSecretProps) {
	p.Frame, p.ID, p.Name, p.URL = v.frame(), c.ID, c.Name, below(clientsPath, c.ID)
	if !c.Public {
		p.Secret, p.Curl = sec.Reveal(), v.clientCurl(c, sec.Reveal())
	}
	v.draw(http.StatusOK, views.ClientSecret(p))
}

// clientCurl is a request that a client can make now.
func (v *visit) clientCurl(c store.Client, sec string) string {
	base := "curl -sS " + web.CurlWord(v.s.site.IssuerOf(v.r)+"/oauth/v2/token") + web.CurlField("client_id", c.ID) + web.CurlField("client_secret", sec)
	if c.Allows(store.GrantPassword) {
		return base + " -d grant_type=password -d username=NAME -d password=PASSWORD"
	}
	if c.Account != "" || c.Platform {
		return base + " -d grant_type=client_credentials"
	}
	return base + " -d grant_type=authorization_code -d code=CODE --data-urlencode redirect_uri=URI"
}

// changeableClient is the client in the path, unless it is a platform client: who may use the
// desk may not widen it, nor enable what the machine has disabled.
func (v *posted) changeableClient() (store.Client, error) {
	c, err := v.clientOf()
	if err == nil && c.Platform {
		err = web.NewProblem(http.StatusForbidden, "protected", "A platform client is changed on the machine only.")
	}
	return c, err
}

func (v *visit) clientOf() (store.Client, error) {
	id, err := admin.NameIn(v.r)
	if err != nil {
		return store.Client{}, err
	}
	c, err := v.s.site.Store.FindClient(v.ctx, id)
	if errors.Is(err, record.ErrNotFound) {
		return c, web.NewProblem(http.StatusNotFound, "not_found", "There is no such client.").Because(err)
	}
	return c, err
}

// client is GET /desk/clients/:id.
func (s *Server) client(v *visit) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	return v.showClientPage(http.StatusOK, c, v.askedOf(c))
}

// askedOf is the form of a client as it is.
func (v *visit) askedOf(c store.Client) clientAsked {
	shown := admin.ShowClient(c)
	scopes := shown.Scopes
	if len(scopes) == 0 {
		scopes = scopeNames
	}
	return clientAsked{spec: store.ClientSpec{Name: c.Name, RedirectURIs: c.RedirectURIs, Grants: shown.Grants, Scopes: scopes, Public: c.Public, Introspect: c.Introspect, Consent: c.Consent(), Account: c.Account}}
}

func (v *visit) showClientPage(status int, c store.Client, asked clientAsked) error {
	used, err := v.s.site.Store.LatestUses(v.ctx, c.ID)
	if err != nil {
		return err
	}
	granted, lost, err := v.accessOfClient(c)
	if err != nil {
		return err
	}
	p := views.ClientProps{
		Client: v.listedClient(c, used[0]), Created: web.Moment(c.CreatedAt, v.now), Secrets: c.Secrets(), SecretMade: v.momentOrNever(c.SecretMadeAt()),
		Now: v.askedOf(c).form(), Form: asked.form(), Lost: lost, Access: v.accessOn(granted, "/desk/access?client="+api.Escaped(c.ID)),
		Once: onceField(), Curl: v.clientCurl(c, "$SECRET"), DeleteCommand: v.s.oauth.Command("tollhouse client delete " + web.ShellOperand(c.ID)),
	}
	if c.Platform {
		id := web.ShellOperand(c.ID)
		p.Commands = v.s.oauth.Command("tollhouse client update --scope SCOPE " + id + "\ntollhouse client enable " + id + "\ntollhouse client delete " + id)
	}
	if p.Audit, err = v.auditList(admin.AuditSearch{Client: c.ID}, 10); err != nil {
		return err
	}
	p.Audit.Older = "/desk/audit?client=" + api.Escaped(c.ID)
	p.Frame = v.frame()
	v.draw(status, views.Client(p))
	return nil
}

// updateClient is POST /desk/clients/:id.
func (s *Server) updateClient(v *posted) error {
	c, err := v.changeableClient()
	if err != nil {
		return err
	}
	asked := v.askedClient()
	spec := asked.spec
	if !asked.lacksBoxes() {
		scopes := narrowed(spec.Scopes, scopeNames)
		_, err = s.site.Store.UpdateClient(v.ctx, c.ID, store.ClientChange{Name: &spec.Name, RedirectURIs: &spec.RedirectURIs, Grants: &spec.Grants, Scopes: &scopes, Introspect: &spec.Introspect, Consent: &spec.Consent, Account: &spec.Account}, v.guard())
		if isInvalid(err) {
			asked.refused, err = err, nil
		}
	}
	if err != nil {
		return err
	}
	if asked.refused != nil || asked.lacksBoxes() {
		return v.showClientPage(http.StatusBadRequest, c, asked)
	}
	return v.finish(views.DoneClientSaved, below(clientsPath, c.ID))
}

// rotateSecret is POST /desk/clients/:id/rotate-secret. Only its answer shows the
// secret.
func (s *Server) rotateSecret(v *posted) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	return v.makeOnce(func() (done onceDone, err error) {
		revoke := v.form.Has("revoke_tokens")
		c, sec, err := s.site.Store.RotateClientSecret(v.ctx, c.ID, revoke, v.guard())
		if err != nil {
			return done, err
		}
		v.showClientSecret(c, sec, views.ClientSecretProps{Revoked: revoke})
		return onceDone{views.MadeClient, below(clientsPath, c.ID)}, nil
	})
}

// disableClient is POST /desk/clients/:id/disable.
func (s *Server) disableClient(v *posted) error {
	c, err := v.clientOf()
	if err != nil {
		return err
	}
	if _, err := s.site.Store.DisableClient(v.ctx, c.ID, v.guard()); err != nil {
		return err
	}
	return v.finish(views.DoneClientDisabled, below(clientsPath, c.ID))
}

// enableClient is POST /desk/clients/:id/enable.
func (s *Server) enableClient(v *posted) error {
	c, err := v.changeableClient()
	if err != nil {
		return err
	}
	if _, err := s.site.Store.EnableClient(v.ctx, c.ID, v.guard()); err != nil {
		return err
	}
	return v.finish(views.DoneClientEnabled, below(clientsPath, c.ID))
}

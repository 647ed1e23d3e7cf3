package admin

import (
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// AdminClient is a client for operators. Secret is set only when it was just created.
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

// createClient is POST /admin/clients. Only its response contains the secret.
func (s *Server) createClient(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Name         string   `json:"name"`
		RedirectURIs []string `json:"redirect_uris"`
		Grants       []string `json:"grants"`
		Scopes       []string `json:"scopes"`
		Public       bool     `json:"public"`
		Introspect   bool     `json:"introspect"`
		Consent      string   `json:"consent"`
		Account      string   `json:"account"`
		Platform     bool     `json:"platform"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	c, sec, err := s.site.Store.CreateClient(r.Context(), store.ClientSpec(asked))
	if err != nil {
		return err
	}
	noteAdmin(r, "client_id", c.ID)
	shown := ShowClient(c)
	shown.ClientSecret = sec.Reveal()
	web.WriteJSON(w, http.StatusCreated, shown)
	return nil
}

// listClients is GET /admin/clients.
func (s *Server) listClients(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	clients, err := s.site.Store.ListClients(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	writeAdminList(w, clients, limit, func(c store.Client) any { return ShowClient(c) })
	return nil
}

// findClient is GET /admin/clients/:id.
func (s *Server) findClient(w http.ResponseWriter, r *http.Request) error {
	return s.onClient(w, r, func(id string) (store.Client, error) { return s.site.Store.FindClient(r.Context(), id) })
}

// disableClient is POST /admin/clients/:id/disable.
func (s *Server) disableClient(w http.ResponseWriter, r *http.Request) error {
	return s.onClient(w, r, func(id string) (store.Client, error) { return s.site.Store.DisableClient(r.Context(), id) })
}

// enableClient is POST /admin/clients/:id/enable.
func (s *Server) enableClient(w http.ResponseWriter, r *http.Request) error {
	return s.onClient(w, r, func(id string) (store.Client, error) { return s.site.Store.EnableClient(r.Context(), id) })
}

// clientUpdate is a partial update. Redirect URIs are either replaced, or added and
// removed.
type clientUpdate struct {
	Name               *string   `json:"name"`
	RedirectURIs       *[]string `json:"redirect_uris"`
	AddRedirectURIs    []string  `json:"add_redirect_uris"`
	RemoveRedirectURIs []string  `json:"remove_redirect_uris"`
	Grants             *[]string `json:"grants"`
	Scopes             *[]string `json:"scopes"`
	Introspect         *bool     `json:"introspect"`
	Consent            *string   `json:"consent"`
	Account            *string   `json:"account"`
}

// updateClient is PATCH /admin/clients/:id.
func (s *Server) updateClient(w http.ResponseWriter, r *http.Request) error {
	var asked clientUpdate
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	return s.onClient(w, r, func(id string) (store.Client, error) {
		return s.site.Store.UpdateClient(r.Context(), id, store.ClientChange{
			Name: asked.Name, RedirectURIs: asked.RedirectURIs, AddRedirectURIs: asked.AddRedirectURIs, RemoveRedirectURIs: asked.RemoveRedirectURIs,
			Grants: asked.Grants, Scopes: asked.Scopes, Introspect: asked.Introspect, Consent: asked.Consent, Account: asked.Account,
		})
	})
}

// rotateClientSecret is POST /admin/clients/:id/rotate-secret.
func (s *Server) rotateClientSecret(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	var asked struct {
		RevokeTokens bool `json:"revoke_tokens"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	c, sec, err := s.site.Store.RotateClientSecret(r.Context(), id, asked.RevokeTokens)
	if err != nil {
		return clientProblem(err, id)
	}
	noteAdmin(r, "client_id", c.ID)
	web.WriteJSON(w, http.StatusOK, map[string]string{"client_id": c.ID, "client_secret": sec.Reveal()})
	return nil
}

// deleteClient is DELETE /admin/clients/:id.
func (s *Server) deleteClient(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	takeTime(w)
	if err := s.site.Store.DeleteClient(r.Context(), id); err != nil {
		return clientProblem(err, id)
	}
	noteAdmin(r, "client_id", id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// onClient applies a change to the client in the path and returns the client.
func (s *Server) onClient(w http.ResponseWriter, r *http.Request, do func(id string) (store.Client, error)) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	c, err := do(id)
	if err != nil {
		return clientProblem(err, id)
	}
	noteAdmin(r, "client_id", c.ID)
	web.WriteJSON(w, http.StatusOK, ShowClient(c))
	return nil
}

func clientProblem(err error, id string) error {
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("client", id, "tollhouse client list shows the clients").Because(err)
	}
	return err
}

package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

var authorizationCalls = []platformCall{
	{
		method: "GET", path: "/authorizations", handle: listAuthorizations, scope: store.ScopeTokensRead,
		id: "listAuthorizations", does: "List the live authorizations, sorted by id", filters: authorizationFilters, sends: "AuthorizationList",
	},
	{
		method: "POST", path: "/authorizations/:family_id/revoke", handle: revokeAuthorization, scope: store.ScopeTokensRevoke,
		id: "revokeAuthorization", does: "Revoke an authorization with all of its tokens", sends: "RevokedAuthorization", refuses: []int{404},
	},
}

var authorizationFilters = []api.FormParam{
	{"account", "string", "Only authorizations for this account.", `"acct_larkspur"`},
	{"user", "string", "Only those of the user with this id or name.", `"odile"`},
	{"client", "string", "Only those of the client with this id or name.", `"tollhouse_larkspur"`},
}

var authorizationForm = api.Form{
	Name: "Authorization", Does: "All tokens that descend from one authorization. No token is ever shown.",
	Example: `{"family_id":"fam_01kt1ag0000001kx5qkgq9h1tm","client_id":"tollhouse_larkspur","client_name":"Larkspur Bookkeeping","user_id":"usr_01kt1ag0000001kx5qkgq9h1tm","username":"odile","account":"acct_larkspur","scopes":["events:read"],"created_at":1780315200,"expires_at":1781524800}`,
	Members: []api.FormMember{
		{"family_id", "string!", "Its id, which gives no access."},
		{"client_id", "string!", "The client that has the tokens."},
		{"client_name", "string!", "The client's name."},
		{"user_id", "string!", "The user; empty if the client acts for itself."},
		{"username", "string!", "The user's name."},
		{"account", "string!", "The account that the tokens act for; empty for a platform client."},
		{"scopes", "[]string!", "What the tokens allow now."},
		{"created_at", "integer!", "In Unix seconds."},
		{"used_at", "integer", "When a token was last used, exact to a few minutes."},
		{"expires_at", "integer!", "When the last of its tokens expires."},
	},
}

var authorizationForms = []api.Form{
	authorizationForm, listForm("AuthorizationList", authorizationForm, "A page of authorizations. Its cursors are ids."),
	{Name: "RevokedAuthorization", Does: "An authorization that was revoked, and what else ended.", Example: authorizationForm.Example, Members: append(slices.Clone(authorizationForm.Members),
		api.FormMember{"had_ended", "boolean", "Whether it had ended before."},
		api.FormMember{"webhooks_disabled", "integer", "How many webhook endpoints that its tokens created were disabled."})},
}

// AdminFamily is a token family for operators. Its id is not a credential.
type AdminFamily struct {
	FamilyID   string   `json:"family_id"`
	ClientID   string   `json:"client_id"`
	ClientName string   `json:"client_name"`
	UserID     string   `json:"user_id"`
	Username   string   `json:"username"`
	Account    string   `json:"account"`
	Scopes     []string `json:"scopes"`     // current scope
	CreatedAt  int64    `json:"created_at"` // all in Unix seconds
	UsedAt     int64    `json:"used_at,omitempty"`
	ExpiresAt  int64    `json:"expires_at"`
}

func adminFamily(f store.Family) AdminFamily {
	return AdminFamily{
		FamilyID: f.ID, ClientID: f.ClientID, ClientName: f.ClientName, UserID: f.UserID, Username: f.Username, Account: f.Account,
		Scopes: append([]string{}, f.Permissions...), CreatedAt: f.CreatedAt.Unix(), UsedAt: unixOrNone(f.UsedAt), ExpiresAt: f.ExpiresAt.Unix(),
	}
}

// AdminRevocation is a family that was revoked, and what else ended.
type AdminRevocation struct {
	AdminFamily
	HadEnded         bool `json:"had_ended,omitempty"`         // the family had ended before
	WebhooksDisabled int  `json:"webhooks_disabled,omitempty"` // endpoints that its tokens created
}

// unixOrNone omits the zero time.
func unixOrNone(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// listAuthorizations is GET /authorizations: the live token families.
func listAuthorizations(c *call) error {
	q, limit, err := c.listed(authorizationFilters)
	if err != nil {
		return err
	}
	c.takeTime()
	families, err := c.authorizations(q, limit+1)
	if err != nil {
		return err
	}
	return sendPage(c, families, limit, q["after"], adminFamily, func(f AdminFamily) string { return f.FamilyID })
}

// authorizations reads the families that a query selects, in the order of their ids. Each of the
// filters has its own index.
func (c *call) authorizations(q map[string]string, limit int) (list []store.Family, err error) {
	filters, err := c.familyFilters(q)
	if err != nil {
		return nil, err
	}
	for _, want := range filters {
		more, err := c.s.site.Store.ListFamilies(c.ctx(), want, q["after"], limit)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	if len(filters) > 1 {
		slices.SortFunc(list, func(a, b store.Family) int { return strings.Compare(a.ID, b.ID) })
	}
	return list[:min(len(list), limit)], nil
}

// familyFilters are what a query selects: nothing, if it names nobody.
func (c *call) familyFilters(q map[string]string) (filters []store.FamilyFilter, err error) {
	want := store.FamilyFilter{Within: q["account"]}
	if name, given := q["user"]; given {
		u, err := c.s.UserNamed(c.ctx(), name)
		if err != nil {
			return nil, record.GoneIsNil(err)
		}
		want.User = &u
	}
	if name, given := q["client"]; given {
		ids, err := c.s.ClientsNamed(c.ctx(), name)
		for _, want.ClientID = range ids {
			filters = append(filters, want)
		}
		return filters, err
	}
	if want.User != nil || want.Within == "" {
		return []store.FamilyFilter{want}, nil
	}
	for after := ""; ; {
		users, err := c.s.site.Store.ListUsersByID(c.ctx(), want.Within, after, usersSearched)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			filters = append(filters, store.FamilyFilter{User: &u, Within: want.Within})
			after = u.Subject()
		}
		if len(users) < usersSearched {
			break
		}
	}
	err = c.s.eachClient(c.ctx(), "", func(of store.Client) bool {
		if of.Account == want.Within || of.Platform {
			filters = append(filters, store.FamilyFilter{ClientID: of.ID, Account: want.Within})
		}
		return true
	})
	return filters, err
}

const usersSearched = 500 // read in one transaction

// revokeAuthorization is POST /authorizations/:family_id/revoke.
func revokeAuthorization(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	id := c.name("family_id")
	revoked, err := c.s.site.Store.RevokeFamily(c.ctx(), web.By(c.ctx()), id, c.guard())
	if errors.Is(err, record.ErrNotFound) {
		return c.absent("token family", id, "tollhouse token list shows the families", err)
	}
	return c.s.showRevoked(c.w, c.r, revoked, err)
}

func (s *Server) showRevoked(w http.ResponseWriter, r *http.Request, revoked store.Revocation, err error) error {
	if err != nil {
		return err
	}
	noteAdmin(r, "client_id", revoked.ClientID)
	noteAdmin(r, "user_id", revoked.UserID)
	web.WriteJSON(w, http.StatusOK, AdminRevocation{AdminFamily: adminFamily(revoked.Family), HadEnded: revoked.HadEnded, WebhooksDisabled: revoked.Webhooks})
	return nil
}

// revokeToken is POST /admin/token-revoke: it revokes the family of the token
// in the body.
func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) error {
	text, err := tokenIn(w, r)
	if err != nil {
		return err
	}
	if _, err := s.site.Store.Inspect(r.Context(), text); err != nil { // refuses what is not a token
		return tokenProblem(err)
	}
	revoked, err := s.site.Store.RevokeFamilyOf(r.Context(), web.By(r.Context()), text)
	if errors.Is(err, record.ErrNotFound) {
		p := web.NewProblem(http.StatusNotFound, "not_found", "Nothing to revoke: the token's family has already ended.").Because(err)
		p.Extra = map[string]any{"hint": "tollhouse token inspect shows what it is and why it ended"}
		return p
	}
	return s.showRevoked(w, r, revoked, err)
}

func tokenIn(w http.ResponseWriter, r *http.Request) (string, error) {
	var asked struct {
		Token string `json:"token"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return "", err
	}
	if asked.Token == "" {
		return "", web.InvalidRequest("token is missing.").On("token")
	}
	return asked.Token, nil
}

func tokenProblem(err error) error {
	if !errors.Is(err, record.ErrNotFound) {
		return err
	}
	p := web.NewProblem(http.StatusNotFound, "not_found", "Unknown token: it belongs to another instance, or it expired and was removed.").Because(err)
	p.Extra = map[string]any{"hint": "tollhouse token list shows live authorizations; tollhouse audit shows what ended"}
	return p
}

// TokenInspection is the answer of POST /admin/token-inspect.
type TokenInspection struct {
	Kind       string   `json:"kind"`
	Active     bool     `json:"active"`
	Reason     string   `json:"reason,omitempty"` // why it is not active
	FamilyID   string   `json:"family_id,omitempty"`
	SessionID  string   `json:"session_id,omitempty"`
	ClientID   string   `json:"client_id,omitempty"`
	ClientName string   `json:"client_name,omitempty"`
	UserID     string   `json:"user_id"`
	Username   string   `json:"username,omitempty"` // empty if the user was deleted
	Account    string   `json:"account,omitempty"`
	Scopes     []string `json:"scopes,omitempty"`
	IssuedAt   int64    `json:"issued_at,omitempty"`
	UsedAt     int64    `json:"used_at,omitempty"` // the family
	ExpiresAt  int64    `json:"expires_at"`
}

var kindNames = map[secret.Kind]string{
	secret.AccessToken: "access_token", secret.RefreshToken: "refresh_token", secret.Code: "authorization_code", secret.SessionToken: "session",
}

// inspectToken is POST /admin/token-inspect.
func (s *Server) inspectToken(w http.ResponseWriter, r *http.Request) error {
	text, err := tokenIn(w, r)
	if err != nil {
		return err
	}
	i, err := s.site.Store.Inspect(r.Context(), text)
	if err != nil {
		return tokenProblem(err)
	}
	f := i.Family
	web.WriteJSON(w, http.StatusOK, TokenInspection{
		Kind: kindNames[i.Kind], Active: i.Ended == "", Reason: i.Ended, FamilyID: f.ID, SessionID: i.Session, ClientID: f.ClientID, ClientName: f.ClientName,
		UserID: f.UserID, Username: f.Username, Account: f.Account, Scopes: i.Permissions,
		IssuedAt: unixOrNone(i.IssuedAt), UsedAt: unixOrNone(f.UsedAt), ExpiresAt: i.ExpiresAt.Unix(),
	})
	return nil
}

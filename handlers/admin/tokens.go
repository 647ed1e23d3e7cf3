package admin

import (
	"errors"
	"net/http"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

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

func showFamily(f store.Family) any { return adminFamily(f) }

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

// listFamilies is GET /admin/families, filtered with user=NAME and client=ID.
func (s *Server) listFamilies(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	var want store.FamilyFilter
	if want.User, err = s.userWanted(r); err != nil {
		return err
	}
	if want.ClientID, err = wanted(r, "client"); err != nil {
		return err
	}
	if want.ClientID != "" {
		if _, err := s.site.Store.FindClient(r.Context(), want.ClientID); err != nil {
			return clientProblem(err, want.ClientID)
		}
	}
	takeTime(w)
	list, err := s.site.Store.ListFamilies(r.Context(), want, after, limit+1)
	if err != nil {
		return err
	}
	writeAdminList(w, list, limit, showFamily)
	return nil
}

// revokeFamily is POST /admin/families/:id/revoke.
func (s *Server) revokeFamily(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	revoked, err := s.site.Store.RevokeFamily(r.Context(), web.By(r.Context()), id)
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("token family", id, "tollhouse token list shows the families").Because(err)
	}
	return s.showRevoked(w, r, revoked, err)
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

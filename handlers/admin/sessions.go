package admin

import (
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// AdminSession is a browser sign-in for operators. Its id is not a credential.
type AdminSession struct {
	SessionID string `json:"session_id"`
	UserID    string `json:"user_id"`
	Username  string `json:"username"`
	Account   string `json:"account"`
	CreatedAt int64  `json:"created_at"` // all in Unix seconds
	SeenAt    int64  `json:"seen_at"`
	ExpiresAt int64  `json:"expires_at"` // if it is not used again
}

func (s *Server) showSession(sn store.Session) any {
	return AdminSession{
		SessionID: sn.Name(), UserID: sn.User.Subject(), Username: sn.User.Username, Account: sn.User.Account,
		CreatedAt: sn.AuthenticatedAt.Unix(), SeenAt: sn.SeenAt.Unix(), ExpiresAt: s.site.Store.SessionEnds(sn).Unix(),
	}
}

// listSessions is GET /admin/sessions, filtered with user=NAME.
func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	of, err := s.userWanted(r)
	if err != nil {
		return err
	}
	takeTime(w)
	list, err := s.site.Store.ListLiveSessions(r.Context(), of, after, limit+1)
	if err != nil {
		return err
	}
	writeAdminList(w, list, limit, s.showSession)
	return nil
}

// userWanted is the user named by the parameter user, or nil for all.
func (s *Server) userWanted(r *http.Request) (*store.User, error) {
	name, err := wanted(r, "user")
	if err != nil || name == "" {
		return nil, err
	}
	u, err := s.site.Store.FindUser(r.Context(), name)
	if err != nil {
		return nil, userProblem(err, name)
	}
	return &u, nil
}

// wanted is the value of a filter, or "".
func wanted(r *http.Request, name string) (string, error) {
	p, refused := web.ParseOAuthParams(r.URL.RawQuery)
	if refused == nil {
		refused = p.RefuseRepeated(name)
	}
	if refused != nil {
		return "", refused
	}
	return p.Value(name), nil
}

// revokeSession is POST /admin/sessions/:id/revoke.
func (s *Server) revokeSession(w http.ResponseWriter, r *http.Request) error {
	name, err := NameIn(r)
	if err != nil {
		return err
	}
	ended, err := s.site.Store.DeleteSessionNamed(r.Context(), name)
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("session", name, "tollhouse session list shows the sessions").Because(err)
	}
	if err != nil {
		return err
	}
	noteAdmin(r, "user_id", ended.User.Subject())
	web.WriteJSON(w, http.StatusOK, s.showSession(ended))
	return nil
}

// revokeSessions is POST /admin/users/:id/revoke-sessions. Tokens stay valid.
func (s *Server) revokeSessions(w http.ResponseWriter, r *http.Request) error {
	name, err := NameIn(r)
	if err != nil {
		return err
	}
	takeTime(w)
	u, err := s.site.Store.FindUser(r.Context(), name)
	if err != nil {
		return userProblem(err, name)
	}
	ended, err := s.site.Store.DeleteSessions(r.Context(), web.By(r.Context()), u)
	if err != nil {
		return err
	}
	noteAdmin(r, "user_id", u.Subject())
	web.WriteJSON(w, http.StatusOK, map[string]any{"user_id": u.Subject(), "username": u.Username, "sessions": ended})
	return nil
}

package admin

import (
	"errors"
	"net/http"

	"tollhouse/handlers/api"
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

	Amr []string `json:"amr,omitempty"`
}

func (s *Server) showSession(sn store.Session) AdminSession {
	return AdminSession{
		SessionID: sn.Name(), UserID: sn.User.Subject(), Username: sn.User.Username, Account: sn.User.Account,
		CreatedAt: sn.AuthenticatedAt.Unix(), SeenAt: sn.SeenAt.Unix(), ExpiresAt: s.site.Store.SessionEnds(sn).Unix(), Amr: sn.Amr.Values(),
	}
}

// listSessions is GET /admin/sessions, filtered with user=NAME.
func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	c := &call{s: s, w: w, r: r}
	q, limit, err := c.listed([]api.FormParam{{"user"}})
	if err != nil {
		return err
	}
	var of *store.User
	if name, given := q["user"]; given {
		u, err := s.UserNamed(r.Context(), name)
		if err != nil {
			return c.userProblem(err, name)
		}
		of = &u
	}
	takeTime(w)
	list, err := s.site.Store.ListLiveSessions(r.Context(), of, q["after"], limit+1)
	if err != nil {
		return c.refused(err)
	}
	return sendPage(c, list, limit, q["after"], s.showSession, func(s AdminSession) string { return s.SessionID })
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

// revokeSessions is POST /admin/session-revoke: it ends all sign-ins of a user. Tokens stay
// valid.
func (s *Server) revokeSessions(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		User string `json:"user"` // a name or an id
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	takeTime(w)
	u, err := s.UserNamed(r.Context(), asked.User)
	if err != nil {
		return (&call{s: s, w: w, r: r}).userProblem(err, asked.User)
	}
	ended, err := s.site.Store.DeleteSessions(r.Context(), web.By(r.Context()), u)
	if err != nil {
		return err
	}
	noteAdmin(r, "user_id", u.Subject())
	web.WriteJSON(w, http.StatusOK, map[string]any{"user_id": u.Subject(), "username": u.Username, "sessions": ended})
	return nil
}

package handlers

import (
	"errors"
	"net/http"

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
		CreatedAt: sn.AuthenticatedAt.Unix(), SeenAt: sn.SeenAt.Unix(), ExpiresAt: s.store.SessionEnds(sn).Unix(),
	}
}

// adminListSessions is GET /admin/sessions, filtered with user=NAME.
func (s *Server) adminListSessions(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	of, err := s.userWanted(r)
	if err != nil {
		return err
	}
	takeTime(w)
	list, err := s.store.ListLiveSessions(r.Context(), of, after, limit+1)
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
	u, err := s.store.FindUser(r.Context(), name)
	if err != nil {
		return nil, userProblem(err, name)
	}
	return &u, nil
}

// wanted is the value of a filter, or "".
func wanted(r *http.Request, name string) (string, error) {
	p, refused := parseOAuthParams(r.URL.RawQuery)
	if refused == nil {
		refused = p.refuseRepeated(name)
	}
	if refused != nil {
		return "", refused
	}
	return p.value(name), nil
}

// adminRevokeSession is POST /admin/sessions/:id/revoke.
func (s *Server) adminRevokeSession(w http.ResponseWriter, r *http.Request) error {
	name, err := nameIn(r)
	if err != nil {
		return err
	}
	ended, err := s.store.DeleteSessionNamed(r.Context(), name)
	if errors.Is(err, record.ErrNotFound) {
		return absent("session", name, "tollhouse session list shows the sessions").because(err)
	}
	if err != nil {
		return err
	}
	s.auditSignedOut(r, ended.User, "signed out by the operator")
	writeJSON(w, http.StatusOK, s.showSession(ended))
	return nil
}

// adminRevokeSessions is POST /admin/users/:id/revoke-sessions. Tokens stay valid.
func (s *Server) adminRevokeSessions(w http.ResponseWriter, r *http.Request) error {
	name, err := nameIn(r)
	if err != nil {
		return err
	}
	takeTime(w)
	u, err := s.store.FindUser(r.Context(), name)
	if err != nil {
		return userProblem(err, name)
	}
	ended, err := s.store.DeleteSessions(r.Context(), by(r.Context()), u)
	if err != nil {
		return err
	}
	s.auditSignedOut(r, u, "signed out everywhere by the operator")
	writeJSON(w, http.StatusOK, map[string]any{"user_id": u.Subject(), "username": u.Username, "sessions": ended})
	return nil
}

// auditSignedOut records ended sign-ins as revocations, where people look for them.
func (s *Server) auditSignedOut(r *http.Request, u store.User, reason string) {
	noteAdmin(r, "user_id", u.Subject())
	s.store.Audit(store.AuditLine{What: store.AuditRevoke, Reason: reason, By: by(r.Context()), UserID: u.Subject(), AccountID: u.Account})
}

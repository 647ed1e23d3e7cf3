package admin

import (
	"errors"
	"net/http"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// AdminUser is a user.
type AdminUser struct {
	UserID   string `json:"user_id"`
	Username string `json:"username"`
	Account  string `json:"account"`
	Disabled bool   `json:"disabled"`
	Operator bool   `json:"operator"`

	LastSignIn int64 `json:"last_sign_in,omitempty"` // Unix seconds; only when users are listed or shown
}

func showUser(u store.User) AdminUser {
	return AdminUser{UserID: u.Subject(), Username: u.Username, Account: u.Account, Disabled: !u.DisabledAt.IsZero(), Operator: u.Operator}
}

// showUserSince is showUser with the latest sign-in, if there was one.
func showUserSince(u store.User, signIn time.Time) AdminUser {
	shown := showUser(u)
	if !signIn.IsZero() {
		shown.LastSignIn = signIn.Unix()
	}
	return shown
}

// NewAdminUser is a user who was just created.
type NewAdminUser struct {
	UserID   string `json:"user_id"`
	Username string `json:"username"`
	Account  string `json:"account"`
	Operator bool   `json:"operator"`

	// With a code in place of a password.
	Code      string `json:"code,omitempty"`
	ExpiresAt int64  `json:"expires_at,omitempty"` // Unix seconds
}

// AdminUserCode is a code with which a user sets a password.
type AdminUserCode struct {
	UserID    string `json:"user_id"`
	Username  string `json:"username"`
	Code      string `json:"code"`
	ExpiresAt int64  `json:"expires_at"` // Unix seconds
}

// createUser is POST /admin/users.
func (s *Server) createUser(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Username string `json:"username"`
		Account  string `json:"account"`
		Password string `json:"password"`
		Operator bool   `json:"operator"`
		Code     bool   `json:"code"` // in place of a password
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	if asked.Account == "" {
		asked.Account = store.DefaultAccount
	}
	if asked.Code && asked.Password != "" {
		return web.InvalidRequest("A user is created with a password or with a code, not with both.").On("code")
	}
	u, code, err := s.site.Store.CreateUser(r.Context(), store.UserSpec{Username: asked.Username, Account: asked.Account, Password: asked.Password, Code: asked.Code, Operator: asked.Operator})
	if errors.Is(err, record.ErrExists) {
		p := web.NewProblem(http.StatusConflict, "exists", "User %q already exists; user names ignore case.", asked.Username).Because(err)
		p.Extra = map[string]any{"hint": "tollhouse user list shows them; tollhouse user passwd NAME sets a new password"}
		return p
	}
	if err != nil {
		return err
	}
	noteAdmin(r, "user_id", u.Subject())
	made := NewAdminUser{UserID: u.Subject(), Username: u.Username, Account: u.Account, Operator: u.Operator}
	if asked.Code {
		made.Code, made.ExpiresAt = code.Reveal(), u.CodeExpiresAt().Unix()
	}
	web.WriteJSON(w, http.StatusCreated, made)
	return nil
}

// listUsers is GET /admin/users.
func (s *Server) listUsers(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	if after != "" {
		if after, err = store.CanonicalUsername(after); err != nil {
			return err
		}
	}
	users, err := s.site.Store.ListUsers(r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	signIns, err := s.site.Store.LatestSignIns(r.Context(), users...)
	if err != nil {
		return err
	}
	shown := make([]AdminUser, len(users))
	for i, u := range users {
		shown[i] = showUserSince(u, signIns[i])
	}
	writeAdminList(w, shown, limit, func(u AdminUser) any { return u })
	return nil
}

// findUser is GET /admin/users/:id, where the id is a username.
func (s *Server) findUser(w http.ResponseWriter, r *http.Request) error {
	name, err := NameIn(r)
	if err != nil {
		return err
	}
	u, err := s.site.Store.FindUser(r.Context(), name)
	if err != nil {
		return userProblem(err, name)
	}
	signIn, err := s.site.Store.LatestSignIns(r.Context(), u)
	if err != nil {
		return err
	}
	noteAdmin(r, "user_id", u.Subject())
	web.WriteJSON(w, http.StatusOK, showUserSince(u, signIn[0]))
	return nil
}

// setPassword is POST /admin/users/:id/password. It ends all sessions and tokens
// of the old password.
func (s *Server) setPassword(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Password string `json:"password"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	return s.onUser(w, r, func(name string) (store.User, error) {
		return s.site.Store.SetPassword(r.Context(), name, asked.Password)
	})
}

// disableUser is POST /admin/users/:id/disable.
func (s *Server) disableUser(w http.ResponseWriter, r *http.Request) error {
	return s.onUser(w, r, func(name string) (store.User, error) { return s.site.Store.DisableUser(r.Context(), name) })
}

// enableUser is POST /admin/users/:id/enable.
func (s *Server) enableUser(w http.ResponseWriter, r *http.Request) error {
	return s.onUser(w, r, func(name string) (store.User, error) { return s.site.Store.EnableUser(r.Context(), name) })
}

// promoteUser is POST /admin/users/:id/promote.
func (s *Server) promoteUser(w http.ResponseWriter, r *http.Request) error {
	return s.onUser(w, r, func(name string) (store.User, error) { return s.site.Store.PromoteUser(r.Context(), name) })
}

// demoteUser is POST /admin/users/:id/demote.
func (s *Server) demoteUser(w http.ResponseWriter, r *http.Request) error {
	return s.onUser(w, r, func(name string) (store.User, error) { return s.site.Store.DemoteUser(r.Context(), name) })
}

// createUserCode is POST /admin/users/:id/code.
func (s *Server) createUserCode(w http.ResponseWriter, r *http.Request) error {
	name, err := NameIn(r)
	if err != nil {
		return err
	}
	u, code, err := s.site.Store.CreateUserCode(r.Context(), name)
	if errors.Is(err, record.ErrDisabled) {
		p := web.NewProblem(http.StatusConflict, "conflict", "User %q is disabled.", web.ShownName(name)).Because(err)
		p.Extra = map[string]any{"hint": "enable the user first: tollhouse user enable NAME"}
		return p
	}
	if err != nil {
		return userProblem(err, name)
	}
	noteAdmin(r, "user_id", u.Subject())
	web.WriteJSON(w, http.StatusOK, AdminUserCode{UserID: u.Subject(), Username: u.Username, Code: code.Reveal(), ExpiresAt: u.CodeExpiresAt().Unix()})
	return nil
}

// deleteUser is DELETE /admin/users/:id.
func (s *Server) deleteUser(w http.ResponseWriter, r *http.Request) error {
	name, err := NameIn(r)
	if err != nil {
		return err
	}
	takeTime(w)
	u, err := s.site.Store.FindUser(r.Context(), name) // for the log line
	if err == nil {
		err = s.site.Store.DeleteUser(r.Context(), name)
	}
	if err != nil {
		return userProblem(err, name)
	}
	noteAdmin(r, "user_id", u.Subject())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// onUser applies a change to the user in the path and returns the user.
func (s *Server) onUser(w http.ResponseWriter, r *http.Request, do func(name string) (store.User, error)) error {
	name, err := NameIn(r)
	if err != nil {
		return err
	}
	u, err := do(name)
	if err != nil {
		return userProblem(err, name)
	}
	noteAdmin(r, "user_id", u.Subject())
	web.WriteJSON(w, http.StatusOK, showUser(u))
	return nil
}

func userProblem(err error, name string) error {
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("user", name, "tollhouse user list shows the users").Because(err)
	}
	return err
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

var userCalls = []platformCall{
	{
		method: "GET", path: "/users", handle: listUsers, scope: store.ScopeUsersRead,
		id: "listUsers", does: "List the users, sorted by id", filters: userFilters, sends: "UserList",
	},
	{
		method: "POST", path: "/users", handle: createUser, scope: store.ScopeUsersWrite,
		id: "createUser", does: "Create a user, with a password or with a code to set one", takes: "UserCreation", needed: true, sends: "NewUser", made: []int{201}, refuses: []int{404, 409},
	},
	{
		method: "GET", path: "/users/:user_id", handle: findUser, scope: store.ScopeUsersRead,
		id: "findUser", does: "Show a user", sends: "User", refuses: []int{404},
	},
	{
		method: "PATCH", path: "/users/:user_id", handle: renameUser, scope: store.ScopeUsersWrite,
		id: "renameUser", does: "Rename a user; id, tokens and sessions stay", takes: "UserRename", needed: true, sends: "User", refuses: []int{404, 409, 412},
	},
	{
		method: "DELETE", path: "/users/:user_id", handle: deleteUser, scope: store.ScopeAccountsErase,
		id: "deleteUser", does: "Delete a user and revoke their sessions and tokens", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/users/:user_id/code", handle: createUserCode, scope: store.ScopeUsersWrite | store.ScopeUsersRecover,
		id: "createUserCode", does: "Make a code with which the user sets a password: users:write for a user without one, users:recover for one with it", takes: "CodeCreation", sends: "UserCode", refuses: []int{404, 409, 412},
	},
	{
		method: "POST", path: "/users/:user_id/disable", handle: disableUser, scope: store.ScopeUsersWrite,
		id: "disableUser", does: "Disable a user and revoke their sessions, codes and tokens", sends: "User", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/users/:user_id/enable", handle: enableUser, scope: store.ScopeUsersWrite,
		id: "enableUser", does: "Enable a user; old sessions and tokens stay revoked", sends: "User", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/users/:user_id/revoke", handle: revokeUser, scope: store.ScopeUsersWrite,
		id: "revokeUser", does: "Revoke the sessions, codes and tokens of a user", sends: "User", refuses: []int{404, 412},
	},
	{
		method: "POST", path: "/users/:user_id/reset-second-factor", handle: resetSecondFactor, scope: store.ScopeUsersRecover,
		id: "resetSecondFactor", does: "Reset a user's second factor and recovery codes, and end their sign-ins", sends: "User", refuses: []int{404, 412},
	},
	{method: "POST", path: "/users/:user_id/password", handle: setPassword},
	{method: "POST", path: "/users/:user_id/promote", handle: promoteUser},
	{method: "POST", path: "/users/:user_id/demote", handle: demoteUser},
}

var userFilters = []api.FormParam{
	{"account", "string", "Only users of this account.", `"acct_larkspur"`},
	{"username", "string", "Only the user with this name, in any spelling.", `"odile"`},
}

var userForm = api.Form{
	Name: "User", Does: "A person who signs in for an account.",
	Example: `{"user_id":"usr_01kt1ag0000001kx5qkgq9h1tm","username":"odile","account":"acct_larkspur","disabled":false,"operator":false,"has_password":true,"created_at":1780315200,"last_sign_in":1780315260,"second_factor":["totp"],"recovery_codes":8}`,
	Members: []api.FormMember{
		{"user_id", "string!", "Their id, which stays; sub in tokens."},
		{"username", "string!", "Their name, which can change."},
		{"account", "string!", "The account that they act for."},
		{"disabled", "boolean!", "Whether they cannot sign in."},
		{"operator", "boolean!", "Whether they may use the desk; only the machine changes an operator."},
		{"has_password", "boolean!", "Whether they have ever set a password."},
		{"created_at", "integer!", "In Unix seconds."},
		{"code_expires_at", "integer", "When their unused code expires, in Unix seconds."},
		{"last_sign_in", "integer", "When they last signed in at the server's own pages, in Unix seconds."},
		{"second_factor", "[]string!", "Their second factors: totp, passkey."},
		{"recovery_codes", "integer!", "How many recovery codes they have left."},
	},
}

var userForms = []api.Form{
	userForm, listForm("UserList", userForm, "A page of users. Its cursors are ids."),
	{Name: "UserCreation", Does: "A user to create. Without a password, a code is made.", Closed: true, Example: `{"username":"odile","account":"acct_larkspur"}`, Members: []api.FormMember{
		{"username", "string!", "Their name; RFC 8265 compares names without case."},
		{"account", "string!", "The account that they act for; it must exist."},
		{"password", "string", "Their first password, 12 to 1,024 bytes."},
		{"code", "boolean", "Whether to make a code; not together with password. Without either, the user waits for a code.", `"default":true`},
		codeLifetimeMember,
	}},
	{Name: "NewUser", Does: "A user who was just created.", Example: `{"user_id":"usr_01kt1ag0000001kx5qkgq9h1tm","username":"odile","account":"acct_larkspur","disabled":false,"operator":false,"has_password":false,"created_at":1780315200,"code_expires_at":1780401600,"second_factor":[],"recovery_codes":0,"code":"k7q2m-8xw4c-1tz9r-0hv5n","expires_at":1780401600,"url":"https://pay.example/new-password"}`,
		Members: append(slices.Clone(userForm.Members), codeMembers...)},
	{Name: "UserRename", Does: "A new name.", Closed: true, Example: `{"username":"odile.larkspur"}`, Members: []api.FormMember{{"username", "string!", "The new name."}}},
	{Name: "CodeCreation", Does: "A code.", Closed: true, Example: `{"code_expires_in":604800}`, Members: []api.FormMember{codeLifetimeMember}},
	{Name: "UserCode", Does: "A code with which a user sets a password, once. It replaces an earlier one.", Example: `{"user_id":"usr_01kt1ag0000001kx5qkgq9h1tm","code":"k7q2m-8xw4c-1tz9r-0hv5n","expires_at":1780401600,"url":"https://pay.example/new-password"}`,
		Members: append([]api.FormMember{{"user_id", "string!", "The user's id."}}, codeMembers...)},
}

var codeLifetimeMember = api.FormMember{"code_expires_in", "integer", "How many seconds the code can be used; a day if it is left out.", `"minimum":3600,"maximum":1209600`}

var codeMembers = []api.FormMember{
	{"code", "string", "The code, which no other answer shows."},
	{"expires_at", "integer", "When it expires, in Unix seconds."},
	{"url", "string", "The page where the user sets a password with it; the code is never in the address."},
}

// AdminUser is a user.
type AdminUser struct {
	UserID        string `json:"user_id"`
	Username      string `json:"username"`
	Account       string `json:"account"`
	Disabled      bool   `json:"disabled"`
	Operator      bool   `json:"operator"`
	HasPassword   bool   `json:"has_password"`
	CreatedAt     int64  `json:"created_at"` // all in Unix seconds
	CodeExpiresAt int64  `json:"code_expires_at,omitempty"`
	LastSignIn    int64  `json:"last_sign_in,omitempty"` // at our pages

	SecondFactor  []string `json:"second_factor"`
	RecoveryCodes int      `json:"recovery_codes"`
}

func showUser(u store.User, signIn time.Time, codes int) AdminUser {
	return AdminUser{
		UserID: u.Subject(), Username: u.Username, Account: u.Account, Disabled: !u.DisabledAt.IsZero(), Operator: u.Operator,
		HasPassword: u.HasPassword(), SecondFactor: u.FactorNames(), RecoveryCodes: codes, CreatedAt: u.CreatedAt.Unix(), CodeExpiresAt: unixOrNone(u.CodeExpiresAt()), LastSignIn: unixOrNone(signIn),
	}
}

// showUsers shows users with their latest sign-ins and recovery codes.
func (c *call) showUsers(users ...store.User) (shown []AdminUser, err error) {
	signIns, err := c.s.site.Store.LatestSignIns(c.ctx(), users...)
	if err != nil {
		return nil, err
	}
	codes, err := c.s.site.Store.RecoveryCodesLeft(c.ctx(), users...)
	if err != nil {
		return nil, err
	}
	for i, u := range users {
		shown = append(shown, showUser(u, signIns[i], codes[i]))
	}
	return shown, nil
}

// NewAdminUser is a user who was just created, with the code in place of a password.
type NewAdminUser struct {
	AdminUser
	Code      string `json:"code,omitempty"`
	ExpiresAt int64  `json:"expires_at,omitempty"` // Unix seconds
	URL       string `json:"url,omitempty"`        // where the user sets a password with the code
}

// AdminUserCode is a code with which a user sets a password.
type AdminUserCode struct {
	UserID    string `json:"user_id"`
	Code      string `json:"code"`
	ExpiresAt int64  `json:"expires_at"` // Unix seconds
	URL       string `json:"url,omitempty"`
}

// createUser is POST /users.
func createUser(c *call) error {
	m, err := c.read([]string{"username", "account", "password", "code", "code_expires_in"}, "operator")
	if err != nil {
		return err
	}
	spec := store.UserSpec{
		Username: m.Text("username"), Account: m.Text("account"), Password: m.Text("password"), Code: !m.HasValue("password"),
		Operator: m.Flag("operator"), Caller: c.hashing(),
	}
	switch {
	case spec.Account != "":
	case c.isMachine():
		spec.Account = store.DefaultAccount
	default:
		m.Refuse("account", "is missing.")
	}
	if m.HasValue("code") {
		spec.Code = m.Flag("code")
		spec.Waits = !spec.Code
	}
	spec.CodeLifetime = codeLifetime(m)
	for _, name := range []string{"code", "code_expires_in"} {
		if m.HasValue(name) && m.HasValue("password") {
			m.Refuse(name, "cannot be sent with password.")
		}
	}
	if m.HasValue("code_expires_in") && spec.Waits {
		m.Refuse("code_expires_in", "needs a code; leave out code.")
	}
	if err := m.Err(); err != nil {
		return err
	}
	u, code, err := c.s.site.Store.CreateUser(c.ctx(), spec, c.guard())
	if errors.Is(err, record.ErrExists) {
		return c.nameTaken(spec.Username, spec.Account, err)
	}
	if err != nil {
		return err
	}
	noteAdmin(c.r, "user_id", u.Subject())
	made := NewAdminUser{AdminUser: showUser(u, time.Time{}, 0)}
	if spec.Code {
		made.Code, made.ExpiresAt, made.URL = code.Reveal(), u.CodeExpiresAt().Unix(), c.codeURL()
	}
	return c.sendVersion(http.StatusCreated, u.Revision, made)
}

// codeLifetime reads how long a code can be used.
func codeLifetime(m *api.Members) time.Duration {
	const most, least = store.UserCodeLifetimeMax / time.Second, store.UserCodeLifetimeMin / time.Second
	return time.Duration(m.Seconds("code_expires_in", 0, int64(least), int64(most))) * time.Second
}

// hashing is in whose turn a password is hashed.
func (c *call) hashing() secret.Caller {
	if c.isMachine() {
		return secret.Caller{}
	}
	return secret.Caller{Shares: []secret.Share{{Key: "client " + c.by.ClientID}}}
}

// nameTaken refuses a name that another user has. A repeated creation learns which user it made,
// but nobody learns of the users of another account.
func (c *call) nameTaken(name, account string, cause error) error {
	p := web.NewProblem(http.StatusConflict, "exists", "A user with this name already exists; user names ignore case. Choose another name.").On("username").Because(cause)
	p.Extra = map[string]any{}
	if c.isMachine() {
		p.Description = fmt.Sprintf("User %q already exists; user names ignore case.", web.ShownName(name))
		p.Extra["hint"] = "tollhouse user list shows them; tollhouse user passwd NAME sets a new password"
	}
	if u, err := c.s.site.Store.FindUser(c.ctx(), name); err == nil && u.Account == account {
		p.Extra["user_id"] = u.Subject()
		if !c.isMachine() {
			p.Description = "This user already exists; user names ignore case. To invite the user again, ask for a new code."
		}
	}
	return p
}

// codeURL is the address of the page for codes.
func (c *call) codeURL() string { return c.s.site.PublicURL() + oauth.NewPasswordPath }

// listUsers is GET /users.
func listUsers(c *call) error {
	q, limit, err := c.listed(userFilters)
	if err != nil {
		return err
	}
	users, err := c.users(q, limit+1)
	if err != nil {
		return err
	}
	shown, err := c.showUsers(users...)
	if err != nil {
		return err
	}
	return sendPage(c, shown, limit, q["after"], func(u AdminUser) AdminUser { return u }, func(u AdminUser) string { return u.UserID })
}

// users reads the users that a query selects. A name is that of one user.
func (c *call) users(q map[string]string, limit int) ([]store.User, error) {
	name, given := q["username"]
	if !given {
		return c.s.site.Store.ListUsersByID(c.ctx(), q["account"], q["after"], limit)
	}
	u, err := c.s.site.Store.FindUser(c.ctx(), name)
	if err != nil || q["account"] != "" && q["account"] != u.Account || u.Subject() <= q["after"] {
		return nil, record.GoneIsNil(err)
	}
	return []store.User{u}, nil
}

// findUser is GET /users/:user_id.
func findUser(c *call) error { return c.onUser(unguarded(c.s.site.Store.FindUserBySubject)) }

// renameUser is PATCH /users/:user_id.
func renameUser(c *call) error {
	m, err := c.read([]string{"username"})
	if err != nil {
		return err
	}
	name := m.Text("username")
	if err := m.Err(); err != nil {
		return err
	}
	return c.changeUser(func(ctx context.Context, id string, guards ...store.Guard) (store.User, error) {
		u, err := c.s.site.Store.RenameUser(ctx, id, name, guards...)
		if errors.Is(err, record.ErrExists) {
			err = c.nameTaken(name, "", err)
		}
		return u, err
	})
}

// setPassword is POST /users/:user_id/password. It ends all sessions and tokens of the old
// password.
func setPassword(c *call) error {
	m, err := c.read([]string{"password"})
	if err != nil {
		return err
	}
	password := m.Text("password")
	if err := m.Err(); err != nil {
		return err
	}
	return c.changeUser(func(ctx context.Context, id string, _ ...store.Guard) (store.User, error) {
		return c.s.site.Store.SetPassword(ctx, id, password)
	})
}

// disableUser is POST /users/:user_id/disable.
func disableUser(c *call) error { return c.onUser(c.s.site.Store.DisableUser) }

// enableUser is POST /users/:user_id/enable.
func enableUser(c *call) error { return c.onUser(c.s.site.Store.EnableUser) }

// revokeUser is POST /users/:user_id/revoke.
func revokeUser(c *call) error { return c.onUser(c.s.site.Store.RevokeUser) }

// resetSecondFactor is POST /users/:user_id/reset-second-factor.
func resetSecondFactor(c *call) error { return c.onUser(c.s.site.Store.ResetSecondFactor) }

// promoteUser is POST /users/:user_id/promote.
func promoteUser(c *call) error { return c.onUser(c.s.site.Store.PromoteUser) }

// demoteUser is POST /users/:user_id/demote.
func demoteUser(c *call) error { return c.onUser(c.s.site.Store.DemoteUser) }

// createUserCode is POST /users/:user_id/code.
func createUserCode(c *call) error {
	m, err := c.read([]string{"code_expires_in"})
	if err != nil {
		return err
	}
	lifetime := codeLifetime(m)
	if err := m.Err(); err != nil {
		return err
	}
	id, err := c.userID()
	if err != nil {
		return err
	}
	guard := c.guard()
	guard.User = c.mayRecover
	u, code, err := c.s.site.Store.CreateUserCode(c.ctx(), id, lifetime, guard)
	if err != nil {
		return c.userProblem(err, id)
	}
	noteAdmin(c.r, "user_id", id)
	return c.sendVersion(http.StatusOK, u.Revision, AdminUserCode{
		UserID: u.Subject(), Code: code.Reveal(), ExpiresAt: u.CodeExpiresAt().Unix(), URL: c.codeURL(),
	})
}

// mayRecover judges a code for a user: who may recover people is not who invites them.
func (c *call) mayRecover(u store.User) error {
	if u.HasPassword() {
		return c.needs(store.ScopeUsersRecover)
	}
	return c.needs(store.ScopeUsersWrite)
}

// deleteUser is DELETE /users/:user_id.
func deleteUser(c *call) error {
	if err := c.readNone(); err != nil {
		return err
	}
	id, err := c.userID()
	if err != nil {
		return err
	}
	c.takeTime()
	if err := c.s.site.Store.DeleteUser(c.ctx(), id, c.guard()); err != nil {
		return c.userProblem(err, id)
	}
	noteAdmin(c.r, "user_id", id)
	return c.done()
}

// userID is the user in the path. A name is not one: it could become another user's.
func (c *call) userID() (string, error) {
	id := c.name("user_id")
	if !store.IsSubject(id) {
		return "", c.userProblem(record.ErrNotFound, id)
	}
	return id, nil
}

type userChange = func(ctx context.Context, id string, guards ...store.Guard) (store.User, error)

// onUser makes a call that has no members about the user in the path, and shows the user.
func (c *call) onUser(do userChange) error {
	if err := c.readNone(); err != nil {
		return err
	}
	return c.changeUser(do)
}

func (c *call) changeUser(do userChange) error {
	id, err := c.userID()
	if err != nil {
		return err
	}
	u, err := do(c.ctx(), id, c.guard())
	if err != nil {
		return c.userProblem(err, id)
	}
	noteAdmin(c.r, "user_id", id)
	shown, err := c.showUsers(u)
	if err != nil {
		return err
	}
	return c.sendVersion(http.StatusOK, u.Revision, shown[0])
}

func (c *call) userProblem(err error, id string) error {
	switch {
	case errors.Is(err, record.ErrNotFound):
		return c.absent("user", id, "tollhouse user list shows the users", err)
	case errors.Is(err, record.ErrDisabled):
		p := web.NewProblem(http.StatusConflict, "conflict", "The user is disabled; enable the user first.").Because(err)
		if u, err := c.s.site.Store.FindUserBySubject(c.ctx(), id); err == nil && c.isMachine() {
			p.Description = fmt.Sprintf("User %q is disabled.", web.ShownName(u.Username))
			p.Extra = map[string]any{"hint": "enable the user first: tollhouse user enable NAME"}
		}
		return p
	}
	return err
}

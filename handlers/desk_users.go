package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

const (
	usersPath   = "/desk/users"
	newUserPath = "/desk/new-user"
)

// deskUsers is GET /desk/users.
func (s *Server) deskUsers(v *visit) error {
	users, err := s.store.ListUsers(v.ctx, v.after(), deskPageSize+1)
	if err != nil {
		return err
	}
	t := views.DeskTable{Label: "Users", List: "users", Columns: []string{"Name", "Account", "Role", "Last sign-in", "State"}, Next: "Next",
		Empty: "No users yet. Create one to let somebody sign in."}
	if len(users) > deskPageSize {
		users = users[:deskPageSize]
		t.Older = usersPath + "?after=" + escaped(users[deskPageSize-1].Canonical)
	}
	signIns, err := s.store.LatestSignIns(v.ctx, users...)
	if err != nil {
		return err
	}
	for i, u := range users {
		t.Rows = append(t.Rows, views.DeskRow{Hook: "user", ID: u.Subject(), Cells: []views.DeskCell{
			{Text: u.Username, Href: usersPath + "/" + u.Subject()}, {Text: u.Account}, {Text: roleOf(u)}, v.lastCell(signIns[i]), stateCell(!u.DisabledAt.IsZero()),
		}})
	}
	v.show(http.StatusOK, views.DeskProps{Name: "users", Title: "Users", Links: []views.Link{{Label: "Create a user", Href: newUserPath}}}, views.List(v.page(v.r), t))
	return nil
}

func roleOf(u store.User) string {
	if u.Operator {
		return "operator"
	}
	return "user"
}

// lastCell shows a time, or never.
func (v *visit) lastCell(at time.Time) views.DeskCell {
	if at.IsZero() {
		return views.DeskCell{Text: "never"}
	}
	return views.DeskCell{When: moment(at, v.now)}
}

// userAsked is the form of a new user as it was typed.
type userAsked struct {
	username, account string
	operator          bool
	refused           error
}

// deskNewUser is GET /desk/new-user.
func (s *Server) deskNewUser(v *visit) error {
	return v.showNewUser(http.StatusOK, userAsked{account: v.session.User.Account}, v.onceField())
}

func (v *visit) showNewUser(status int, a userAsked, once string) error {
	accounts, err := v.store.ListAccounts(v.ctx, "", accountsShown)
	if err != nil {
		return err
	}
	var names []string
	for _, account := range accounts {
		names = append(names, account.ID)
	}
	wrong := map[string]string{}
	collectInvalid(a.refused, wrong)
	if errors.Is(a.refused, record.ErrExists) {
		wrong["username"] = "This user already exists. User names ignore case."
	}
	page := views.DeskProps{Name: "new-user", Title: "Create a user"}
	if a.refused != nil {
		page.Alert = "The user was not created."
	}
	v.show(status, page, views.Form(v.page(v.r), views.DeskForm{
		Do: "create-user", Action: usersPath, Token: v.token(), Once: once, Button: "Create",
		Text: "You type no password. The user sets one with a code that is shown next.",
		Fields: []views.DeskField{
			{Name: "username", Label: "Username", Value: a.username, Wrong: wrong["username"]},
			{Name: "account", Label: "Account", Value: a.account, Hint: "A new name creates an account.", Wrong: wrong["account"], Suggestions: names},
			{As: "box", Name: "operator", Label: "Operator: may use the desk", Checked: a.operator},
		},
	}))
	return nil
}

// deskCreateUser is POST /desk/users. Only its answer shows the code.
func (s *Server) deskCreateUser(v *visit) error {
	return v.makeOnce(func() (done onceDone, err error) {
		a := userAsked{username: strings.TrimSpace(v.form.value("username")), account: strings.TrimSpace(v.form.value("account")), operator: v.form.has("operator")}
		account := a.account
		if account == "" {
			account = store.DefaultAccount
		}
		var roles []store.Role
		if a.operator {
			roles = append(roles, store.Operator)
		}
		u, code, err := s.store.CreateUserWithCode(v.ctx, a.username, account, roles...)
		if isInvalid(err) || errors.Is(err, record.ErrExists) {
			a.refused = err
			return done, v.showNewUser(http.StatusBadRequest, a, v.form.value("once"))
		}
		if err != nil {
			return done, err
		}
		v.audit("user created", store.AuditLine{UserID: u.Subject(), AccountID: u.Account})
		v.showCode(u, code, "The user was created.")
		return onceDone{"Open the user", usersPath + "/" + u.Subject()}, nil
	})
}

// showCode shows a code, once.
func (v *visit) showCode(u store.User, code secret.Token, notice string) {
	v.show(http.StatusOK, views.DeskProps{Name: "user", Title: u.Username, Notice: notice, Links: []views.Link{{Label: "Open the user", Href: usersPath + "/" + u.Subject()}}},
		views.Secret(views.DeskSecret{Label: "Code", Hook: "code", Value: code.Reveal(), IDHook: "address", ID: v.issuerOf(v.r) + "/new-password",
			Text: fmt.Sprintf("Give both to %s. Good for 24 hours, once.", u.Username)}))
}

func (v *visit) userOf() (store.User, error) {
	u, err := v.store.FindUserBySubject(v.ctx, pathParam(v.r, "id"))
	if errors.Is(err, record.ErrNotFound) {
		return u, newProblem(http.StatusNotFound, "not_found", "There is no such user.").because(err)
	}
	return u, err
}

func (v *visit) isSelf(u store.User) bool { return u.ID == v.session.User.ID }

// deskUser is GET /desk/users/:id.
func (s *Server) deskUser(v *visit) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	signIn, err := s.store.LatestSignIns(v.ctx, u)
	if err != nil {
		return err
	}
	sessions, err := s.store.ListSessions(v.ctx, u)
	if err != nil {
		return err
	}
	families, err := s.store.ListFamilies(v.ctx, store.FamilyFilter{User: &u}, "", deskFamiliesMax)
	if err != nil {
		return err
	}
	lines, err := v.auditTable(auditSearch{user: u.Subject()}, 10)
	if err != nil {
		return err
	}
	lines.Heading, lines.Label, lines.Older, lines.Clear = "Latest audit lines", "", "/desk/audit?user="+escaped(u.Username), ""
	lines.Next, lines.Empty = "All of this user", "No audit line names this user yet."
	p, path := v.page(v.r), usersPath+"/"+u.Subject()
	parts := []templ.Component{views.Facts(p, "", []views.DeskFact{
		{Label: "Id", DeskCell: views.DeskCell{Text: u.Subject(), Code: true}}, {Label: "Account", DeskCell: views.DeskCell{Text: u.Account, Href: deskEventsPath + "?account=" + escaped(u.Account)}},
		{Label: "Role", DeskCell: views.DeskCell{Text: roleOf(u)}}, {Label: "State", DeskCell: stateCell(!u.DisabledAt.IsZero())},
		{Label: "Last sign-in", DeskCell: v.lastCell(signIn[0])}, {Label: "Created", DeskCell: views.DeskCell{When: moment(u.CreatedAt, v.now)}},
	})}
	if u.DisabledAt.IsZero() {
		parts = append(parts, views.Form(p, views.DeskForm{Do: "code", Action: path + "/code", Token: v.token(), Once: v.onceField(), Heading: "New password", Second: true, Button: "Make a code",
			Text: "With a code the user sets a new password. The present one works until then."}))
	}
	parts = append(parts, views.Acts(p, "Use", v.userActs(u, path, len(sessions) > 0)),
		views.List(p, v.sessionTable(sessions[:min(len(sessions), deskFamiliesMax)], "Browsers signed in")), views.List(p, without(v.familyTable(families, "Applications with access"), "User")),
		views.List(p, without(lines, "User")), views.Commands("Users are deleted on the machine:", "tollhouse user delete "+shellWord(u.Username)))
	v.show(http.StatusOK, views.DeskProps{Name: "user", Title: u.Username}, parts...)
	return nil
}

// userActs are the changes that the operator may make. Operators cannot disable or demote
// themselves.
func (v *visit) userActs(u store.User, path string, signedIn bool) (acts []views.DeskAct) {
	if signedIn {
		acts = append(acts, v.act("sign-out", path+"/sign-out", "Sign out everywhere", ""))
	}
	switch {
	case !u.Operator:
		acts = append(acts, v.act("promote", path+"/promote", "Make an operator", ""))
	case !v.isSelf(u):
		acts = append(acts, v.act("demote", path+"/demote", "Take the operator role", ""))
	}
	switch {
	case !u.DisabledAt.IsZero():
		acts = append(acts, v.act("enable", path+"/enable", "Enable", ""))
	case !v.isSelf(u):
		acts = append(acts, v.act("disable", path+"/disable", "Disable", ""))
	}
	return acts
}

// deskUserCode is POST /desk/users/:id/code. Only its answer shows the code.
func (s *Server) deskUserCode(v *visit) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	return v.makeOnce(func() (done onceDone, err error) {
		u, code, err := s.store.CreateUserCode(v.ctx, u.Username)
		if errors.Is(err, record.ErrDisabled) {
			return done, newProblem(http.StatusConflict, "conflict", "The user is disabled. Enable the user first.").because(err)
		}
		if err != nil {
			return done, err
		}
		v.audit("code made", store.AuditLine{UserID: u.Subject(), AccountID: u.Account})
		v.showCode(u, code, "The code replaces any earlier one.")
		return onceDone{"Open the user", usersPath + "/" + u.Subject()}, nil
	})
}

// changeUser makes a change and leads to the user.
func (v *visit) changeUser(what, done string, notSelf bool, change func(name string) (store.User, error)) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	if notSelf && v.isSelf(u) {
		return newProblem(http.StatusConflict, "conflict", "You cannot do this to yourself. Another operator can.")
	}
	if _, err := change(u.Username); err != nil {
		return err
	}
	v.audit(what, store.AuditLine{UserID: u.Subject(), AccountID: u.Account})
	return v.finish(done, usersPath+"/"+u.Subject())
}

func (s *Server) deskDisableUser(v *visit) error {
	return v.changeUser("user disabled", doneUserDisabled, true, func(name string) (store.User, error) { return s.store.DisableUser(v.ctx, name) })
}

func (s *Server) deskEnableUser(v *visit) error {
	return v.changeUser("user enabled", doneUserEnabled, false, func(name string) (store.User, error) { return s.store.EnableUser(v.ctx, name) })
}

func (s *Server) deskPromoteUser(v *visit) error {
	return v.changeUser("user promoted", doneUserPromoted, false, func(name string) (store.User, error) { return s.store.PromoteUser(v.ctx, name) })
}

func (s *Server) deskDemoteUser(v *visit) error {
	return v.changeUser("user demoted", doneUserDemoted, true, func(name string) (store.User, error) { return s.store.DemoteUser(v.ctx, name) })
}

// deskSignOutUser is POST /desk/users/:id/sign-out. Tokens stay valid.
func (s *Server) deskSignOutUser(v *visit) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	if _, err := s.store.DeleteSessions(v.ctx, by(v.ctx), u); err != nil {
		return err
	}
	s.auditSignedOut(v.r, u, "signed out everywhere by the operator")
	if v.isSelf(u) {
		v.redirectHere(v.w, "/login?to="+toDesk)
		return nil
	}
	return v.finish(doneUserSignedOut, usersPath+"/"+u.Subject())
}

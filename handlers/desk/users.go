package desk

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

const (
	usersPath   = "/desk/users"
	newUserPath = "/desk/new-user"
)

// users is GET /desk/users.
func (s *Server) users(v *visit) error {
	users, err := s.site.Store.ListUsers(v.ctx, v.after(), deskPageSize+1)
	if err != nil {
		return err
	}
	p := views.UsersProps{NewURL: newUserPath, AccountsURL: accountsPath}
	if len(users) > deskPageSize {
		users = users[:deskPageSize]
		p.Older = usersPath + "?after=" + api.Escaped(users[deskPageSize-1].Canonical)
	}
	signIns, err := s.site.Store.LatestSignIns(v.ctx, users...)
	if err != nil {
		return err
	}
	for i, u := range users {
		p.Users = append(p.Users, v.listedUser(u, signIns[i]))
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Users(p))
	return nil
}

func (v *visit) listedUser(u store.User, signedIn time.Time) views.ListedUser {
	return views.ListedUser{
		ID: u.Subject(), Username: u.Username, URL: usersPath + "/" + u.Subject(), Account: u.Account, Operator: u.Operator,
		SignedIn: v.momentOrNever(signedIn), Disabled: !u.DisabledAt.IsZero(), HasPassword: u.HasPassword(),
	}
}

// userAsked is the form of a new user as it was typed.
type userAsked struct {
	username, account string
	operator          bool
	refused           error
}

// newUser is GET /desk/new-user.
func (s *Server) newUser(v *visit) error {
	return v.showNewUser(http.StatusOK, userAsked{account: v.session.User.Account}, onceField())
}

func (v *visit) showNewUser(status int, a userAsked, once string) error {
	accounts, err := v.s.site.Store.ListAccounts(v.ctx, "", accountsShown)
	if err != nil {
		return err
	}
	p := views.NewUserProps{
		Username: a.username, Account: a.account, Operator: a.operator, Refused: a.refused != nil, Exists: errors.Is(a.refused, record.ErrExists), Refusal: refusalOf(a.refused),
		URL: usersPath, Once: once,
	}
	for _, account := range accounts {
		p.Accounts = append(p.Accounts, account.ID)
	}
	p.Frame = v.frame()
	v.draw(status, views.NewUser(p))
	return nil
}

// createUser is POST /desk/users. Only its answer shows the code.
func (s *Server) createUser(v *posted) error {
	return v.makeOnce(func() (done onceDone, err error) {
		a := userAsked{username: strings.TrimSpace(v.form.Value("username")), account: strings.TrimSpace(v.form.Value("account")), operator: v.form.Has("operator")}
		account := a.account
		if account == "" {
			account = store.DefaultAccount
		}
		u, code, err := s.site.Store.CreateUser(v.ctx, store.UserSpec{Username: a.username, Account: account, Code: true, Operator: a.operator}, v.guard())
		if isInvalid(err) || errors.Is(err, record.ErrExists) {
			a.refused = err
			return done, v.showNewUser(http.StatusBadRequest, a, v.form.Value("once"))
		}
		if err != nil {
			return done, err
		}
		v.showCode(u, code, true)
		return onceDone{views.MadeUser, usersPath + "/" + u.Subject()}, nil
	})
}

// showCode shows a code, once.
func (v *posted) showCode(u store.User, code secret.Token, isNew bool) {
	v.draw(http.StatusOK, views.UserCode(views.UserCodeProps{
		Frame: v.frame(), Username: u.Username, URL: usersPath + "/" + u.Subject(), Code: code.Reveal(), CodeURL: v.s.site.IssuerOf(v.r) + oauth.NewPasswordPath, New: isNew,
	}))
}

func (v *visit) userOf() (store.User, error) {
	u, err := v.s.site.Store.FindUserBySubject(v.ctx, web.PathParam(v.r, "id"))
	if errors.Is(err, record.ErrNotFound) {
		return u, web.NewProblem(http.StatusNotFound, "not_found", "There is no such user.").Because(err)
	}
	return u, err
}

func (v *visit) isSelf(u store.User) bool { return u.ID == v.session.User.ID }

// user is GET /desk/users/:id.
func (s *Server) user(v *visit) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	signIn, err := s.site.Store.LatestSignIns(v.ctx, u)
	if err != nil {
		return err
	}
	sessions, err := s.site.Store.ListSessions(v.ctx, u)
	if err != nil {
		return err
	}
	granted, lost, err := v.accessOfUser(u)
	if err != nil {
		return err
	}
	factor, err := s.site.Store.FindFactor(v.ctx, u)
	if err != nil {
		return err
	}
	p := views.UserProps{
		SecondFactor: views.UserFactor{Kinds: strings.Join(u.FactorNames(), " "), App: factor.App, AppFails: factor.App && !factor.AppOpens,
			Passkeys: len(factor.Passkeys), RecoveryLeft: factor.RecoveryLeft, MayReset: v.session.Amr.HasFactor()},
		User: v.listedUser(u, signIn[0]), Self: v.isSelf(u), AccountURL: deskEventsPath + "?account=" + api.Escaped(u.Account), Created: web.Moment(u.CreatedAt, v.now),
		CodePath: oauth.NewPasswordPath, SignedIn: len(sessions), Lost: lost,
		Browsers: v.browsers(sessions[:min(len(sessions), deskFamiliesMax)]), Access: v.accessOn(granted, "/desk/access?user="+api.Escaped(u.Username)),
		Once: onceField(), DeleteCommand: v.s.oauth.Command("tollhouse user delete " + web.ShellOperand(u.Username)),
	}
	if ends := u.CodeEnds(); v.now.Before(ends) {
		p.CodeEnds = web.Moment(ends, v.now)
	}
	if p.Audit, err = v.auditList(admin.AuditSearch{User: u.Subject()}, 10); err != nil {
		return err
	}
	p.Audit.Older = "/desk/audit?user=" + api.Escaped(u.Username)
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.User(p))
	return nil
}

// userCode is POST /desk/users/:id/code. Only its answer shows the code.
func (s *Server) userCode(v *posted) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	return v.makeOnce(func() (done onceDone, err error) {
		u, code, err := s.site.Store.CreateUserCode(v.ctx, u.Subject(), 0, v.guard())
		if errors.Is(err, record.ErrDisabled) {
			return done, web.NewProblem(http.StatusConflict, "conflict", "The user is disabled. Enable the user first.").Because(err)
		}
		if err != nil {
			return done, err
		}
		v.showCode(u, code, false)
		return onceDone{views.MadeUser, usersPath + "/" + u.Subject()}, nil
	})
}

// changeUser makes a change and leads to the user. It goes by the id, since a name may have become
// another user's.
func (v *posted) changeUser(done views.Done, notSelf bool, change func(id string) (store.User, error)) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	if notSelf && v.isSelf(u) {
		return web.NewProblem(http.StatusConflict, "conflict", "You cannot do this to yourself. Another operator can.")
	}
	if _, err := change(u.Subject()); err != nil {
		return err
	}
	return v.finish(done, usersPath+"/"+u.Subject())
}

func (s *Server) disableUser(v *posted) error {
	return v.changeUser(views.DoneUserDisabled, true, func(id string) (store.User, error) { return s.site.Store.DisableUser(v.ctx, id, v.guard()) })
}

func (s *Server) enableUser(v *posted) error {
	return v.changeUser(views.DoneUserEnabled, false, func(id string) (store.User, error) { return s.site.Store.EnableUser(v.ctx, id, v.guard()) })
}

func (s *Server) promoteUser(v *posted) error {
	return v.changeUser(views.DoneUserPromoted, false, func(id string) (store.User, error) { return s.site.Store.PromoteUser(v.ctx, id, v.guard()) })
}

func (s *Server) demoteUser(v *posted) error {
	return v.changeUser(views.DoneUserDemoted, true, func(id string) (store.User, error) { return s.site.Store.DemoteUser(v.ctx, id, v.guard()) })
}

// resetSecondFactor is POST /desk/users/:id/reset-second-factor. A stolen password of an operator
// must not be enough for it.
func (s *Server) resetSecondFactor(v *posted) error {
	if !v.session.Amr.HasFactor() {
		return web.NewProblem(http.StatusForbidden, "factor_required", "Only an operator who signed in with a second factor can reset that of another user. On the server, tollhouse user reset-second-factor NAME does it.")
	}
	return v.changeUser(views.DoneFactorReset, true, func(id string) (store.User, error) { return s.site.Store.ResetSecondFactor(v.ctx, id, v.guard()) })
}

// signOutUser is POST /desk/users/:id/sign-out. Tokens stay valid.
func (s *Server) signOutUser(v *posted) error {
	u, err := v.userOf()
	if err != nil {
		return err
	}
	guards := []store.Guard{v.guard()}
	if v.isSelf(u) { // the first step ends the session
		guards = nil
	}
	if _, err := s.site.Store.DeleteSessions(v.ctx, web.By(v.ctx), u, guards...); err != nil {
		return err
	}
	if v.isSelf(u) {
		v.s.site.RedirectHere(v.w, oauth.SignInForDesk)
		return nil
	}
	return v.finish(views.DoneUserSignedOut, usersPath+"/"+u.Subject())
}

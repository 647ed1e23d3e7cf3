package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// household is a store with a record of every kind.
type household struct {
	grant
	warned           *warnings
	own              store.Client // acts for its account by itself
	ownSecret        secret.Token
	ownToken         store.Issued
	platform         store.Client // acts for any account
	platformToken    store.Issued
	spent, next      store.Issued // the answer to the refresh of spent
	replaced         store.Issued // its refresh was answered long ago
	used, code       secret.Token
	session, another secret.Token
	userCode         secret.Token
	app              secret.AppSecret // of nils
	theirs           secret.Token     // session of nils
}

func keepHouse(t *testing.T) household {
	t.Helper()
	ctx := t.Context()
	h := household{warned: &warnings{}}
	f := storetest.NewKeeping(t, func(o *store.Options) { o.Log = slog.New(h.warned) })
	h.grant = rememberingOn(t, f)
	h.remembers(t, store.ScopeEventsRead)
	h.own, h.ownSecret = f.Client(t, func(c *store.ClientSpec) {
		c.Account, c.Grants = "acct_larkspur", []string{"authorization_code", "client_credentials"}
	})
	h.ownToken = must.Get(f.IssueForClient(ctx, store.By{}, h.own, "", store.ScopeUnstated))(t)
	h.platform, _ = f.Client(t, storetest.Platform("accounts:act", "events:read"))
	h.platformToken = must.Get(f.IssueForClient(ctx, store.By{}, h.platform, "", store.ScopeAccountsAct|store.ScopeEventsRead))(t)
	h.replaced = h.issue(t, store.ScopeUnstated)
	h.mustRefresh(t, h.replaced)
	h.session = h.signIn(t, secret.Token{})
	f.Clock.Advance(10 * time.Minute)
	h.another = h.signIn(t, secret.Token{})
	h.used = h.allow(t, "")
	must.Get(h.redeem(h.used, ""))(t)
	h.first, h.spent = h.issue(t, store.ScopeUnstated), h.issue(t, store.ScopeUnstated)
	h.next = h.mustRefresh(t, h.spent)
	h.code = h.allow(t, challenge)
	h.grant.user = h.now(t).user
	f.User(t, "nils", "acct_nils")
	_, code, err := f.CreateUserCode(ctx, "nils", 0)
	must.Do(t, err)
	h.userCode = code
	_, h.theirs, h.app = setsUpApp(t, f, "nils")
	_, _, err = f.Webhooks.Create(ctx, webhook.By{Account: "acct_larkspur", Owner: f.OwnerOf(t, h.client.ID, h.user)}, "acct_larkspur", webhook.Settings{URL: "https://hooks.example/in"})
	must.Do(t, err)
	must.Get(f.CreateAccount(ctx, "acct_left", "Left"))(t)
	for _, ago := range []time.Duration{0, 30 * time.Hour} { // the older is counted by hour
		storetest.ImportLines(t, f.Store, "acct_left", fmt.Sprintf(`{"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, f.Now().Add(-ago).Unix()))
	}
	must.Do(t, f.RecordBackup(ctx, store.BackupMade{Created: f.Now(), File: "-"}, store.By{}))
	must.Do(t, f.UpdateCertificate(ctx, "pay.example", []byte(canaryKey)))
	must.Do(t, f.RecordOutcome(ctx, "backup", &store.Failure{At: f.Now(), Text: "no space"}))
	f.Flush(ctx)
	return h
}

// warnings is a log that keeps the last error of its lines.
type warnings struct {
	mu   sync.Mutex
	last error
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w *warnings) WithGroup(string) slog.Handler            { return w }

func (w *warnings) Handle(_ context.Context, line slog.Record) error {
	if !strings.HasSuffix(line.Message, "not written") { // other calls, at the same time
		return nil
	}
	line.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.last = err
		}
		return true
	})
	return nil
}

func (w *warnings) take() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last
	w.last = nil
	return last
}

// calls are the methods of a store.
func (h household) calls(t *testing.T) []storetest.Call {
	t.Helper()
	type (
		ctxt = context.Context
		st   = *store.Store
	)
	by := store.By{}
	families := must.Get(h.ListFamilies(t.Context(), store.FamilyFilter{}, "", 1))(t)
	sessions := must.Get(h.ListSessions(t.Context(), h.user))(t)
	nils := must.Get(h.FindUser(t.Context(), "nils"))(t)
	name := "New"
	inspect := func(token secret.Token) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) { return s.Inspect(ctx, token.Reveal()) }
	}
	rotate := func(token secret.Token) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) {
			issued, err := s.RotateRefresh(ctx, store.Refresh{Client: h.client, Token: token})
			return issued, refusalIsNil(err)
		}
	}
	redeem := func(code secret.Token, verifier string) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) {
			issued, err := s.RedeemCode(ctx, store.Redemption{Client: h.client, Code: code, RedirectURI: storetest.CallbackURI, Verifier: verifier})
			return issued, refusalIsNil(err)
		}
	}
	consent, remembered := h.shown(store.ScopeEventsRead), h.shown(store.ScopeEventsRead)
	user := func(change func(st, ctxt, string) (store.User, error)) func(ctxt, st) (any, error) {
		return func(ctx ctxt, s st) (any, error) {
			u, err := change(s, ctx, "mara")
			return u.Generation, err
		}
	}
	return []storetest.Call{
		{Name: "CreateAccount", Run: func(ctx ctxt, s st) (any, error) { return s.CreateAccount(ctx, "acct_new", "New") }},
		{Name: "PutAccount", Run: func(ctx ctxt, s st) (any, error) {
			a, _, err := s.PutAccount(ctx, "acct_left", &name)
			return a, err
		}},
		{Name: "DisableAccount", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.DisableAccount(ctx, "acct_larkspur") }},
		{Name: "EnableAccount", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.EnableAccount(ctx, "acct_larkspur") }},
		{Name: "RevokeAccount", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.RevokeAccount(ctx, "acct_larkspur") }},
		{Name: "FindAccount", Run: func(ctx ctxt, s st) (any, error) { return s.FindAccount(ctx, "acct_left") }},
		{Name: "ListAccounts", Run: func(ctx ctxt, s st) (any, error) { return s.ListAccounts(ctx, "", 9) }},
		{Name: "DeleteAccount", InSteps: true, Remakes: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.DeleteAccount(ctx, "acct_left") }},

		{Name: "CreateClient", Run: func(ctx ctxt, s st) (any, error) {
			c, _, err := s.CreateClient(ctx, store.ClientSpec{Name: "New", RedirectURIs: []string{storetest.CallbackURI}, Account: "acct_new", Grants: []string{"authorization_code", "client_credentials"}})
			return c.ID, err
		}},
		{Name: "PutClient", InSteps: true, Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			c, _, _, err := s.PutClient(ctx, h.client.ID, store.ClientSpec{Name: name, RedirectURIs: []string{storetest.CallbackURI}})
			return c.Name, err
		}},
		{Name: "RevokeClient", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.RevokeClient(ctx, h.client.ID) }},
		{Name: "FindClient", Run: func(ctx ctxt, s st) (any, error) { return s.FindClient(ctx, h.client.ID) }},
		{Name: "ListClients", Run: func(ctx ctxt, s st) (any, error) { return s.ListClients(ctx, "", 9) }},
		{Name: "UpdateClient", InSteps: true, Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			c, err := s.UpdateClient(ctx, h.client.ID, store.ClientChange{Name: &name, Scopes: &[]string{"events:read"}})
			return c.Name, err
		}},
		{Name: "DisableClient", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.DisableClient(ctx, h.client.ID) }},
		{Name: "EnableClient", Run: func(ctx ctxt, s st) (any, error) { return s.EnableClient(ctx, h.client.ID) }},
		{Name: "DeleteClient", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.DeleteClient(ctx, h.client.ID) }},
		{Name: "AuthenticateClient", Run: func(ctx ctxt, s st) (any, error) {
			return s.AuthenticateClient(ctx, h.own.ID, h.ownSecret.Reveal(), nil)
		}},
		{Name: "RotateClientSecret", InSteps: true, Run: func(ctx ctxt, s st) (any, error) {
			c, _, err := s.RotateClientSecret(ctx, h.client.ID, true)
			return c.Generation, err
		}},
		{Name: "AllowsOrigin", Run: func(ctx ctxt, s st) (any, error) { return s.AllowsOrigin(ctx, "https://app.example") }},
		{Name: "LatestUses", Run: func(ctx ctxt, s st) (any, error) { return s.LatestUses(ctx, h.client.ID, h.own.ID) }},

		{Name: "CreateUser", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			u, _, err := s.CreateUser(ctx, store.UserSpec{Username: "olga", Account: "acct_olga", Password: storetest.Password})
			return u.ID, err
		}},
		{Name: "CreateUserWithCode", Run: func(ctx ctxt, s st) (any, error) {
			u, _, err := s.CreateUser(ctx, store.UserSpec{Username: "olga", Account: "acct_olga", Code: true})
			return u.ID, err
		}},
		{Name: "CreateUserCode", Run: func(ctx ctxt, s st) (any, error) {
			u, _, err := s.CreateUserCode(ctx, "mara", 0)
			return u.ID, err
		}},
		{Name: "RedeemUserCode", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			u, err := s.RedeemUserCode(ctx, store.UserCodeUse{Username: "nils", Code: h.userCode, Password: setByCode})
			return u.Generation, err
		}},
		{Name: "FindUser", Run: func(ctx ctxt, s st) (any, error) { return s.FindUser(ctx, "mara") }},
		{Name: "FindUserBySubject", Run: func(ctx ctxt, s st) (any, error) { return s.FindUserBySubject(ctx, h.user.Subject()) }},
		{Name: "ListUsersByID", Run: func(ctx ctxt, s st) (any, error) { return s.ListUsersByID(ctx, "acct_larkspur", "", 9) }},
		{Name: "ListUsers", Run: func(ctx ctxt, s st) (any, error) { return s.ListUsers(ctx, "", 9) }},
		{Name: "AuthenticateUser", Run: func(ctx ctxt, s st) (any, error) {
			return s.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
		}},
		{Name: "SetPassword", Seals: true, Run: user(func(s st, ctx ctxt, name string) (store.User, error) { return s.SetPassword(ctx, name, setByCode) })},
		{Name: "ChangePassword", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			token, _, err := s.ChangePassword(ctx, store.PasswordChange{User: h.user, Session: h.session, New: setByCode, EndAll: true})
			return token, err
		}},
		{Name: "DisableUser", InSteps: true, Run: user(func(s st, ctx ctxt, name string) (store.User, error) { return s.DisableUser(ctx, name) })},
		{Name: "EnableUser", Run: user(func(s st, ctx ctxt, name string) (store.User, error) { return s.EnableUser(ctx, name) })},
		{Name: "RevokeUser", InSteps: true, Run: user(func(s st, ctx ctxt, name string) (store.User, error) { return s.RevokeUser(ctx, name) })},
		{Name: "RenameUser", Run: user(func(s st, ctx ctxt, name string) (store.User, error) { return s.RenameUser(ctx, name, "maren") })},
		{Name: "PromoteUser", Run: user(func(s st, ctx ctxt, name string) (store.User, error) { return s.PromoteUser(ctx, name) })},
		{Name: "DeleteUser", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.DeleteUser(ctx, "mara") }},
		{Name: "LatestSignIns", Run: func(ctx ctxt, s st) (any, error) { return s.LatestSignIns(ctx, h.user) }},

		{Name: "CreateSession", Run: func(ctx ctxt, s st) (any, error) {
			token, _, err := s.CreateSession(ctx, store.By{}, h.user, h.session, "")
			return token, err
		}},
		{Name: "UseFactor", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			token, _, err := s.UseFactor(ctx, store.FactorUse{Step: s.NewSecondStep(nils), Proof: store.FactorProof{Code: codeOf(t, h.app, h.Clock.Now())}})
			return token, err
		}},
		{Name: "FindFactor", Run: func(ctx ctxt, s st) (any, error) { return s.FindFactor(ctx, nils) }},
		{Name: "StepStands", Run: func(ctx ctxt, s st) (any, error) { return s.StepStands(ctx, s.NewSecondStep(nils)) }},
		{Name: "SetApp", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			done, err := s.SetApp(ctx, store.FactorChange{Session: h.theirs, User: nils, Revision: nils.FactorRevision(), EndAll: true}, h.app, 1)
			return done.Session, err
		}},
		{Name: "RemoveApp", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			done, err := s.RemoveApp(ctx, store.FactorChange{Session: h.theirs, User: nils, Revision: nils.FactorRevision()})
			return done.Session, err
		}},
		{Name: "ResetSecondFactor", Run: func(ctx ctxt, s st) (any, error) { return s.ResetSecondFactor(ctx, "nils") }},
		{Name: "FindSession", Run: func(ctx ctxt, s st) (any, error) { return s.FindSession(ctx, h.session) }},
		{Name: "ListSessions", Run: func(ctx ctxt, s st) (any, error) { return s.ListSessions(ctx, h.user) }},
		{Name: "ListLiveSessions", Run: func(ctx ctxt, s st) (any, error) { return s.ListLiveSessions(ctx, nil, "", 9) }},
		{Name: "DeleteSession", Run: func(ctx ctxt, s st) (any, error) { return nil, s.DeleteSession(ctx, h.session) }},
		{Name: "DeleteSessionNamed", Run: func(ctx ctxt, s st) (any, error) { return s.DeleteSessionNamed(ctx, sessions[0].Name()) }},
		{Name: "DeleteOtherSessions", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.DeleteOtherSessions(ctx, h.user, h.session) }},
		{Name: "DeleteSessions", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.DeleteSessions(ctx, store.By{}, h.user) }},

		{Name: "Allow", Run: func(ctx ctxt, s st) (any, error) { return s.Allow(ctx, consent) }},
		{Name: "AllowRemembered", Run: func(ctx ctxt, s st) (any, error) { return s.AllowRemembered(ctx, remembered) }},
		{Name: "Deny", Run: func(ctx ctxt, s st) (any, error) { return s.Deny(ctx, consent) }},
		{Name: "RedeemCode", Run: redeem(h.code, verifier)},
		{Name: "RedeemCode_of_a_used_code", Run: redeem(h.used, "")},
		{Name: "IssueForPassword", Run: func(ctx ctxt, s st) (any, error) {
			return s.IssueForPassword(ctx, by, h.client, h.user, store.ScopeUnstated)
		}},
		{Name: "IssueForClient", Run: func(ctx ctxt, s st) (any, error) { return s.IssueForClient(ctx, by, h.own, "", store.ScopeUnstated) }},
		{Name: "IssueForClient_for_an_account", Run: func(ctx ctxt, s st) (any, error) {
			return s.IssueForClient(ctx, by, h.platform, "acct_larkspur", store.ScopeEventsRead)
		}},
		{Name: "ActFor", Run: func(ctx ctxt, s st) (any, error) {
			return s.ActFor(ctx, store.Principal{Platform: true}, "acct_larkspur")
		}},
		{Name: "FindPrincipal_of_a_platform_client", Run: func(ctx ctxt, s st) (any, error) { return s.FindPrincipal(ctx, h.platformToken.AccessToken) }},
		{Name: "IssueFixture", Run: func(ctx ctxt, s st) (any, error) {
			return s.IssueFixture(ctx, store.TokenSpec{Client: h.client, User: h.user})
		}},
		{Name: "RotateRefresh", Run: rotate(h.first.RefreshToken)},
		{Name: "RotateRefresh_repeated", Run: rotate(h.spent.RefreshToken)},
		{Name: "RotateRefresh_of_an_answer_that_was_lost", Run: rotate(h.replaced.RefreshToken)},
		{Name: "FindPrincipal", Run: func(ctx ctxt, s st) (any, error) { return s.FindPrincipal(ctx, h.first.AccessToken) }},
		{Name: "FindPrincipal_of_a_client", Run: func(ctx ctxt, s st) (any, error) { return s.FindPrincipal(ctx, h.ownToken.AccessToken) }},
		{Name: "FindPrincipal_of_an_unknown_token", Run: func(ctx ctxt, s st) (any, error) {
			p, err := s.FindPrincipal(ctx, secret.New(nil, secret.AccessToken))
			return p, record.GoneIsNil(err)
		}},
		{Name: "Introspect", Run: func(ctx ctxt, s st) (any, error) { return s.Introspect(ctx, h.client, h.next.AccessToken.Reveal()) }},
		{Name: "Introspect_a_refresh_token", Run: func(ctx ctxt, s st) (any, error) {
			return s.Introspect(ctx, h.client, h.next.RefreshToken.Reveal())
		}},
		{Name: "Inspect_an_access_token", Run: inspect(h.first.AccessToken)},
		{Name: "Inspect_a_client's_token", Run: inspect(h.ownToken.AccessToken)},
		{Name: "Inspect_a_refresh_token", Run: inspect(h.first.RefreshToken)},
		{Name: "Inspect_a_code", Run: inspect(h.code)},
		{Name: "Inspect_a_used_code", Run: inspect(h.used)},
		{Name: "Inspect_a_session", Run: inspect(h.session)},
		{Name: "Flush", Run: func(ctx ctxt, s st) (any, error) {
			for _, token := range []secret.Token{h.next.AccessToken, h.first.AccessToken} {
				if _, err := s.FindPrincipal(ctx, token); err != nil {
					return nil, err
				}
			}
			if _, err := s.Introspect(ctx, h.client, h.next.RefreshToken.Reveal()); err != nil {
				return nil, err
			}
			if _, err := s.FindSession(ctx, h.session); err != nil {
				return nil, err
			}
			s.FlushLastUsed(ctx)
			return nil, h.warned.take()
		}},
		{Name: "RevokeToken", Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.RevokeToken(ctx, by, h.client, h.next.RefreshToken.Reveal())
		}},
		{Name: "RevokeToken_for_access", Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.RevokeToken(ctx, by, h.client, h.next.AccessToken.Reveal())
		}},
		{Name: "RevokeToken_of_a_client", Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.RevokeToken(ctx, by, h.own, h.ownToken.AccessToken.Reveal())
		}},
		{Name: "ListFamilies", Run: func(ctx ctxt, s st) (any, error) { return s.ListFamilies(ctx, store.FamilyFilter{}, "", 9) }},
		{Name: "RevokeFamily", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.RevokeFamily(ctx, by, families[0].ID) }},
		{Name: "RevokeFamilyOf", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return s.RevokeFamilyOf(ctx, by, h.first.RefreshToken.Reveal()) }},
		{Name: "ListGranted", Run: func(ctx ctxt, s st) (any, error) {
			list, _, err := s.ListGranted(ctx, h.user)
			return list, err
		}},
		{Name: "RevokeGranted", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.RevokeGranted(ctx, by, h.user, h.client.ID) }},

		{Name: "ListAudit", Run: func(ctx ctxt, s st) (any, error) { return s.ListAudit(ctx, record.Position{}, 3) }},
		{Name: "SearchAudit", Run: func(ctx ctxt, s st) (any, error) {
			return s.SearchAudit(ctx, store.AuditFilter{To: h.Now()}, record.Position{}, 3)
		}},
		{Name: "GlanceAudit", Run: func(ctx ctxt, s st) (any, error) { return s.GlanceAudit(ctx, store.AuditFilter{}, 3) }},
		{Name: "TrimAudit", InSteps: true, Run: func(ctx ctxt, s st) (any, error) { return nil, s.TrimAudit(ctx, h.Now()) }},
		{Name: "RecordBackup", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.RecordBackup(ctx, store.BackupMade{Created: h.Now(), File: "-", Scheduled: true}, by)
		}},
		{Name: "RecordOutcome", Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.RecordOutcome(ctx, "backup", nil)
		}},
		{Name: "LastFailure", Run: func(ctx ctxt, s st) (any, error) { return s.LastFailure(ctx, "backup") }},
		{Name: "LastBackup", Run: func(ctx ctxt, s st) (any, error) { return s.LastBackup(ctx) }},
		{Name: "UpdateCertificate", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			return nil, s.UpdateCertificate(ctx, "pay.example", []byte("another"))
		}},
		{Name: "FindCertificate", Run: func(ctx ctxt, s st) (any, error) { return s.FindCertificate(ctx, "pay.example") }},
		{Name: "DeleteCertificate", Run: func(ctx ctxt, s st) (any, error) { return nil, s.DeleteCertificate(ctx, "pay.example") }},
		{Name: "Totals", Run: func(ctx ctxt, s st) (any, error) { return s.Totals(ctx) }},
		{Name: "Check", Run: func(ctx ctxt, s st) (any, error) { return nil, s.Check(ctx) }},
	}
}

// refusalIsNil lets a refusal that also writes pass as an outcome.
func refusalIsNil(err error) error {
	if errors.Is(err, record.ErrReplayed) {
		return nil
	}
	return err
}

// A store is opened whole or not at all.
func TestOpenOverAFailingEngine(t *testing.T) {
	t.Parallel()
	h := keepHouse(t)
	must.Do(t, h.Events.SetRetention(t.Context(), 48*time.Hour))
	open := []storetest.Call{{Name: "Open"}}
	h.EachFault(t, open)
	h.EachDamage(t, open)
}

// fixtureCalls are the methods of dev's store that others do not take.
func fixtureCalls(sec secret.Token) []storetest.Call {
	type (
		ctxt = context.Context
		st   = *store.Store
	)
	chosen := store.TokenSpec{AccessToken: "access-of-mine", RefreshToken: "refresh-of-mine"}
	return []storetest.Call{
		{Name: "Open"},
		{Name: "CreateFixedClient", Run: func(ctx ctxt, s st) (any, error) {
			return s.CreateFixedClient(ctx, "mine", sec, store.ClientSpec{Name: "Mine", RedirectURIs: []string{"http://app.example/cb"}})
		}},
		{Name: "CreateFixtureUser", Seals: true, Run: func(ctx ctxt, s st) (any, error) {
			u, err := s.CreateFixtureUser(ctx, store.UserSpec{Username: "mine", Account: "acct_mine", Password: "pw"})
			return u.ID, err
		}},
		{Name: "IssueFixture", Run: func(ctx ctxt, s st) (any, error) {
			spec := chosen
			var err error
			if spec.Client, err = s.FindClient(ctx, "first"); err == nil {
				spec.User, err = s.FindUser(ctx, "mara")
			}
			if err != nil {
				return nil, err
			}
			return s.IssueFixture(ctx, spec)
		}},
		{Name: "Inspect", Run: func(ctx ctxt, s st) (any, error) { return s.Inspect(ctx, "first-refresh") }},
	}
}

func TestEngineFaultsUnderFixtures(t *testing.T) {
	t.Parallel()
	f := storetest.NewKeeping(t, func(o *store.Options) { o.Fixtures = true })
	sec := must.Get(store.FixtureToken("client_secret", "pw"))(t)
	c := must.Get(f.CreateFixedClient(t.Context(), "first", sec, store.ClientSpec{Name: "First", RedirectURIs: []string{storetest.CallbackURI}}))(t)
	u := f.User(t, "mara", "acct_larkspur")
	must.Get(f.IssueFixture(t.Context(), store.TokenSpec{Client: c, User: u, RefreshToken: "first-refresh"}))(t)
	f.EachFault(t, fixtureCalls(sec))
	f.EachDamage(t, fixtureCalls(sec))
}

// Whatever fails below a store, the caller learns of it, no change is half made, and the
// same call succeeds once the engine works again.
func TestEngineFaults(t *testing.T) {
	t.Parallel()
	h := keepHouse(t)
	h.EachFault(t, h.calls(t))
}

// No call believes a damaged record, or writes on its base.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	h := keepHouse(t)
	h.EachDamage(t, h.calls(t))
}

// A call whose caller has gone says so and changes nothing.
func TestCallersThatHaveGone(t *testing.T) {
	t.Parallel()
	h := keepHouse(t)
	h.EachCancelled(t, h.calls(t))
}

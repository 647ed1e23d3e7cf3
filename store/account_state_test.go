package store_test

import (
	"errors"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Platform §3): while an account is disabled its users cannot sign in, and neither they nor
// clients bound to it get or use a token, at any server; enabling revives none; its operators use the
// desk as before
func TestDisabledAccount(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		ctx := t.Context()
		a.User(t, "olga", "acct_larkspur")
		olga := must.Get(a.PromoteUser(ctx, "olga"))(t)
		ofOperator, _, err := a.CreateSession(ctx, store.By{}, olga, secret.Token{}, "")
		must.Do(t, err)
		session := a.signIn(t, secret.Token{})
		bound, _ := a.Client(t, func(c *store.ClientSpec) { c.Account, c.Grants = "acct_larkspur", []string{"client_credentials"} })
		tokens := []store.Issued{
			a.first, must.Get(a.IssueForPassword(ctx, store.By{}, a.client, olga, store.ScopeUnstated))(t),
			must.Get(a.IssueForClient(ctx, store.By{}, bound, "", store.ScopeUnstated))(t),
		}
		elsewhere := a.User(t, "eve", "acct_other")
		other := must.Get(a.IssueForPassword(ctx, store.By{}, a.client, elsewhere, store.ScopeUnstated))(t)

		areDead := func(when string) {
			t.Helper()
			for i, of := range tokens {
				if b.accessLives(t, of) {
					t.Errorf("%s: token %d lives", when, i)
				}
			}
			if b.sessionLives(session) {
				t.Errorf("%s: the user's session lives", when)
			}
			if sn, err := b.FindSession(ctx, ofOperator); err != nil || !sn.User.Operator {
				t.Errorf("%s: FindSession(operator) = %v", when, err)
			}
			if !b.accessLives(t, other) {
				t.Errorf("%s: a token of another account is dead", when)
			}
		}
		disabled := must.Get(a.DisableAccount(ctx, "acct_larkspur"))(t)
		if disabled.DisabledAt.IsZero() {
			t.Errorf("DisableAccount() = %+v", disabled)
		}
		if again := must.Get(b.DisableAccount(ctx, "acct_larkspur"))(t); again != disabled {
			t.Errorf("DisableAccount() again = %+v, want %+v", again, disabled)
		}
		areDead("disabled")
		_, wrong := b.AuthenticateUser(ctx, secret.Caller{}, "eve", "a wrong password")
		_, err = b.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
		if refused(t, "AuthenticateUser()", err, record.ErrMismatch); err.Error() != wrong.Error() {
			t.Errorf("AuthenticateUser() = %v, want it as for a wrong password: %v", err, wrong)
		}
		operator, err := b.AuthenticateUser(ctx, secret.Caller{}, "olga", storetest.Password)
		must.Do(t, err)
		_, _, err = b.CreateSession(ctx, store.By{}, operator, secret.Token{}, "")
		must.Do(t, err)
		_, err = b.IssueForPassword(ctx, store.By{}, b.client, operator, store.ScopeUnstated)
		refused(t, "IssueForPassword(operator)", err, record.ErrDisabled)
		_, err = b.Allow(ctx, store.Consent{Client: b.client, User: operator, RedirectURI: storetest.CallbackURI, Ticket: "t", TicketEnds: b.Now().Add(lives.Ticket)})
		refused(t, "Allow(operator)", err, record.ErrDisabled)
		_, err = b.IssueForClient(ctx, store.By{}, bound, "", store.ScopeUnstated)
		refused(t, "IssueForClient()", err, record.ErrDisabled)
		// Settlements arrive for weeks.
		changed, err := b.Events.PutResource(ctx, eventlog.ResourceChange{Owner: "acct_larkspur", Kind: "plan", ID: "p1"}, snapshot.ObjectOf())
		if err != nil || changed.Recorded == "" {
			t.Errorf("PutResource() = %+v, %v", changed, err)
		}
		storetest.ImportLines(t, b.Store, "acct_larkspur", `{"type":"plan.created","resource":"p2","eventData":{"object":{}},"createdAt":1773000000}`)

		must.Get(b.EnableAccount(ctx, "acct_larkspur"))(t)
		areDead("enabled again")
		mara, err := a.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
		must.Do(t, err)
		fresh := []store.Issued{
			must.Get(a.IssueForPassword(ctx, store.By{}, a.client, mara, store.ScopeUnstated))(t),
			must.Get(a.IssueForPassword(ctx, store.By{}, a.client, operator, store.ScopeUnstated))(t),
			must.Get(a.IssueForClient(ctx, store.By{}, bound, "", store.ScopeUnstated))(t),
		}
		for i, of := range fresh {
			if !b.accessLives(t, of) {
				t.Errorf("a new token %d of the account that is enabled again is dead", i)
			}
		}
		tokens, session = fresh, a.signIn(t, secret.Token{})
		must.Get(a.RevokeAccount(ctx, "acct_larkspur"))(t)
		areDead("revoked")
		if _, err := b.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password); err != nil {
			t.Errorf("AuthenticateUser() of a revoked account = %v", err)
		}
		if _, err := b.CheckAll(ctx); err != nil {
			t.Errorf("CheckAll() = %v", err)
		}
	})
}

// Disabling an account, and ending all of its tokens, is one write, however many users it has.
func TestDisablingAnAccountIsOneWrite(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, change := range map[string]func(*store.Store) (store.Account, error){
		"DisableAccount": func(s *store.Store) (store.Account, error) { return s.DisableAccount(ctx, "acct_larkspur") },
		"RevokeAccount":  func(s *store.Store) (store.Account, error) { return s.RevokeAccount(ctx, "acct_larkspur") },
	} {
		g := newGrant(t)
		g.Rest()
		g.User(t, "nils", "acct_larkspur")
		updates := 0
		g.Faults.OnUpdate(func(run func() error) error { updates++; return run() })
		must.Get(change(g.Store))(t)
		if updates != 1 || g.accessLives(t, g.first) {
			t.Errorf("%s() made %d updates", name, updates)
		}
		_, err := g.DisableAccount(ctx, "acct_none")
		refused(t, "DisableAccount(unknown)", err, record.ErrNotFound)
		_, err = g.DisableAccount(ctx, "NO/ACCOUNT\x00")
		refused(t, "DisableAccount(no account's id)", err, record.ErrNotFound)
	}
}

// Nothing of an erased account lives in the next one of its name.
func TestTheNextAccountOfAnIDBeginsWithNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storetest.New(t)
	first := must.Get(f.CreateAccount(ctx, "acct_a", ""))(t)
	must.Do(t, f.DeleteAccount(ctx, "acct_a"))
	next := must.Get(f.CreateAccount(ctx, "acct_a", ""))(t)
	if first.Generation == next.Generation || first.Revision == next.Revision {
		t.Errorf("the next account has generation %d and revision %d of the erased one", next.Generation, next.Revision)
	}
}

// An account that is being erased is neither disabled nor enabled.
func TestAccountBeingErasedIsLeftAlone(t *testing.T) {
	ctx := t.Context()
	g := parallelGrant(t)
	must.Get(g.CreateAccount(ctx, "acct_a", ""))(t)
	g.CutAt(0, true) // the erasing has begun, and the process ends
	if err := g.DeleteAccount(ctx, "acct_a"); err == nil {
		t.Fatal("DeleteAccount() was not cut")
	}
	g.Faults.Repair()
	for name, change := range map[string]func() error{
		"DisableAccount": func() error { _, err := g.DisableAccount(ctx, "acct_a"); return err },
		"EnableAccount":  func() error { _, err := g.EnableAccount(ctx, "acct_a"); return err },
		"RevokeAccount":  func() error { _, err := g.RevokeAccount(ctx, "acct_a"); return err },
		"PutAccount":     func() error { _, _, err := g.PutAccount(ctx, "acct_a", nil); return err },
	} {
		if err := change(); !errors.Is(err, record.ErrConflict) {
			t.Errorf("%s() = %v, want ErrConflict", name, err)
		}
	}
	_, _, err := g.CreateUser(ctx, store.UserSpec{Username: "nils", Account: "acct_a", Code: true}, store.Guard{KnownAccount: true})
	refused(t, "CreateUser()", err, store.ErrUnknownAccount)
	must.Do(t, g.DeleteAccount(ctx, "acct_a"))
}

package store_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// grant is one authorization under test: a store, its client and user, and the first
// pair of its family.
type grant struct {
	*storetest.Fixture
	client store.Client
	user   store.User
	first  store.Issued
}

func newGrant(t testing.TB, change ...func(*store.Options)) grant {
	t.Helper()
	return newGrantIn(t, storetest.New(t, change...))
}

func newGrantIn(t testing.TB, f *storetest.Fixture) grant {
	t.Helper()
	return beginning{grant.issued}.in(t, f)
}

// beginning is how the first family of a grant is made.
type beginning struct {
	first func(g grant, t testing.TB) store.Issued
}

func (b beginning) in(t testing.TB, f *storetest.Fixture) grant {
	t.Helper()
	client, _ := f.Client(t)
	g := grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
	g.first = b.first(g, t)
	return g
}

// parallel is a grant in a new store for a test that runs beside others.
func (b beginning) parallel(t *testing.T) grant {
	t.Helper()
	t.Parallel()
	return b.in(t, storetest.New(t))
}

func (g grant) issued(t testing.TB) store.Issued {
	t.Helper()
	return g.issue(t, store.ScopeUnstated)
}

// parallelGrant is newGrant for a test that runs beside others.
func parallelGrant(t *testing.T, change ...func(*store.Options)) grant {
	t.Helper()
	t.Parallel()
	return newGrant(t, change...)
}

// issue starts another family.
func (g grant) issue(t testing.TB, scope store.Scope) store.Issued {
	t.Helper()
	issued := must.Get(g.IssueForPassword(context.Background(), store.By{}, g.client, g.user, scope))(t)
	return issued
}

// refresh requests a new pair as the grant's own client.
func (g grant) refresh(of store.Issued) (store.Issued, error) {
	return g.RotateRefresh(context.Background(), store.Refresh{Client: g.client, Token: of.RefreshToken})
}

func (g grant) refreshFor(of store.Issued, scope store.Scope) (store.Issued, error) {
	return g.RotateRefresh(context.Background(), store.Refresh{Client: g.client, Token: of.RefreshToken, Scope: scope})
}

// mustRefresh is refresh where a refusal is not under test.
func (g grant) mustRefresh(t testing.TB, of store.Issued) store.Issued {
	t.Helper()
	issued := must.Get(g.refresh(of))(t)
	return issued
}

// use sends the pair's access token to the API for the first time, and returns once
// the use is recorded.
func (g grant) use(t testing.TB, of store.Issued) {
	t.Helper()
	g.untilWritten(func() { must.Get(g.FindPrincipal(context.Background(), of.AccessToken))(t) })
}

// untilWritten returns once what do causes is committed.
func (g grant) untilWritten(do func()) {
	written := make(chan struct{})
	g.Faults.OnUpdate(func(run func() error) error {
		defer close(written)
		return run()
	})
	defer g.Faults.Repair()
	do()
	<-written
}

// accessLives reports whether the API would accept the pair's access token. The
// question itself counts as a use.
func (g grant) accessLives(t testing.TB, of store.Issued) bool {
	t.Helper()
	_, err := g.FindPrincipal(context.Background(), of.AccessToken)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("FindPrincipal() = %v", err)
	}
	return err == nil
}

// unchanged fails the test if act leaves a trace in the store.
func (g grant) unchanged(t testing.TB, act func()) {
	t.Helper()
	g.Rest() // earlier uses are written first
	before := contents(t, g.DB)
	act()
	if after := contents(t, g.DB); !maps.Equal(before, after) {
		t.Errorf("the store changed: %d keys before, %d after, want the same keys and values", len(before), len(after))
	}
}

func contents(t testing.TB, db kv.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, db.View(context.Background(), func(r kv.Reader) error {
		for k, v := range r.Scan(kv.Range{}) {
			all[string(k)] = string(v)
		}
		return nil
	}))
	return all
}

// refused fails the test unless err is the refusal wanted.
func refused(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

// familyIsDead fails the test unless nothing of the family can be used.
func (g grant) familyIsDead(t testing.TB, pairs ...store.Issued) {
	t.Helper()
	for i, p := range pairs {
		if g.accessLives(t, p) {
			t.Errorf("access token %d lives, want it dead with its family", i)
		}
		if _, err := g.refresh(p); !errors.Is(err, record.ErrRevoked) {
			t.Errorf("RotateRefresh(%d) = %v, want %v", i, err, record.ErrRevoked)
		}
	}
}

func same(a, b store.Issued) bool {
	return a.AccessToken.Equal(b.AccessToken) && a.RefreshToken.Equal(b.RefreshToken)
}

// lives are the default lifetimes.
var lives = store.DefaultLifetimes()

const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// consent is the decision of the grant's user, on a new consent screen.
func (g grant) consent(challenge string) store.Consent {
	return store.Consent{
		Client: g.client, User: g.user, RedirectURI: storetest.CallbackURI, Challenge: challenge,
		Ticket: secret.Text(nil), TicketEnds: g.Now().Add(lives.Ticket),
	}
}

func (g grant) allow(t testing.TB, challenge string) secret.Token {
	t.Helper()
	code := must.Get(g.Allow(context.Background(), g.consent(challenge)))(t)
	return code
}

func (g grant) redeem(code secret.Token, verifier string) (store.Issued, error) {
	return g.RedeemCode(context.Background(), store.Redemption{
		Client: g.client, Code: code, RedirectURI: storetest.CallbackURI, Verifier: verifier,
	})
}

const tick = time.Millisecond // resolution of the store's clock

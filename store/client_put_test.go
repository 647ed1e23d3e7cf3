package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Platform §3): a client may have an id of its own, 1 to 255 visible ASCII characters; to put
// it again replaces its settings, shows no secret, and keeps what it is not given
func TestPutClient(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		ctx := t.Context()
		spec := store.ClientSpec{Name: "Ledger", RedirectURIs: []string{"https://a.example/cb"}, Scopes: []string{"events:read"}}
		longest := strings.Repeat("~", 255)
		for _, id := range []string{"a", "own/client", "...", longest} {
			c, sec, created, err := a.PutClient(ctx, id, spec)
			if err != nil || !created || c.ID != id || sec.IsZero() {
				t.Fatalf("PutClient(%q) = %+v, %t, %v", id, c, created, err)
			}
			if _, err := b.AuthenticateClient(ctx, id, sec.Reveal(), nil); err != nil {
				t.Errorf("AuthenticateClient(%q) = %v", id, err)
			}
			changed := store.ClientSpec{Name: "Ledger 2", RedirectURIs: []string{"https://b.example/cb"}}
			must.Get(a.DisableClient(ctx, id))(t)
			c, none, created, err := b.PutClient(ctx, id, changed)
			if err != nil || created || !none.IsZero() || c.Name != "Ledger 2" || c.Scope != store.ScopeUnstated || c.DisabledAt.IsZero() || !slices.Equal(c.RedirectURIs, changed.RedirectURIs) {
				t.Errorf("PutClient(%q) again = %+v, %t, %v", id, c, created, err)
			}
			must.Get(a.EnableClient(ctx, id))(t)
			if _, err := b.AuthenticateClient(ctx, id, sec.Reveal(), nil); err != nil {
				t.Errorf("AuthenticateClient(%q) after another PUT = %v", id, err)
			}
		}
		var bad *record.InvalidError
		for _, id := range []string{"", ".", "..", "a b", "\u00e4", "a\x00", longest + "~", "tollhouse_mine"} {
			if _, _, _, err := a.PutClient(ctx, id, spec); !errors.As(err, &bad) || bad.Field != "client_id" {
				t.Errorf("PutClient(%q) = %v, want client_id refused", id, err)
			}
		}
		if _, _, created, err := a.PutClient(ctx, a.client.ID, spec); err != nil || created { // drawn by the server
			t.Errorf("PutClient(%s) = %t, %v", a.client.ID, created, err)
		}
		public := spec
		public.Public = true
		if _, _, _, err := a.PutClient(ctx, "a", public); !errors.As(err, &bad) || bad.Field != "public" {
			t.Errorf("PutClient(now public) = %v", err)
		}
	})
}

// What a client had under an id is not the next one's of that id.
func TestTheNextClientOfAnIDBeginsWithNothing(t *testing.T) {
	ctx := t.Context()
	g := parallelGrant(t)
	spec := store.ClientSpec{Name: "Ledger", RedirectURIs: []string{storetest.CallbackURI}}
	put := func() store.Client {
		c, _, _, err := g.PutClient(ctx, "ledger", spec)
		must.Do(t, err)
		return c
	}
	g.client = put()
	code, old := g.allow(t, ""), g.issue(t, store.ScopeUnstated)
	must.Do(t, g.DeleteClient(ctx, "ledger"))
	next := put()
	if next.Generation == g.client.Generation || next.Revision == g.client.Revision {
		t.Errorf("the next client has generation %d and revision %d of the deleted one", next.Generation, next.Revision)
	}
	g.client = next
	_, err := g.redeem(code, "")
	refused(t, "RedeemCode(of the deleted client)", err, record.ErrDisabled)
	if g.accessLives(t, old) {
		t.Error("a token of the deleted client lives")
	}
	// A deletion that was overtaken leaves it alone.
	g.Rest()
	other, steps := g.Reopened(t), 0
	g.issue(t, store.ScopeUnstated)
	g.Faults.OnUpdate(func(run func() error) error {
		if steps++; steps == 2 {
			must.Do(t, other.DeleteClient(ctx, "ledger"))
			_, _, _, err := other.PutClient(ctx, "ledger", spec)
			must.Do(t, err)
		}
		return run()
	})
	refused(t, "DeleteClient(overtaken)", g.DeleteClient(ctx, "ledger"), record.ErrConflict)
	g.Faults.Repair()
	if c, err := g.FindClient(ctx, "ledger"); err != nil || !c.DisabledAt.IsZero() {
		t.Errorf("FindClient() = %+v, %v; want the new client", c, err)
	}
}

// Promise (Platform §3): there are at most as many clients as an instance may have; deleted ones do
// not count
func TestTooManyClients(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storetest.New(t, func(o *store.Options) { o.Clients = 2 })
	first, _ := f.Client(t)
	f.Client(t)
	spec := store.ClientSpec{Name: "One more", RedirectURIs: []string{storetest.CallbackURI}}
	_, _, err := f.CreateClient(ctx, spec)
	refused(t, "CreateClient(a third)", err, store.ErrTooManyClients)
	_, _, _, err = f.PutClient(ctx, "third", spec)
	refused(t, "PutClient(a third)", err, store.ErrTooManyClients)
	if _, _, created, err := f.PutClient(ctx, first.ID, spec); err != nil || created {
		t.Errorf("PutClient(of one) = %t, %v", created, err)
	}
	must.Do(t, f.DeleteClient(ctx, first.ID))
	f.Client(t)
	if _, err := f.CheckAll(ctx); err != nil {
		t.Errorf("CheckAll() = %v", err)
	}
}

package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// changesOfUser are all changes of a user that take Guards. Each returns the revision that it
// made, or 0 if it deleted the user.
var changesOfUser = map[string]func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error){
	"code": func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error) {
		u, _, err := s.CreateUserCode(ctx, user, 0, guards...)
		return u.Revision, err
	},
	"rename": func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error) {
		u, err := s.RenameUser(ctx, user, "maren", guards...)
		return u.Revision, err
	},
	"disable": func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error) {
		u, err := s.DisableUser(ctx, user, guards...)
		return u.Revision, err
	},
	"enable": func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error) {
		u, err := s.EnableUser(ctx, user, guards...)
		return u.Revision, err
	},
	"revoke": func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error) {
		u, err := s.RevokeUser(ctx, user, guards...)
		return u.Revision, err
	},
	"delete": func(ctx context.Context, s *store.Store, user string, guards ...store.Guard) (uint64, error) {
		return 0, s.DeleteUser(ctx, user, guards...)
	},
}

// changesOfClient are all changes of a client that take Guards.
var changesOfClient = map[string]func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error{
	"put": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		_, _, _, err := s.PutClient(ctx, id, store.ClientSpec{Name: "New", RedirectURIs: []string{storetest.CallbackURI}}, guards...)
		return err
	},
	"update": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		name := "New"
		_, err := s.UpdateClient(ctx, id, store.ClientChange{Name: &name}, guards...)
		return err
	},
	"rotate": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		_, _, err := s.RotateClientSecret(ctx, id, false, guards...)
		return err
	},
	"disable": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		_, err := s.DisableClient(ctx, id, guards...)
		return err
	},
	"enable": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		_, err := s.EnableClient(ctx, id, guards...)
		return err
	},
	"revoke": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		_, err := s.RevokeClient(ctx, id, guards...)
		return err
	},
	"delete": func(ctx context.Context, s *store.Store, id string, guards ...store.Guard) error {
		return s.DeleteClient(ctx, id, guards...)
	},
}

var protect = store.Guard{Protect: true}

// Promise (Platform §3): an operator and a client that may introspect are never changed by who may
// not; a promotion between the read and the write wins, at any server
func TestProtected(t *testing.T) {
	t.Parallel()
	for name, change := range changesOfUser {
		t.Run("user_"+name, func(t *testing.T) {
			onShared(t, func(t *testing.T, a, b grant) {
				ctx := t.Context()
				a.Rest()
				// The other server promotes the user when the change is about to be written.
				fa, isFaulty := a.DB.(interface {
					OnUpdate(func(func() error) error)
				})
				if !isFaulty {
					must.Get(b.PromoteUser(ctx, "mara"))(t)
				} else {
					fa.OnUpdate(func(run func() error) error {
						a.DB.(interface{ Repair() }).Repair()
						must.Get(b.PromoteUser(ctx, "mara"))(t)
						return run()
					})
				}
				_, err := change(ctx, a.Store, "mara", protect)
				refused(t, "a change of an operator", err, store.ErrProtected)
				u := must.Get(b.FindUser(ctx, "mara"))(t)
				if u.Revision != a.user.Revision+1 || !u.CodeEnds().IsZero() || !u.DisabledAt.IsZero() {
					t.Errorf("the operator was changed: %+v", u)
				}
				if _, err := b.FindPrincipal(ctx, a.first.AccessToken); err != nil {
					t.Errorf("FindPrincipal() = %v, want the operator's token to live", err)
				}
				must.Get(change(ctx, a.Store, u.Subject()))(t) // the machine may
			})
		})
	}
	for name, change := range changesOfClient {
		t.Run("client_"+name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			g := newGrant(t)
			g.Rest()
			other, yes := g.Reopened(t), true
			var before store.Client
			g.Faults.OnUpdate(func(run func() error) error {
				g.Faults.Repair()
				before = must.Get(other.UpdateClient(ctx, g.client.ID, store.ClientChange{Introspect: &yes}))(t)
				return run()
			})
			refused(t, "a change of a client that may introspect", change(ctx, g.Store, g.client.ID, protect), store.ErrProtected)
			if now := must.Get(g.FindClient(ctx, g.client.ID))(t); now.Revision != before.Revision {
				t.Errorf("the client was changed: %+v", now)
			}
			must.Do(t, change(ctx, g.Store, g.client.ID))
		})
	}
}

// A promotion and a guarded change at the same time, 1,000 times: the change was either made
// before the promotion, or refused.
func TestPromotionsAgainstChanges(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storetest.New(t)
	var names []string
	for name := range changesOfUser {
		names = append(names, name)
	}
	refusals := 0
	for round := range rounds() {
		name := names[round%len(names)]
		subject := f.User(t, "mara", "acct_larkspur").Subject()
		var promoted store.User
		var promotion, refusal error
		var revision uint64
		var both sync.WaitGroup
		both.Go(func() { promoted, promotion = f.PromoteUser(ctx, subject) })
		both.Go(func() { revision, refusal = changesOfUser[name](ctx, f.Store, subject, protect) })
		both.Wait()
		switch {
		case errors.Is(refusal, store.ErrProtected):
			refusals++
		case refusal != nil:
			t.Fatalf("%s = %v", name, refusal)
		case promotion == nil && revision >= promoted.Revision:
			t.Fatalf("%s has changed an operator: revision %d, promoted at %d", name, revision, promoted.Revision)
		case promotion == nil && name == "delete":
			t.Fatal("a user who became an operator was deleted")
		}
		if err := f.DeleteUser(ctx, subject); err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Fatal(err)
		}
	}
	must.Figure(t, "refusals", refusals)
}

// Promise (Platform §3): each change of an account, a user or a client raises its revision, and one
// that changes nothing keeps it; a change on the condition of another revision is refused
func TestRevisions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	is := func(revision uint64) store.Guard {
		return store.Guard{If: func(current uint64) bool { return current == revision }}
	}
	for name, change := range changesOfUser {
		t.Run("user_"+name, func(t *testing.T) {
			t.Parallel()
			g := newGrant(t)
			u := must.Get(g.DisableUser(ctx, "mara"))(t)
			if name != "enable" {
				u = must.Get(g.EnableUser(ctx, "mara"))(t)
			}
			_, err := change(ctx, g.Store, "mara", is(u.Revision-1))
			refused(t, "a change of an older revision", err, record.ErrPrecondition)
			revision, err := change(ctx, g.Store, "mara", is(u.Revision))
			if err != nil || name != "delete" && revision != u.Revision+1 {
				t.Fatalf("a change of revision %d made %d, %v", u.Revision, revision, err)
			}
			if name == "delete" || name == "code" || name == "revoke" {
				return // never without a change
			}
			if again, err := change(ctx, g.Store, u.Subject(), is(revision)); err != nil || again != revision {
				t.Errorf("the same change again made revision %d, %v; want %d", again, err, revision)
			}
		})
	}
	for name, change := range changesOfClient {
		t.Run("client_"+name, func(t *testing.T) {
			t.Parallel()
			g := newGrant(t)
			must.Get(g.DisableClient(ctx, g.client.ID))(t)
			if name != "enable" {
				must.Get(g.EnableClient(ctx, g.client.ID))(t)
			}
			c := must.Get(g.FindClient(ctx, g.client.ID))(t)
			refused(t, "a change of an older revision", change(ctx, g.Store, c.ID, is(c.Revision-1)), record.ErrPrecondition)
			must.Do(t, change(ctx, g.Store, c.ID, is(c.Revision)))
			if name == "delete" {
				refused(t, "put of a deleted client", changesOfClient["put"](ctx, g.Store, "own-id", is(c.Revision)), record.ErrPrecondition)
				return
			}
			now := must.Get(g.FindClient(ctx, c.ID))(t)
			if now.Revision != c.Revision+1 {
				t.Errorf("a change of revision %d made %d", c.Revision, now.Revision)
			}
			if name == "rotate" || name == "revoke" {
				return // never without a change
			}
			must.Do(t, change(ctx, g.Store, c.ID, is(now.Revision)))
			if again := must.Get(g.FindClient(ctx, c.ID))(t); again.Revision != now.Revision {
				t.Errorf("the same change again made revision %d, want %d", again.Revision, now.Revision)
			}
		})
	}
	t.Run("account", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		name, other := "Larkspur", "Larkspur Ltd"
		_, _, err := f.PutAccount(ctx, "acct_a", &name, is(1))
		refused(t, "PutAccount(none, on a condition)", err, record.ErrPrecondition)
		made, created, err := f.PutAccount(ctx, "acct_a", &name)
		if err != nil || !created || made.Name != name {
			t.Fatalf("PutAccount() = %+v, %t, %v", made, created, err)
		}
		for _, same := range []*string{&name, nil} {
			if a, created, err := f.PutAccount(ctx, "acct_a", same); err != nil || created || a != made {
				t.Errorf("PutAccount() again = %+v, %t, %v; want %+v", a, created, err, made)
			}
		}
		_, _, err = f.PutAccount(ctx, "acct_a", &other, is(made.Revision-1))
		refused(t, "PutAccount(of an older revision)", err, record.ErrPrecondition)
		a, _, err := f.PutAccount(ctx, "acct_a", &other, is(made.Revision))
		if err != nil || a.Name != other || a.Revision != made.Revision+1 || a != must.Get(f.FindAccount(ctx, "acct_a"))(t) {
			t.Errorf("PutAccount(another name) = %+v, %v", a, err)
		}
		refused(t, "DeleteAccount(of an older revision)", f.DeleteAccount(ctx, "acct_a", is(made.Revision)), record.ErrPrecondition)
		must.Do(t, f.DeleteAccount(ctx, "acct_a", is(a.Revision)))
		again, _, err := f.PutAccount(ctx, "acct_a", &other)
		if must.Do(t, err); again.Revision == made.Revision || again.Revision == a.Revision {
			t.Error("the next account of that id has a revision of the erased one")
		}
	})
}

// Promise (Platform §3): a Guard's own check sees a client as it was and as it becomes, in the
// transaction of the change
func TestGuardSeesBothClients(t *testing.T) {
	ctx := t.Context()
	g := parallelGrant(t)
	var seen []string
	guard := store.Guard{Client: func(c store.Client) error { seen = append(seen, c.Name); return nil }}
	must.Do(t, changesOfClient["update"](ctx, g.Store, g.client.ID, guard))
	// An engine may run the transaction again, and the last look may come twice.
	if once := slices.Compact(seen); len(once)%2 != 0 || !equal(once[:2], []string{g.client.Name, "New"}) {
		t.Errorf("the guard saw %q", seen)
	}
	refusal := errors.New("too much")
	for _, at := range []string{"New", "Newer"} {
		name := "Newer"
		_, err := g.UpdateClient(ctx, g.client.ID, store.ClientChange{Name: &name}, store.Guard{Client: func(c store.Client) error {
			if c.Name == at {
				return refusal
			}
			return nil
		}})
		refused(t, "UpdateClient(refused as "+at+")", err, refusal)
	}
	_, _, err := g.CreateClient(ctx, store.ClientSpec{Name: "Newer", RedirectURIs: []string{storetest.CallbackURI}}, store.Guard{Client: func(store.Client) error { return refusal }})
	refused(t, "CreateClient()", err, refusal)
	_, _, err = g.CreateUserCode(ctx, "mara", 0, store.Guard{User: func(u store.User) error {
		if u.HasPassword() {
			return refusal
		}
		return nil
	}})
	refused(t, "CreateUserCode()", err, refusal)
	if n := g.Count(t, 'c'); n != 1 {
		t.Errorf("%d clients, want the one", n)
	}
}

// Promise (Platform §3): the account of a user or client must exist, unless the machine makes it
func TestKnownAccount(t *testing.T) {
	ctx := t.Context()
	g := parallelGrant(t)
	known, account := store.Guard{KnownAccount: true}, "acct_typo"
	spec := store.ClientSpec{Name: "Worker", Grants: []string{"client_credentials"}, Account: account}
	make := map[string]func(...store.Guard) error{
		"user": func(guards ...store.Guard) error {
			_, _, err := g.CreateUser(ctx, store.UserSpec{Username: "nils", Account: account, Code: true}, guards...)
			return err
		},
		"client": func(guards ...store.Guard) error { _, _, err := g.CreateClient(ctx, spec, guards...); return err },
		"put client": func(guards ...store.Guard) error {
			_, _, _, err := g.PutClient(ctx, "worker", spec, guards...)
			return err
		},
		"update client": func(guards ...store.Guard) error {
			_, err := g.UpdateClient(ctx, g.client.ID, store.ClientChange{Grants: &spec.Grants, Account: &account}, guards...)
			return err
		},
	}
	before := everything(t, g.DB)
	for name, do := range make {
		refused(t, name, do(known), store.ErrUnknownAccount)
	}
	if len(everything(t, g.DB)) != len(before) {
		t.Error("a refused change has written something")
	}
	for name, do := range make {
		if err := do(); err != nil {
			t.Errorf("%s by the machine = %v", name, err)
		}
	}
	must.Get(g.FindAccount(ctx, account))(t)
}

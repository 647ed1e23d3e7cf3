package store_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Platform §3): a user can be renamed: id, sessions and tokens stay; a name that is taken in
// any spelling is refused, and so is one with the form of an id, also of a new user
func TestRenameUser(t *testing.T) {
	t.Parallel()
	t.Run("all_that_the_user_has_follows_the_id", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			ctx := t.Context()
			session := a.signIn(t, secret.Token{})
			u := must.Get(a.RenameUser(ctx, "MARA", " Maren "))(t)
			if u.ID != a.user.ID || u.Username != "Maren" || u.Canonical != "maren" {
				t.Errorf("RenameUser() = %+v", u)
			}
			if sn, err := b.FindSession(ctx, session); err != nil || sn.User != u {
				t.Errorf("FindSession() = %+v, %v; want the renamed user", sn.User, err)
			}
			if p, err := b.FindPrincipal(ctx, a.first.AccessToken); err != nil || p.Username != "Maren" || p.UserID != u.Subject() {
				t.Errorf("FindPrincipal() = %+v, %v; want the renamed user", p, err)
			}
			if _, err := b.AuthenticateUser(ctx, secret.Caller{}, "MAREN", storetest.Password); err != nil {
				t.Errorf("AuthenticateUser(new name) = %v", err)
			}
			_, err := b.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
			refused(t, "AuthenticateUser(old name)", err, record.ErrMismatch)
			if other := b.User(t, "mara", "acct_other"); other.ID == u.ID { // the old name is free
				t.Error("the next user of that name has the id of the renamed one")
			}
			if again := must.Get(a.RenameUser(ctx, u.Subject(), "MAREN"))(t); again.Username != "MAREN" || again.Canonical != "maren" {
				t.Errorf("RenameUser(other case) = %+v", again)
			}
			if _, err := a.CheckAll(ctx); err != nil {
				t.Errorf("CheckAll() = %v", err)
			}
		})
	})
	t.Run("a_name_is_not_taken_twice", func(t *testing.T) {
		ctx := t.Context()
		g := parallelGrant(t)
		g.User(t, "Zo\u00eb", "acct_other")
		before := everything(t, g.DB)
		for _, name := range []string{"Zo\u00eb", "ZO\u00cb", "zoe\u0308", " zo\u00eb\t"} {
			_, err := g.RenameUser(ctx, "mara", name)
			refused(t, "RenameUser("+name+")", err, record.ErrExists)
			_, _, err = g.CreateUser(ctx, store.UserSpec{Username: name, Account: "acct_larkspur", Code: true})
			refused(t, "CreateUser("+name+")", err, record.ErrExists)
		}
		idLike := g.user.Subject()
		for _, name := range []string{idLike, strings.ToUpper(idLike), "no body", "", "\u3164"} {
			var bad *record.InvalidError
			if _, err := g.RenameUser(ctx, "mara", name); !errors.As(err, &bad) || bad.Field != "username" {
				t.Errorf("RenameUser(%q) = %v, want username refused", name, err)
			}
			if _, _, err := g.CreateUser(ctx, store.UserSpec{Username: name, Account: "acct_larkspur", Code: true}); !errors.As(err, &bad) || bad.Field != "username" {
				t.Errorf("CreateUser(%q) = %v, want username refused", name, err)
			}
		}
		_, err := g.RenameUser(ctx, "moira", "maren")
		refused(t, "RenameUser(unknown)", err, record.ErrNotFound)
		if after := everything(t, g.DB); len(after) != len(before) {
			t.Error("a refused name has changed something")
		}
		_, err = g.AuthenticateUser(ctx, secret.Caller{}, idLike, storetest.Password)
		refused(t, "AuthenticateUser(by id)", err, record.ErrMismatch)
	})
	t.Run("of_two_at_once_one_wins", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			ctx := t.Context()
			a.User(t, "nils", "acct_other")
			errs := make([]error, 2)
			var both sync.WaitGroup
			both.Go(func() { _, errs[0] = a.RenameUser(ctx, "mara", "Maren") })
			both.Go(func() { _, errs[1] = b.RenameUser(ctx, "nils", "MAREN") })
			both.Wait()
			won := slices.IndexFunc(errs, func(err error) bool { return err == nil })
			if won < 0 {
				t.Fatalf("RenameUser() = %v, want one renamed", errs)
			}
			refused(t, "the other RenameUser()", errs[1-won], record.ErrExists)
			if _, err := a.CheckAll(ctx); err != nil {
				t.Errorf("CheckAll() = %v", err)
			}
		})
	})
	// The old name may be another user's by then.
	t.Run("a_deletion_in_the_meantime_takes_the_name_that_the_user_has", func(t *testing.T) {
		ctx := t.Context()
		g := parallelGrant(t)
		g.Rest()
		other, steps := g.Reopened(t), 0
		g.Faults.OnUpdate(func(run func() error) error {
			if steps++; steps == 2 {
				must.Get(other.RenameUser(ctx, "mara", "maren"))(t)
				_, _, err := other.CreateUser(ctx, store.UserSpec{Username: "mara", Account: "acct_other", Code: true})
				must.Do(t, err)
			}
			return run()
		})
		must.Do(t, g.DeleteUser(ctx, "mara"))
		g.Faults.Repair()
		if u, err := g.FindUser(ctx, "mara"); err != nil || u.Account != "acct_other" {
			t.Errorf("FindUser(old name) = %+v, %v; want the other user", u, err)
		}
		_, err := g.FindUser(ctx, "maren")
		refused(t, "FindUser(new name)", err, record.ErrNotFound)
		if _, err := g.CheckAll(ctx); err != nil || steps < 2 {
			t.Errorf("CheckAll() = %v after %d steps", err, steps)
		}
	})
}

// Promise (Platform §3): the users of an account are found by an index, in the order of their ids: a
// walk during renames misses and repeats nobody
func TestListUsersByID(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		ctx := t.Context()
		want := map[string][]string{"": {a.user.Subject()}, "acct_larkspur": {a.user.Subject()}}
		for _, name := range []string{"ida", "ole", "per", "una", "vera", "wim"} {
			account := []string{"acct_larkspur", "acct_larkspur-2"}[len(want[""])%2]
			id := a.User(t, name, account).Subject()
			want[account], want[""] = append(want[account], id), append(want[""], id)
		}
		for account, ids := range want {
			slices.Sort(ids)
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				page := must.Get(b.ListUsersByID(ctx, account, after, 2))(t)
				if len(page) == 0 {
					break
				}
				for _, u := range page {
					got = append(got, u.Subject())
					must.Get(a.RenameUser(ctx, u.Subject(), "a-"+u.Username))(t)
				}
			}
			if !equal(got, ids) {
				t.Errorf("account %q has %q, want %q", account, got, ids)
			}
		}
		for _, account := range []string{"acct_none", "acct_larkspur-", "NO/ACCOUNT", "a\x00b"} {
			if page, err := b.ListUsersByID(ctx, account, "", 9); err != nil || len(page) > 0 {
				t.Errorf("account %q has %v, %v; want nobody", account, page, err)
			}
		}
		var bad *record.InvalidError
		if _, err := b.ListUsersByID(ctx, "", "mara", 9); !errors.As(err, &bad) || bad.Field != "after" {
			t.Errorf("ListUsersByID(after a name) = %v", err)
		}
		must.Do(t, a.DeleteUser(ctx, want["acct_larkspur"][0]))
		if page := must.Get(b.ListUsersByID(ctx, "acct_larkspur", "", 9))(t); len(page) != len(want["acct_larkspur"])-1 {
			t.Errorf("%d users after a deletion", len(page))
		}
	})
}

// The list of an account's users is not found among those of all accounts.
func TestUsersOfAnAccountAreNotSearchedFor(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	db := &scanned{DB: storetest.EmptyInMemory()}
	f := storetest.Open(t, db, clock)
	f.User(t, "bob", "acct_a")
	f.User(t, "eve", "acct_b")
	db.lows = nil
	must.Get(f.ListUsersByID(t.Context(), "acct_a", "", 9))(t)
	refused(t, "DeleteAccount(with a user)", f.DeleteAccount(t.Context(), "acct_a"), record.ErrConflict)
	for _, lo := range db.lows {
		if lo[0] == record.TagUser || lo[0] == record.TagUserName {
			t.Errorf("a scan of all users began at %q", lo)
		}
	}
	if len(db.lows) == 0 {
		t.Error("no scan was seen")
	}
}

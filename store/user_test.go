package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tollhouse/must"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.User(t, "Bob", "acct_larkspur")
	t.Run("one_person_has_one_name_in_every_spelling", func(t *testing.T) {
		for _, spelling := range []string{"Bob", "bob", "BOB", "\uff22ob"} {
			if _, err := f.CreateUser(ctx, spelling, "acct_larkspur", storetest.Password); !errors.Is(err, record.ErrExists) {
				t.Errorf("CreateUser(%q) = %v, want %v", spelling, err, record.ErrExists)
			}
		}
		f.User(t, "zo\u00eb", "acct_larkspur")
		u, err := f.FindUser(ctx, "ZOE\u0308")
		if err != nil || u.Username != "zo\u00eb" {
			t.Errorf("FindUser(decomposed) = %q, %v, want zoë", u.Username, err)
		}
	})
	t.Run("a_fixed_one_signs_in_and_a_damaged_hash_makes_none", func(t *testing.T) {
		hash := must.Get(secret.NewHasher().Hash(ctx, secret.Caller{}, storetest.Password))(t)
		if _, err := f.CreateFixedUser(ctx, "fixed", "acct_larkspur", hash[:len(hash)-1]); err == nil {
			t.Error("CreateFixedUser(damaged hash) = nil, want an error")
		}
		must.Get(f.CreateFixedUser(ctx, "fixed", "acct_larkspur", hash))(t)
		if u, err := f.AuthenticateUser(ctx, secret.Caller{}, "Fixed", storetest.Password); err != nil || u.Account != "acct_larkspur" {
			t.Errorf("AuthenticateUser() = %q, %v, want acct_larkspur", u.Account, err)
		}
		if _, err := f.CreateFixedUser(ctx, "FIXED", "acct_larkspur", hash); !errors.Is(err, record.ErrExists) {
			t.Errorf("CreateFixedUser() again = %v, want %v", err, record.ErrExists)
		}
	})
	t.Run("what_is_refused_names_its_field", func(t *testing.T) {
		cases := []struct{ name, username, account, password, wantField string }{
			{"empty_name", "", "acct", storetest.Password, "username"},
			{"name_with_space", "bob smith", "acct", storetest.Password, "username"},
			{"name_with_nul", "bob\x00", "acct", storetest.Password, "username"},
			{"name_too_long", strings.Repeat("a", 129), "acct", storetest.Password, "username"},
			{"account_in_upper_case", "carol", "Acct", storetest.Password, "account"},
			{"account_with_nul", "carol", "a\x00b", storetest.Password, "account"},
			{"password_of_eleven", "carol", "acct", strings.Repeat("p", 11), "password"},
			{"password_of_1025", "carol", "acct", strings.Repeat("p", 1025), "password"},
		}
		before := f.CountAll(t)
		for _, c := range cases {
			_, err := f.CreateUser(ctx, c.username, c.account, c.password)
			var bad *record.InvalidError
			if !errors.As(err, &bad) || bad.Field != c.wantField || bad.Hint == "" {
				t.Errorf("%s: CreateUser() = %v, want an InvalidError with a hint for %s", c.name, err, c.wantField)
			}
		}
		if n := f.CountAll(t); n != before {
			t.Errorf("refused users left %d records, want none", n-before)
		}
	})
}

func TestAuthenticateUser(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	long := strings.Repeat("p", 1024)
	must.Get(g.CreateUser(ctx, "long", "acct_larkspur", long))(t)
	cases := []struct {
		name, username, password string
		want                     error
	}{
		{"right", "mara", storetest.Password, nil},
		{"in_another_spelling", "MARA", storetest.Password, nil},
		{"wrong", "mara", storetest.Password + "x", record.ErrMismatch},
		{"unknown", "moira", storetest.Password, record.ErrMismatch},
		{"invalid_name", "no body", storetest.Password, record.ErrMismatch},
		{"empty", "mara", "", record.ErrMismatch},
		{"of_1024_whole", "long", long, nil},
		{"of_1024_cut_by_one", "long", long[1:], record.ErrMismatch},
		{"of_1025", "long", long + "p", record.ErrMismatch},
		{"of_1025_for_an_unknown_name", "moira", long + "p", record.ErrMismatch},
	}
	for _, c := range cases {
		if _, err := g.AuthenticateUser(ctx, secret.Caller{}, c.username, c.password); !errors.Is(err, c.want) {
			t.Errorf("%s: AuthenticateUser() = %v, want %v", c.name, err, c.want)
		}
	}
	must.Get(g.DisableUser(ctx, "mara"))(t)
	_, err := g.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
	refused(t, "disabled: AuthenticateUser()", err, record.ErrMismatch)
}

func TestSetPassword(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	must.Get(g.SetPassword(ctx, "Mara", "another long phrase"))(t)
	_, err := g.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
	refused(t, "AuthenticateUser(old password)", err, record.ErrMismatch)
	if _, err := g.AuthenticateUser(ctx, secret.Caller{}, "mara", "another long phrase"); err != nil {
		t.Errorf("AuthenticateUser(new password) = %v, want nil", err)
	}
	_, err = g.SetPassword(ctx, "unknown", "another long phrase")
	refused(t, "SetPassword(unknown)", err, record.ErrNotFound)
}

func TestDeleteUserLeavesNothing(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	g.mustRefresh(t, g.first)
	g.issue(t, store.ScopeEventsRead)
	must.Do(t, g.DeleteUser(ctx, "mara"))
	for _, tag := range "uUsSfW" {
		if n := g.Count(t, byte(tag)); n != 0 {
			t.Errorf("%d records of kind %c are left, want none", n, tag)
		}
	}
	refused(t, "DeleteUser() again", g.DeleteUser(ctx, "mara"), record.ErrNotFound)
	g.User(t, "mara", "acct_larkspur") // the name is free again
	if g.accessLives(t, g.first) {
		t.Error("a token of the deleted user lives under the new one of that name")
	}
}

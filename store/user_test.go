package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.User(t, "Bob", "acct_larkspur")
	t.Run("one_person_has_one_name_in_every_spelling", func(t *testing.T) {
		for _, spelling := range []string{"Bob", "bob", "BOB", "\uff22ob"} {
			if _, _, err := f.CreateUser(ctx, store.UserSpec{Username: spelling, Account: "acct_larkspur", Password: storetest.Password}); !errors.Is(err, record.ErrExists) {
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
		if _, err := f.CreateFixedUser(ctx, store.UserSpec{Username: "fixed", Account: "acct_larkspur"}, hash[:len(hash)-1]); err == nil {
			t.Error("CreateFixedUser(damaged hash) = nil, want an error")
		}
		must.Get(f.CreateFixedUser(ctx, store.UserSpec{Username: "fixed", Account: "acct_larkspur"}, hash))(t)
		if u, err := f.AuthenticateUser(ctx, secret.Caller{}, "Fixed", storetest.Password); err != nil || u.Account != "acct_larkspur" {
			t.Errorf("AuthenticateUser() = %q, %v, want acct_larkspur", u.Account, err)
		}
		if _, err := f.CreateFixedUser(ctx, store.UserSpec{Username: "FIXED", Account: "acct_larkspur"}, hash); !errors.Is(err, record.ErrExists) {
			t.Errorf("CreateFixedUser() again = %v, want %v", err, record.ErrExists)
		}
	})
	t.Run("what_is_refused_names_its_field", func(t *testing.T) {
		cases := []struct{ name, username, account, password, wantField string }{
			{"empty_name", "", "acct", storetest.Password, "username"},
			{"name_with_space", "bob smith", "acct", storetest.Password, "username"},
			{"name_with_nul", "bob\x00", "acct", storetest.Password, "username"},
			{"name_too_long", strings.Repeat("a", 129), "acct", storetest.Password, "username"},
			{"name_like_an_id", "usr_" + strings.Repeat("0", 26), "acct", storetest.Password, "username"},
			{"name_like_an_id_in_capitals", "USR_" + strings.Repeat("0", 25) + "A", "acct", storetest.Password, "username"},
			{"account_in_upper_case", "carol", "Acct", storetest.Password, "account"},
			{"account_with_nul", "carol", "a\x00b", storetest.Password, "account"},
			{"password_of_eleven", "carol", "acct", strings.Repeat("p", 11), "password"},
			{"password_of_1025", "carol", "acct", strings.Repeat("p", 1025), "password"},
		}
		before := f.CountAll(t)
		for _, c := range cases {
			_, _, err := f.CreateUser(ctx, store.UserSpec{Username: c.username, Account: c.account, Password: c.password})
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
	_, _, err := g.CreateUser(ctx, store.UserSpec{Username: "long", Account: "acct_larkspur", Password: long})
	must.Do(t, err)
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
	_, err = g.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
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
	g.signIn(t, secret.Token{})
	must.Do(t, g.DeleteUser(ctx, "mara"))
	for _, tag := range "uUsSfWi" {
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

// Promise (Browsers): operators, codes for a new password, start page, name and logo
func TestOperatorRole(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	session := g.signIn(t, secret.Token{})
	seen := func() bool {
		t.Helper()
		return must.Get(g.FindSession(ctx, session))(t).User.Operator
	}
	if seen() {
		t.Error("a user is an operator without a promotion")
	}
	t.Run("a_live_session_has_it_from_the_promotion_to_the_demotion", func(t *testing.T) {
		for range 2 { // a repetition changes nothing
			if u, err := g.PromoteUser(ctx, "MARA"); err != nil || !u.Operator || !seen() {
				t.Errorf("PromoteUser() = %t, %v, want an operator whose session is one's", u.Operator, err)
			}
		}
		for range 2 {
			if u, err := g.DemoteUser(ctx, "Mara"); err != nil || u.Operator || seen() {
				t.Errorf("DemoteUser() = %t, %v, want an ordinary user", u.Operator, err)
			}
		}
	})
	t.Run("it_survives_other_changes_and_ends_nothing", func(t *testing.T) {
		must.Get(g.PromoteUser(ctx, "mara"))(t)
		if !g.accessLives(t, g.first) || !g.sessionLives(session) {
			t.Error("the promotion ended a token or a session")
		}
		must.Get(g.DisableUser(ctx, "mara"))(t)
		must.Get(g.EnableUser(ctx, "mara"))(t)
		must.Get(g.SetPassword(ctx, "mara", "another long phrase"))(t)
		users := must.Get(g.ListUsers(ctx, "", 10))(t)
		if len(users) != 1 || !users[0].Operator {
			t.Errorf("ListUsers() = %+v, want one operator", users)
		}
	})
	t.Run("it_can_be_given_at_the_creation", func(t *testing.T) {
		u, _, err := g.CreateUser(ctx, store.UserSpec{Username: "olga", Account: "acct_larkspur", Password: storetest.Password, Operator: true})
		if err != nil || !u.Operator {
			t.Errorf("CreateUser(operator) = %t, %v", u.Operator, err)
		}
		if found := must.Get(g.FindUser(ctx, "olga"))(t); !found.Operator {
			t.Error("FindUser() has no operator")
		}
	})
	t.Run("an_unknown_user_is_neither_promoted_nor_demoted", func(t *testing.T) {
		_, err := g.PromoteUser(ctx, "moira")
		refused(t, "PromoteUser(unknown)", err, record.ErrNotFound)
		_, err = g.DemoteUser(ctx, "moira")
		refused(t, "DemoteUser(unknown)", err, record.ErrNotFound)
	})
}

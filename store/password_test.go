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

const newPassword = "another long phrase"

// changing returns the proof of the current password that a change needs.
func (g grant) changing(t testing.TB, session secret.Token, endAll bool) store.PasswordChange {
	t.Helper()
	u := must.Get(g.AuthenticateUser(context.Background(), secret.Caller{}, "mara", storetest.Password))(t)
	return store.PasswordChange{User: u, Session: session, New: newPassword, EndAll: endAll, By: store.By{RequestID: "req_1"}}
}

// A password whose hash has older parameters gets a new hash when it is next proved right,
// and the sign-in does not depend on it.
func TestOldPasswordHashIsRenewed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	old := must.Get(secret.NewQuickHasher().Hash(ctx, secret.Caller{}, storetest.Password))(t)
	f := storetest.New(t, storetest.FullHashes)
	must.Get(f.CreateFixedUser(ctx, store.UserSpec{Username: "mara", Account: "acct_larkspur"}, old))(t)
	stored := func() string {
		for key, value := range contents(t, f.DB) {
			if key[0] == record.TagUser {
				return value
			}
		}
		return ""
	}
	signIn := func(password string) (store.User, error) {
		return f.AuthenticateUser(ctx, secret.Caller{}, "mara", password)
	}
	if _, err := signIn("wrong"); !errors.Is(err, record.ErrMismatch) || !strings.Contains(stored(), old) {
		t.Errorf("a wrong password: %v, and the hash was changed: %t", err, !strings.Contains(stored(), old))
	}
	f.CutAt(0, false)
	if u, err := signIn(storetest.Password); err != nil || u.Username != "mara" || !strings.Contains(stored(), old) {
		t.Errorf("where the hash cannot be stored: %v, want a sign-in", err)
	}
	f.Faults.Repair()
	u, err := signIn(storetest.Password)
	if err != nil || strings.Contains(stored(), old) {
		t.Errorf("the old hash is still stored after %v", err)
	}
	session, _, err := f.CreateSession(ctx, store.By{}, u, secret.Token{}, "")
	must.Do(t, err)
	if _, _, err = f.ChangePassword(ctx, store.PasswordChange{User: u, Session: session, New: newPassword}); err != nil {
		t.Errorf("the user that the sign-in returned cannot change the password: %v", err)
	}
	must.Get(signIn(newPassword))(t)
}

// TestPasswordTypedAnotherWay: a hash of what was typed is renewed at a sign-in, and then
// every keyboard's spelling signs in. The bounds are those of the compared form.
//
// Promise (RFC 6749 §4): a password is one however a keyboard composes it; a hash of what was typed
// still matches; the cost is the same for every name
func TestPasswordTypedAnotherWay(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	const typed, composed = "cafe\u0301 cafe\u0301 tea", "caf\u00e9\u00a0caf\u00e9 tea"
	const ofTyped = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$TSOuq7RR8lUm6yON8MgKwQAzW9uXqjRJlOQXuIuLLqs"
	must.Get(g.CreateFixedUser(ctx, store.UserSpec{Username: "nils", Account: "acct_larkspur"}, ofTyped))(t)
	signsIn := func(name, password string) error {
		_, err := g.AuthenticateUser(ctx, secret.Caller{}, name, password)
		return err
	}
	refused(t, "composed, before", signsIn("nils", composed), record.ErrMismatch)
	must.Do(t, signsIn("nils", typed))
	must.Do(t, signsIn("nils", composed))
	must.Do(t, signsIn("nils", typed))
	must.Get(g.SetPassword(ctx, "nils", "na\u00efve \u3000 na\u00efve"))(t)
	must.Do(t, signsIn("nils", "nai\u0308ve   nai\u0308ve"))
	for n, want := range map[string]bool{strings.Repeat("e\u0301", 5): false, strings.Repeat("e\u0301", 6): true, strings.Repeat("e\u0301", 512): true, strings.Repeat("e\u0301", 513): false, strings.Repeat("\u3000", 11): false} {
		if err := store.CheckPassword(n); (err == nil) != want {
			t.Errorf("CheckPassword of %d bytes = %v, want one that is taken: %t", len(n), err, want)
		}
	}
	long := strings.Repeat("\u00e9", 512)
	_, _, err := g.CreateUser(ctx, store.UserSpec{Username: "long", Account: "acct_larkspur", Password: long})
	must.Do(t, err)
	must.Do(t, signsIn("long", strings.Repeat("e\u0301", 512)))
}

func TestChangePassword(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		endAll bool
		reason string
	}{
		"ends_everything_else":            {true, "everything else ended"},
		"or_leaves_everything_else_alone": {false, "other sign-ins and tokens are kept"},
	} {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			here, elsewhere, code := g.signIn(t, secret.Token{}), g.signIn(t, secret.Token{}), g.allow(t, "")
			fresh, _, err := g.ChangePassword(ctx, g.changing(t, here, c.endAll))
			must.Do(t, err)
			if g.sessionLives(here) || !g.sessionLives(fresh) {
				t.Error("the old session id lives or the new one does not, want the reverse")
			}
			if got := g.sessionLives(elsewhere); got == c.endAll {
				t.Errorf("another browser is signed in: %v, want %v", got, !c.endAll)
			}
			if got := g.accessLives(t, g.first); got == c.endAll {
				t.Errorf("the access token lives: %v, want %v", got, !c.endAll)
			}
			if _, err := g.refresh(g.first); (err == nil) == c.endAll {
				t.Errorf("RotateRefresh() = %v, want a refusal: %v", err, c.endAll)
			}
			if _, err := g.redeem(code, ""); (err == nil) == c.endAll {
				t.Errorf("RedeemCode() = %v, want a refusal: %v", err, c.endAll)
			}
			_, err = g.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password)
			refused(t, "AuthenticateUser(old password)", err, record.ErrMismatch)
			if _, err := g.AuthenticateUser(ctx, secret.Caller{}, "mara", newPassword); err != nil {
				t.Errorf("AuthenticateUser(new password) = %v, want nil", err)
			}
			lines := auditOf(t, g.Fixture, store.AuditPasswordChanged)
			if len(lines) != 1 || lines[0].Reason != c.reason || lines[0].UserID != g.user.Subject() || lines[0].RequestID != "req_1" {
				t.Errorf("audit lines %+v, want one that says whose and what ended", lines)
			}
		})
	}
}

// TestChangePasswordRefused: the proof must still hold when the change is written.
func TestChangePasswordRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cases := map[string]func(t *testing.T, g grant, c *store.PasswordChange) error{
		"to_a_sign_in_that_was_ended": func(_ *testing.T, g grant, c *store.PasswordChange) error { return g.DeleteSession(ctx, c.Session) },
		"to_a_sign_in_that_expired": func(_ *testing.T, g grant, _ *store.PasswordChange) error {
			g.Clock.Advance(lives.SessionIdle)
			return nil
		},
		"to_a_user_who_was_disabled": func(_ *testing.T, g grant, _ *store.PasswordChange) error {
			_, err := g.DisableUser(ctx, "mara")
			return err
		},
		"to_a_user_who_was_deleted": func(_ *testing.T, g grant, _ *store.PasswordChange) error { return g.DeleteUser(ctx, "mara") },
		"when_the_password_was_set_meanwhile": func(_ *testing.T, g grant, _ *store.PasswordChange) error {
			_, err := g.SetPassword(ctx, "mara", "a third long phrase")
			return err
		},
		"when_another_browser_changed_it_meanwhile": func(t *testing.T, g grant, _ *store.PasswordChange) error {
			other := g.changing(t, g.signIn(t, secret.Token{}), false)
			other.New = "a third long phrase"
			_, _, err := g.ChangePassword(ctx, other)
			return err
		},
		"for_another_user_than_the_one_who_is_signed_in": func(t *testing.T, g grant, c *store.PasswordChange) error {
			nils := g.User(t, "nils", "acct_larkspur")
			token, _, err := g.CreateSession(ctx, store.By{}, nils, secret.Token{}, "")
			c.Session = token
			return err
		},
	}
	for name, meanwhile := range cases {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			change := g.changing(t, g.signIn(t, secret.Token{}), false)
			must.Do(t, meanwhile(t, g, &change))
			g.unchanged(t, func() {
				_, _, err := g.ChangePassword(ctx, change)
				refused(t, "ChangePassword()", err, record.ErrDisabled)
			})
		})
	}
	t.Run("a_password_that_is_too_short_or_too_long", func(t *testing.T) {
		g := parallelGrant(t)
		change := g.changing(t, g.signIn(t, secret.Token{}), true)
		for _, n := range []int{0, secret.PasswordSizeMin - 1, secret.PasswordSizeMax + 1} {
			change.New = string(make([]byte, n))
			var invalid *record.InvalidError
			if _, _, err := g.ChangePassword(ctx, change); !errors.As(err, &invalid) {
				t.Errorf("ChangePassword(%d bytes) = %v, want an InvalidError", n, err)
			}
		}
	})
}

package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const setByCode = "a password of my own"

// redeemUserCode sets mara's password by a code.
func (g grant) redeemUserCode(code secret.Token) error {
	_, err := g.RedeemUserCode(context.Background(), store.UserCodeUse{Username: "MARA", Code: code, Password: setByCode})
	return err
}

func (g grant) signsIn(password string) bool {
	_, err := g.AuthenticateUser(context.Background(), secret.Caller{}, "mara", password)
	return err == nil
}

func (g grant) userCode(t testing.TB) secret.Token {
	t.Helper()
	_, code, err := g.CreateUserCode(context.Background(), "Mara", 0)
	must.Do(t, err)
	return code
}

// Promise (Browsers): operators, codes for a new password, start page, name and logo
func TestUserCode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("is_not_made_for_a_name_that_is_taken", func(t *testing.T) {
		g := parallelGrant(t)
		g.unchanged(t, func() {
			_, _, err := g.CreateUser(ctx, store.UserSpec{Username: "MARA", Account: "acct_other", Code: true})
			refused(t, "CreateUser(with a code)", err, record.ErrExists)
		})
	})
	t.Run("ends_when_its_user_becomes_an_operator", func(t *testing.T) {
		g := parallelGrant(t)
		code := g.userCode(t)
		must.Get(g.PromoteUser(ctx, "mara"))(t)
		refused(t, "redeem a code of before", g.redeemUserCode(code), record.ErrMismatch)
		code = g.userCode(t)
		must.Get(g.PromoteUser(ctx, "mara"))(t)
		must.Do(t, g.redeemUserCode(code)) // the machine's own
	})
	t.Run("sets_the_password_once_and_ends_everything", func(t *testing.T) {
		g := parallelGrant(t)
		session, code := g.signIn(t, secret.Token{}), g.userCode(t)
		if !g.signsIn(storetest.Password) || !g.accessLives(t, g.first) || !g.sessionLives(session) {
			t.Fatal("a code that is not redeemed ended something")
		}
		must.Do(t, g.redeemUserCode(code))
		if g.signsIn(storetest.Password) || !g.signsIn(setByCode) || g.accessLives(t, g.first) || g.sessionLives(session) {
			t.Error("after the redemption want the new password alone, and no token or session of before")
		}
		refused(t, "redeem again", g.redeemUserCode(code), record.ErrMismatch)
		reasons, _ := g.AuditReasons(t, record.Position{}, 100)
		if n := strings.Count(strings.Join(reasons, "\n"), "password set by code"); n != 1 {
			t.Errorf("the audit log has %q, want one line about the code", reasons)
		}
	})
	t.Run("expires_after_24_hours", func(t *testing.T) {
		g := parallelGrant(t)
		code := g.userCode(t)
		u := must.Get(g.FindUser(ctx, "mara"))(t)
		if left := u.CodeExpiresAt().Sub(g.Now()); left != 24*time.Hour {
			t.Errorf("the code expires in %s, want 24h", left)
		}
		g.Clock.Advance(24 * time.Hour)
		if err := g.redeemUserCode(code); !errors.Is(err, record.ErrMismatch) || !errors.Is(err, record.ErrExpired) {
			t.Errorf("RedeemUserCode(expired) = %v, want ErrMismatch and ErrExpired", err)
		}
		g.Clock.Advance(-tick)
		must.Do(t, g.redeemUserCode(code))
	})
	t.Run("expires_when_its_maker_says", func(t *testing.T) {
		g := parallelGrant(t)
		for lifetime, ok := range map[time.Duration]bool{
			time.Hour: true, 14 * 24 * time.Hour: true, time.Hour - 1: false, 14*24*time.Hour + 1: false, -time.Hour: false,
		} {
			u, _, err := g.CreateUserCode(ctx, "mara", lifetime)
			_, _, createErr := g.CreateUser(ctx, store.UserSpec{Username: "guest" + lifetime.String(), Account: "acct_larkspur", Code: true, CodeLifetime: lifetime})
			var bad *record.InvalidError
			if ok && (err != nil || createErr != nil || u.CodeExpiresAt().Sub(g.Now()) != lifetime) {
				t.Errorf("%s: it expires at %s, %v, %v", lifetime, u.CodeExpiresAt(), err, createErr)
			}
			if !ok && (!errors.As(err, &bad) || bad.Field != "code_expires_in" || !errors.As(createErr, &bad)) {
				t.Errorf("%s: %v, %v, want both refused", lifetime, err, createErr)
			}
		}
	})
	t.Run("a_user_may_wait_for_one", func(t *testing.T) {
		g := parallelGrant(t)
		u, code, err := g.CreateUser(ctx, store.UserSpec{Username: "nora", Account: "acct_larkspur", Waits: true})
		if err != nil || u.HasPassword() || !u.CodeExpiresAt().IsZero() || !code.IsZero() {
			t.Errorf("CreateUser(waits) = %+v, %v, want neither a password nor a code", u, err)
		}
		_, err = g.RedeemUserCode(ctx, store.UserCodeUse{Username: "nora", Password: setByCode})
		refused(t, "RedeemUserCode(no code)", err, record.ErrMismatch)
		for _, password := range []string{"", "a wrong password"} {
			_, err := g.AuthenticateUser(ctx, secret.Caller{}, "nora", password)
			refused(t, "AuthenticateUser()", err, record.ErrMismatch)
		}
	})
	for name, end := range map[string]func(t *testing.T, g grant){
		"a_newer_code":   func(t *testing.T, g grant) { g.userCode(t) },
		"a_new_password": func(t *testing.T, g grant) { must.Get(g.SetPassword(ctx, "mara", storetest.Password))(t) },
		"a_change_of_the_password": func(t *testing.T, g grant) {
			u := must.Get(g.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password))(t)
			token, _, err := g.CreateSession(ctx, store.By{}, u, secret.Token{}, "")
			must.Do(t, err)
			_, _, err = g.ChangePassword(ctx, store.PasswordChange{User: u, Session: token, New: "yet another phrase"})
			must.Do(t, err)
		},
		"disabling": func(t *testing.T, g grant) {
			must.Get(g.DisableUser(ctx, "mara"))(t)
			must.Get(g.EnableUser(ctx, "mara"))(t)
		},
		"disabling_the_account": func(t *testing.T, g grant) { must.Get(g.DisableAccount(ctx, "acct_larkspur"))(t) },
		"disabling_and_enabling_the_account": func(t *testing.T, g grant) {
			must.Get(g.DisableAccount(ctx, "acct_larkspur"))(t)
			must.Get(g.EnableAccount(ctx, "acct_larkspur"))(t)
		},
		"revoking_all_of_the_account": func(t *testing.T, g grant) { must.Get(g.RevokeAccount(ctx, "acct_larkspur"))(t) },
		"deletion":                    func(t *testing.T, g grant) { must.Do(t, g.DeleteUser(ctx, "mara")) },
	} {
		t.Run("ends_with_"+name, func(t *testing.T) {
			g := parallelGrant(t)
			code := g.userCode(t)
			end(t, g)
			refused(t, "RedeemUserCode()", g.redeemUserCode(code), record.ErrMismatch)
		})
	}
	t.Run("a_wrong_one_changes_nothing", func(t *testing.T) {
		g := parallelGrant(t)
		code := g.userCode(t)
		for name, wrong := range map[string]secret.Token{"none": {}, "another": secret.NewUserCode(nil)} {
			refused(t, name, g.redeemUserCode(wrong), record.ErrMismatch)
		}
		_, err := g.RedeemUserCode(ctx, store.UserCodeUse{Username: "moira", Code: code, Password: setByCode})
		refused(t, "an unknown user", err, record.ErrMismatch)
		var bad *record.InvalidError
		if _, err := g.RedeemUserCode(ctx, store.UserCodeUse{Username: "mara", Code: code, Password: "short"}); !errors.As(err, &bad) {
			t.Errorf("RedeemUserCode(short password) = %v, want an InvalidError", err)
		}
		if !g.signsIn(storetest.Password) {
			t.Error("a refused code changed the password")
		}
		must.Do(t, g.redeemUserCode(code))
	})
	t.Run("no_code_matches_a_user_who_has_none", func(t *testing.T) {
		g := parallelGrant(t)
		refused(t, "RedeemUserCode(no code)", g.redeemUserCode(secret.Token{}), record.ErrMismatch)
	})
	t.Run("of_many_redemptions_at_once_one_succeeds", func(t *testing.T) {
		g := parallelGrant(t)
		code := g.userCode(t)
		var done atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if g.redeemUserCode(code) == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		if done.Load() != 1 {
			t.Errorf("%d redemptions succeeded, want 1", done.Load())
		}
	})
	t.Run("a_user_made_by_code_signs_in_only_after_it", func(t *testing.T) {
		g := parallelGrant(t)
		u, code, err := g.CreateUser(ctx, store.UserSpec{Username: "nora", Account: "acct_larkspur", Code: true, Operator: true})
		if err != nil || u.HasPassword() || !u.Operator {
			t.Fatalf("CreateUser(with a code) = %+v, %v, want an operator without a password", u, err)
		}
		for _, password := range []string{"", "a wrong password", code.Reveal()} {
			_, err := g.AuthenticateUser(ctx, secret.Caller{}, "nora", password)
			refused(t, "AuthenticateUser() before", err, record.ErrMismatch)
		}
		must.Get(g.RedeemUserCode(ctx, store.UserCodeUse{Username: "nora", Code: code, Password: setByCode}))(t)
		if u, err := g.AuthenticateUser(ctx, secret.Caller{}, "nora", setByCode); err != nil || !u.Operator {
			t.Errorf("AuthenticateUser() after = operator %t, %v, want the operator", u.Operator, err)
		}
	})
	t.Run("none_is_made_for_a_disabled_or_unknown_user", func(t *testing.T) {
		g := parallelGrant(t)
		must.Get(g.DisableUser(ctx, "mara"))(t)
		_, _, err := g.CreateUserCode(ctx, "mara", 0)
		refused(t, "CreateUserCode(disabled)", err, record.ErrDisabled)
		_, _, err = g.CreateUserCode(ctx, "moira", 0)
		refused(t, "CreateUserCode(unknown)", err, record.ErrNotFound)
	})
}

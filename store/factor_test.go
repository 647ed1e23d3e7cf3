package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// codeOf is what an authenticator app shows at a time.
func codeOf(t testing.TB, app secret.AppSecret, at time.Time) string {
	t.Helper()
	return must.Get(hotp.GenerateCodeCustom(app.Reveal(), secret.AppStep(at), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}))(t)
}

// setsUpApp sets up an app for a user, who is signed in after it, and returns the recovery codes.
func setsUpApp(t testing.TB, f *storetest.Fixture, name string) (codes []secret.Token, session secret.Token, app secret.AppSecret) {
	t.Helper()
	ctx := context.Background()
	u := must.Get(f.FindUser(ctx, name))(t)
	old, _, err := f.CreateSession(ctx, store.By{}, u, secret.Token{}, "")
	must.Do(t, err)
	app = secret.NewAppSecret(nil)
	done := must.Get(f.SetApp(ctx, store.FactorChange{Session: old, User: u, Revision: u.FactorRevision()}, app, secret.AppStep(f.Now())-1))(t)
	return done.RecoveryCodes, done.Session, app
}

// answerStep answers the second step of a sign-in of mara.
func answerStep(t testing.TB, s *store.Store, proof store.FactorProof, change ...func(*store.FactorUse)) error {
	t.Helper()
	use := store.FactorUse{Step: s.NewSecondStep(must.Get(s.FindUser(context.Background(), "mara"))(t)), Proof: proof}
	for _, f := range change {
		f(&use)
	}
	_, _, err := s.UseFactor(context.Background(), use)
	return err
}

func uncounted(use *store.FactorUse) { use.Uncounted = true }

// Promise (Guard §4): X2, of 64 wrong codes at once five are judged, and a kill resets nothing
func TestWrongCodesAreCountedInTheRecord(t *testing.T) {
	t.Parallel()
	house := storetest.NewHouse(t)
	var app secret.AppSecret
	house.Enter(func(f *storetest.Fixture) {
		f.User(t, "mara", "acct_larkspur")
		_, _, app = setsUpApp(t, f, "mara")
		var wg sync.WaitGroup
		var mu sync.Mutex
		judged := 0
		for range 64 {
			wg.Go(func() {
				err := answerStep(t, f.Store, store.FactorProof{Code: "12345"}) // never right
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, record.ErrMismatch) {
					judged++
				} else if _, early := errors.AsType[*store.EarlyFactor](err); !early {
					t.Errorf("UseFactor() = %v, want a refusal", err)
				}
			})
		}
		wg.Wait()
		if judged != 5 {
			t.Errorf("%d wrong codes were judged, want 5", judged)
		}
	})
	house.Crash(t)
	house.Enter(func(f *storetest.Fixture) {
		err := answerStep(t, f.Store, store.FactorProof{Code: codeOf(t, app, f.Now())})
		if early, is := errors.AsType[*store.EarlyFactor](err); !is || early.Wait != time.Minute {
			t.Errorf("after a kill: %v, want to wait a minute", err)
		}
	})
}

// Promise (Guard §4): three steps count, none at or before the last; ten refused in a row are told once
func TestStepsOfAnApp(t *testing.T) {
	g := parallelGrant(t)
	_, _, app := setsUpApp(t, g.Fixture, "mara")
	told := 0
	g.OnHappening(func(h store.Happening) {
		if h.Alarm == store.HappenedGuessing && h.Subject == g.user.Subject() {
			told++
		}
	})
	reason := func(offset time.Duration) string {
		err := answerStep(t, g.Store, store.FactorProof{Code: codeOf(t, app, g.Now().Add(offset))}, uncounted)
		if refused, is := errors.AsType[*store.RefusedFactor](err); is {
			return refused.Reason
		}
		must.Do(t, err)
		return ""
	}
	for _, c := range []struct {
		offset time.Duration
		want   string
	}{
		{-60 * time.Second, store.CodeOfAnotherTime}, {60 * time.Second, store.CodeOfAnotherTime}, {-30 * time.Second, store.UsedAppCode},
		{-10 * time.Minute, store.CodeOfAnotherTime}, {-20 * time.Minute, store.WrongAppCode},
		{30 * time.Second, ""}, {30 * time.Second, store.UsedAppCode}, {0, store.UsedAppCode},
	} {
		if got := reason(c.offset); got != c.want {
			t.Errorf("a code of %s from now: %q, want %q", c.offset, got, c.want)
		}
	}
	g.Clock.Advance(-time.Hour)
	if got := reason(0); got != "" {
		t.Errorf("after a clock that was an hour fast: %q, want no refusal", got)
	}
	for range 25 {
		_ = answerStep(t, g.Store, store.FactorProof{Code: "12345"}, uncounted)
	}
	if told != 1 {
		t.Errorf("25 refused codes were told %d times, want once", told)
	}
}

// Promise (Guard §2, §3): every change of the second factor ends other sign-ins and unredeemed codes
func TestAChangeOfTheFactorEndsTheRest(t *testing.T) {
	g := parallelGrant(t)
	ctx := context.Background()
	other := g.signIn(t, secret.Token{})
	code := g.allow(t, "")
	codes, session, app := setsUpApp(t, g.Fixture, "mara")
	if g.sessionLives(other) || !g.sessionLives(session) {
		t.Error("the other sign-in lives, or that of this browser does not")
	}
	if _, err := g.redeem(code, ""); !errors.Is(err, record.ErrDisabled) {
		t.Errorf("a code of before = %v, want a refusal", err)
	}
	if _, err := g.refresh(g.first); err != nil {
		t.Errorf("a refresh = %v; without end_all tokens stay", err)
	}
	if _, _, err := g.CreateSession(ctx, store.By{}, must.Get(g.FindUser(ctx, "mara"))(t), secret.Token{}, ""); !errors.Is(err, record.ErrDisabled) {
		t.Errorf("a session without the second factor = %v, want a refusal", err)
	}
	must.Do(t, answerStep(t, g.Store, store.FactorProof{Recovery: codes[3].Reveal()}))
	lines := must.Get(g.ListAudit(ctx, record.Position{}, 99))(t)
	if last := lines[len(lines)-1]; last.What != store.AuditLogin || last.Amr != store.AmrCode {
		t.Errorf("the last audit line is %+v, want a sign-in with a second factor", last)
	}
	must.Get(g.ResetSecondFactor(ctx, "mara"))(t)
	if g.sessionLives(session) || must.Get(g.FindUser(ctx, "mara"))(t).HasFactor() {
		t.Error("a reset leaves the factor or a sign-in")
	}
	if answerStep(t, g.Store, store.FactorProof{Code: codeOf(t, app, g.Now())}) == nil {
		t.Error("a code of the app that was taken away is right")
	}
}

// Promise (Guard §6): with another server key no code is right, recovery codes work, the old key repairs all
func TestAnotherServerKey(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	f.User(t, "mara", "acct_larkspur")
	codes, _, app := setsUpApp(t, f, "mara")
	other := f.Reopened(t, func(o *store.Options) { o.Key = secret.NewKey(nil) })
	found := must.Get(other.FindFactor(t.Context(), must.Get(other.FindUser(t.Context(), "mara"))(t)))(t)
	if !found.App || found.AppOpens {
		t.Errorf("FindFactor() = %+v, want an app that does not open", found)
	}
	right := store.FactorProof{Code: codeOf(t, app, f.Now())}
	if refused, is := errors.AsType[*store.RefusedFactor](answerStep(t, other, right)); !is || refused.Reason != store.CodeUncheckable {
		t.Errorf("a right code under another key: %v", refused)
	}
	must.Do(t, answerStep(t, other, store.FactorProof{Recovery: codes[0].Reveal()}))
	must.Do(t, answerStep(t, f.Reopened(t), right))
}

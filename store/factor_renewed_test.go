package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestRenewedHashIsTheSamePassword: a password that gets a new hash when it is used ends no count of
// wrong codes; another password does.
func TestRenewedHashIsTheSamePassword(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.ImportUser(t, "mara", "acct_larkspur", oldCheap)
	_, app := f.SetUpApp(t, "mara")
	try := func(want any) {
		t.Helper()
		u := must.Get(f.FindUser(ctx, "mara"))(t)
		_, _, err := f.UseFactor(ctx, store.FactorUse{Step: f.NewSecondStep(u), Proof: store.FactorProof{Code: wrongCode(app, f.Clock.Now())}})
		if !errors.As(err, want) {
			t.Fatalf("a wrong code = %v, want %T", err, want)
		}
	}
	for range 5 {
		try(new(*store.RefusedFactor))
	}
	must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "mara", oldPassword))(t)
	try(new(*store.EarlyFactor))
	must.Get(f.SetPassword(ctx, "mara", "another long phrase"))(t)
	try(new(*store.RefusedFactor))
}

// wrongCode is not the code of a step nearby.
func wrongCode(app secret.AppSecret, now time.Time) string {
	for _, code := range []string{"000000", "111111", "222222", "333333"} {
		if _, right := app.FindStep(code, secret.AppStep(now), 2); !right {
			return code
		}
	}
	panic("four codes are right")
}

package storetest

import (
	"context"
	"testing"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// SetUpApp gives a user an authenticator app while signing in. Its code of now is spent.
func (f *Fixture) SetUpApp(t testing.TB, name string) (store.FactorChanged, secret.AppSecret) {
	t.Helper()
	u := must.Get(f.FindUser(context.Background(), name))(t)
	app := secret.NewAppSecret(nil)
	done := must.Get(f.SetApp(context.Background(), store.FactorChange{Step: f.NewSecondStep(u), User: u, Revision: u.FactorRevision()}, app, secret.AppStep(f.Clock.Now())))(t)
	return done, app
}

// SetUpPasskey gives a user a passkey while signing in.
func (f *Fixture) SetUpPasskey(t testing.TB, name string, p store.Passkey) store.FactorChanged {
	t.Helper()
	u := must.Get(f.FindUser(context.Background(), name))(t)
	return must.Get(f.AddPasskey(context.Background(), store.FactorChange{Step: f.NewSecondStep(u), User: u, Revision: u.FactorRevision()}, p))(t)
}

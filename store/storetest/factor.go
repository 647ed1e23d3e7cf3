package storetest

import (
	"context"
	"testing"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// SetUpApp gives a user an authenticator app, whose code of now is spent.
func (f *Fixture) SetUpApp(t testing.TB, name string) (u store.User, app secret.AppSecret, codes []secret.Token) {
	t.Helper()
	u = must.Get(f.FindUser(context.Background(), name))(t)
	app = secret.NewAppSecret(nil)
	done := must.Get(f.SetApp(context.Background(), store.FactorChange{Step: f.NewSecondStep(u), User: u, Revision: u.FactorRevision()}, app, secret.AppStep(f.Clock.Now())))(t)
	return done.User, app, done.RecoveryCodes
}

// AddPasskey gives a user a passkey whose key nobody has.
func (f *Fixture) AddPasskey(t testing.TB, name string, p store.Passkey) (u store.User, codes []secret.Token) {
	t.Helper()
	u = must.Get(f.FindUser(context.Background(), name))(t)
	done := must.Get(f.Store.AddPasskey(context.Background(), store.FactorChange{Step: f.NewSecondStep(u), User: u, Revision: u.FactorRevision()}, p))(t)
	return done.User, done.RecoveryCodes
}

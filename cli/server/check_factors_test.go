package server

import (
	"strings"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Guard §5): doctor counts the users who have passkeys of another host alone
func TestDoctorCountsFactors(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	s := r.data().Store
	add := func(name string, rpIDs ...string) store.User {
		u, _, err := s.CreateUser(t.Context(), store.UserSpec{Username: name, Account: "acct_one", Password: storetest.Password})
		must.Do(t, err)
		for _, rpID := range rpIDs {
			c := store.FactorChange{Step: s.NewSecondStep(u), User: u, Revision: u.FactorRevision()}
			u = must.Get(s.AddPasskey(t.Context(), c, store.Passkey{ID: []byte(rpID), Key: []byte("key"), Name: "key", RPID: rpID}))(t).User
		}
		return u
	}
	found := func() (f admin.Finding) {
		checkup{data: r.data(), server: r}.run(t.Context(), false, func(of admin.Finding) {
			if of.Check == "second-factor" {
				f = of
			}
		})
		return f
	}
	add("here", "localhost")
	add("both", "old.example", "localhost")
	if f := found(); f != (admin.Finding{}) {
		t.Errorf("finding = %+v, want none", f)
	}
	add("elsewhere", "old.example")
	if f := found(); f.State != admin.StateWarning || f.Detail != "1 user has only passkeys of another host than localhost" || !strings.Contains(f.Next, "recovery code") {
		t.Errorf("finding = %+v, want one user", f)
	}
	add("elsewhere-too", "old.example", "older.example")
	u := add("with-an-app", "old.example")
	c := store.FactorChange{Step: s.NewSecondStep(u), User: u, Revision: u.FactorRevision()}
	must.Get(s.SetApp(t.Context(), c, secret.NewAppSecret(nil), 1))(t)
	if f := found(); f.Detail != "2 users have only passkeys of another host than localhost" {
		t.Errorf("finding = %+v, want two users", f)
	}
}

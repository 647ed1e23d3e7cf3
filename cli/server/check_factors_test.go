package server

import (
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/desk"
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
		checkup{data: r.data(), server: r}.run(t.Context(), admin.DepthUsual, func(of admin.Finding) {
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

// Promise (Guard §6): doctor warns of operators without a second factor if the desk answers beyond
// loopback
func TestDoctorCountsOperatorsWithoutAFactor(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	s := r.data().Store
	for _, name := range []string{"olga", "nils", "ines"} {
		_, _, err := s.CreateUser(t.Context(), store.UserSpec{Username: name, Account: "acct_one", Password: storetest.Password, Operator: name != "ines"})
		must.Do(t, err)
	}
	found := func() (details string) {
		checkup{data: r.data(), server: r, report: func(f admin.Finding) {
			if f.Check != "second-factor" || f.State != admin.StateWarning || f.Next == "" {
				t.Errorf("finding = %+v, want a warning with a next step", f)
			}
			details += f.Detail
		}}.factors(t.Context(), admin.DepthUsual)
		return details
	}
	const two, one = "the desk answers beyond this machine, and 2 operators have no second factor", "the desk answers beyond this machine, and 1 operator has no second factor"
	local := []string{"127.0.0.1:8080"}
	here, public := must.Get(url.Parse("http://127.0.0.1:8080"))(t), must.Get(url.Parse("https://pay.example"))(t)
	for _, c := range []struct {
		name   string
		listen []string
		public *url.URL
		desk   *desk.Config
		want   string
	}{
		{"on_loopback", local, here, &desk.Config{}, ""},
		{"on_all_addresses", append(local, "0.0.0.0:8080"), here, &desk.Config{}, two},
		{"behind_a_proxy", local, public, &desk.Config{}, two},
		{"without_the_desk", local, public, nil, ""},
	} {
		r.config.listen, r.config.desk = c.listen, c.desk
		r.server().Site.SetPublicURL(c.public) // as `config set` does on a database
		if got := found(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	r.config.desk = &desk.Config{}
	u := must.Get(s.FindUser(t.Context(), "nils"))(t)
	must.Get(s.SetApp(t.Context(), store.FactorChange{Step: s.NewSecondStep(u), User: u}, secret.NewAppSecret(nil), 1))(t)
	if got := found(); got != one {
		t.Errorf("after one was set up: %q, want %q", got, one)
	}
	must.Get(s.DisableUser(t.Context(), "olga"))(t)
	if got := found(); got != "" {
		t.Errorf("of a disabled operator: %q, want none", got)
	}
}

// Promise (Guard §7, §8, §9): what takes a read of all users is read anew every ten minutes at most for
// the desk and the metrics, and is not sent; doctor reads it at once
func TestSecondFactorFindingIsKept(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	u := checkup{data: r.data(), server: r}
	shown := func(depth admin.Depth) (found int) {
		u.run(t.Context(), depth, func(f admin.Finding) {
			if f.Check == factorsSealed.check {
				found++
			}
		})
		return found
	}
	if n := shown(admin.DepthKept); n != 0 {
		t.Fatalf("%d findings about second factors at first", n)
	}
	user := must.Get(r.data().Store.CreateFixedUser(t.Context(), store.UserSpec{Username: "mara", Account: "acct_larkspur"}, must.Get(secret.NewQuickHasher().Hash(t.Context(), secret.Caller{}, storetest.Password))(t)))(t)
	s := r.data().Store
	session, _, err := s.CreateSession(t.Context(), store.By{}, user, secret.Token{}, "")
	must.Do(t, err)
	must.Get(s.AddPasskey(t.Context(), store.FactorChange{Session: session, User: user}, store.Passkey{ID: []byte{1}, Key: []byte{2}, Name: "key", RPID: "old.example"}))(t)
	if kept, fresh := shown(admin.DepthKept), shown(admin.DepthUsual); kept != 0 || fresh != 1 {
		t.Errorf("the desk shows %d findings and doctor %d, want 0 yet and 1", kept, fresh)
	}
	r.factors.at = r.factors.at.Add(-factorsKept)
	if n := shown(admin.DepthKept); n != 1 {
		t.Errorf("ten minutes later the desk shows %d findings, want 1", n)
	}
	for _, l := range u.lasting(t.Context(), func(string) {}) {
		if l.check == factorsSealed.check && l.isSent() {
			t.Errorf("%q is sent", l.text)
		}
	}
}

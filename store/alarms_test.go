package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// heard are the happenings of a store, as "alarm subject".
func heard(f *storetest.Fixture) func() string {
	var all []string
	f.OnHappening(func(h store.Happening) {
		// Its transaction is committed, and the store is not locked.
		if _, err := f.ListUsers(context.Background(), "", 1); err != nil || !h.At.Equal(f.Now()) {
			all = append(all, fmt.Sprint("too early: ", err, h))
		}
		all = append(all, h.Alarm+" "+h.Subject)
	})
	return func() string {
		defer func() { all = nil }()
		return strings.Join(all, ", ")
	}
}

// Promise (Guard §7, §8, §9): a stolen token and new privileges are told once, after their transaction, by
// whatever way they came
func TestHappenings(t *testing.T) {
	t.Parallel()
	g := newGrant(t)
	ctx, got := t.Context(), heard(g.Fixture)
	want := func(when, want string) {
		t.Helper()
		if got := got(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	first := g.issue(t, store.ScopeUnstated)
	second := g.mustRefresh(t, first)
	g.mustRefresh(t, second)
	want("a refresh", "")
	if _, err := g.refresh(first); err == nil {
		t.Fatal("a used token was accepted")
	}
	want("a refresh token came twice", "tokens "+g.client.ID)
	_, _ = g.refresh(first)
	want("and again", "")
	code := g.allow(t, "")
	must.Get(g.redeem(code, ""))(t)
	g.Clock.Advance(20 * time.Second)
	if _, err := g.redeem(code, ""); err == nil {
		t.Fatal("a used code was accepted")
	}
	want("a code came twice", "tokens "+g.client.ID)

	u, _, err := g.CreateUser(ctx, store.UserSpec{Username: "olga", Account: "acct_olga", Password: storetest.Password})
	must.Do(t, err)
	want("a user", "")
	must.Get(g.PromoteUser(ctx, "olga"))(t)
	want("promoted", "privileges "+u.Subject())
	must.Get(g.PromoteUser(ctx, "olga"))(t)
	must.Get(g.DemoteUser(ctx, "olga"))(t)
	want("promoted again, and demoted", "")
	op, _, err := g.CreateUser(ctx, store.UserSpec{Username: "otto", Account: "acct_olga", Password: storetest.Password, Operator: true})
	must.Do(t, err)
	want("an operator", "privileges "+op.Subject())
	_, _, err = g.CreateUser(ctx, store.UserSpec{Username: "otto", Account: "acct_olga", Password: storetest.Password, Operator: true})
	if err == nil {
		t.Fatal("two users have one name")
	}
	want("refused", "")

	client, _ := g.Client(t, storetest.Platform("accounts:act"))
	want("a platform client", "privileges "+client.ID)
	name, more, less := "Other", []string{"accounts:act", "users:write"}, []string{"users:write"}
	must.Get(g.UpdateClient(ctx, client.ID, store.ClientChange{Name: &name}))(t)
	want("renamed", "")
	must.Get(g.UpdateClient(ctx, client.ID, store.ClientChange{Scopes: &more}))(t)
	want("widened", "privileges "+client.ID)
	must.Get(g.UpdateClient(ctx, client.ID, store.ClientChange{Scopes: &less}))(t)
	want("narrowed", "")

	lines := []string{`{"account":{"account":"acct_i"}}`, `{"user":{"username":"ines","account":"acct_i","operator":true,"user_id":"usr_00000000000000000000000001"}}`,
		`{"client":{"client_id":"back-office","name":"B","platform":true,"scopes":["users:read"],"client_secret":"a secret that is long enough to be one"}}`, `{"user":{"username":"ida","account":"acct_i"}}`}
	dry := g.NewImport(ctx, store.ImportOptions{DryRun: true, Allow: store.ImportAllows(), Report: func(r store.ImportReport) {
		if r.Refused != nil {
			t.Errorf("refused: %+v", r.Refused)
		}
	}})
	for _, line := range lines {
		must.Do(t, dry.Add(ctx, []byte(line), 0))
	}
	must.Do(t, dry.Flush(ctx))
	want("a dry run", "")
	importAll(t, g.Store, lines, store.ImportAllows()...)
	want("imported", "privileges usr_00000000000000000000000001, privileges back-office")
	importAll(t, g.Store, lines, store.ImportAllows()...)
	want("imported again", "")
}

// Promise (Guard §7, §8, §9): what a command or another server does is told by the server that sends
func TestHappeningsAreKeptForASender(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	ctx := t.Context()
	happen := func(name string) {
		t.Helper()
		_, _, err := f.CreateUser(ctx, store.UserSpec{Username: name, Account: "acct_a", Password: storetest.Password, Operator: true})
		must.Do(t, err)
	}
	happen("nobody-listens")
	if got := must.Get(f.TakeHappenings(ctx))(t); len(got) != 0 {
		t.Errorf("kept for nobody: %v", got)
	}
	must.Do(t, f.ListenForHappenings(ctx))
	happen("one")
	f.Clock.Advance(6 * 24 * time.Hour)
	happen("two")
	f.Clock.Advance(2 * 24 * time.Hour)
	happen("nobody-has-listened-for-a-week")
	got := must.Get(f.TakeHappenings(ctx))(t)
	if len(got) != 2 {
		t.Fatalf("kept %v, want two", got)
	}
	records := map[string][]byte{"to:x": []byte(`[]`)}
	for name, h := range got {
		if h.Alarm != store.HappenedPrivileges || !store.IsSubject(h.Subject) {
			t.Errorf("kept %+v", h)
		}
		records[name] = nil
	}
	must.Do(t, f.SaveAlarms(ctx, records))
	if left := must.Get(f.TakeHappenings(ctx))(t); len(left) != 0 {
		t.Errorf("still kept: %v", left)
	}
	if all := must.Get(f.LoadAlarms(ctx))(t); string(all["to:x"]) != "[]" {
		t.Errorf("loaded %q", all)
	}
	must.Get(f.CheckAll(ctx))(t)

	must.Do(t, f.ListenForHappenings(ctx))
	for i := range 600 {
		must.Do(t, f.KeepHappening(ctx, store.Happening{Alarm: store.HappenedTokens, Subject: fmt.Sprint(i), At: f.Now()}))
	}
	if n := len(must.Get(f.TakeHappenings(ctx))(t)); n != 500 {
		t.Errorf("%d wait, want a bound of 500", n)
	}
	must.Do(t, store.RecordRestore(ctx, f.DB, backup.Header{Created: f.Now()}, f.Now()))
	if all := must.Get(f.LoadAlarms(ctx))(t); len(all) != 0 {
		t.Errorf("a restored copy would tell %v", all)
	}
}

func TestTheNameOfAURLRevealsNothing(t *testing.T) {
	t.Parallel()
	f, other := storetest.New(t), storetest.New(t)
	const url = "ntfy://user:canary@push.example/topic"
	name := f.AlarmName(url)
	if name != f.AlarmName(url) || name == other.AlarmName(url) || name == f.AlarmName(url+"2") || strings.Contains(name, "canary") || strings.ContainsRune(name, 0) {
		t.Errorf("the name is %q", name)
	}
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// TestListAccessGroupsByClientAndUser, with a count, and separates what a client has for
// itself.
//
// Promise (Browsers): the desk counts access by client and user and revokes it together
func TestListAccessGroupsByClientAndUser(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	first := g.Now()
	nils := g.User(t, "nils", g.user.Account)
	other, _ := g.Client(t, func(c *store.ClientSpec) { c.Name = "Aster Reports" })
	g.Clock.Advance(time.Hour)
	g.issue(t, store.ScopeEventsRead)
	used := g.issue(t, store.ScopeResourcesRead)
	must.Get(g.IssueForPassword(ctx, store.By{}, g.client, nils, store.ScopeEventsRead))(t)
	must.Get(g.IssueForPassword(ctx, store.By{}, other, g.user, store.ScopeEventsRead))(t)
	acting, _ := g.Client(t, func(c *store.ClientSpec) {
		c.Name, c.Account, c.Grants = "Aster Job", "acct_job", []string{string(store.GrantClientCredentials)}
	})
	for range 2 {
		must.Get(g.IssueForClient(ctx, store.By{}, acting, "", store.ScopeEventsRead))(t)
	}
	g.use(t, used)
	want := []string{"Aster Job  2", "Aster Reports mara 1", "Larkspur Bookkeeping mara 3", "Larkspur Bookkeeping nils 1"}
	shown := func(list []store.Access) (lines []string) {
		for _, a := range list {
			lines = append(lines, fmt.Sprint(a.ClientName, " ", a.Username, " ", a.Families))
		}
		return lines
	}
	list, next, err := g.ListAccess(ctx, store.FamilyFilter{}, "")
	if got := shown(list); err != nil || next != "" || !slices.Equal(got, want) {
		t.Fatalf("ListAccess() = %q, next %q, %v; want %q", got, next, err, want)
	}
	if a := list[2]; !a.CreatedAt.Equal(first) || !a.UsedAt.Equal(g.Now()) || !slices.Equal(a.Permissions, store.ScopeNames()) {
		t.Errorf("the group is %+v, want the oldest start, the latest use and the permissions of all", a)
	}
	for name, c := range map[string]struct {
		want store.FamilyFilter
		n    int
	}{
		"a user": {store.FamilyFilter{User: &g.user}, 2}, "a client": {store.FamilyFilter{ClientID: g.client.ID}, 2},
		"both": {store.FamilyFilter{ClientID: g.client.ID, User: &nils}, 1}, "itself": {store.FamilyFilter{ClientID: acting.ID, Account: "acct_job"}, 1},
		"no user": {store.FamilyFilter{ClientID: g.client.ID, Account: g.user.Account}, 0},
	} {
		if list, _, err := g.ListAccess(ctx, c.want, ""); err != nil || len(list) != c.n {
			t.Errorf("of %s: %q, %v; want %d", name, shown(list), err, c.n)
		}
	}
}

// TestRevokeAccessEndsAllOfAClientAndUser and nothing else, however often it is asked for.
//
// Promise (Browsers): the desk counts access by client and user and revokes it together
func TestRevokeAccessEndsAllOfAClientAndUser(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	nils := g.User(t, "nils", g.user.Account)
	g.issue(t, store.ScopeEventsRead)
	must.Get(g.IssueForPassword(ctx, store.By{}, g.client, nils, store.ScopeEventsRead))(t)
	acting, _ := g.Client(t, func(c *store.ClientSpec) {
		c.Name, c.Account, c.Grants = "Aster Job", "acct_job", []string{string(store.GrantClientCredentials)}
	})
	for range 2 {
		must.Get(g.IssueForClient(ctx, store.By{}, acting, "", store.ScopeEventsRead))(t)
	}
	of := func(want store.FamilyFilter) []store.Family { return must.Get(g.ListFamilies(ctx, want, "", 100))(t) }
	mine := store.FamilyFilter{ClientID: g.client.ID, User: &g.user}
	operator := store.By{Actor: store.Actor{OperatorID: "usr_olga"}, Source: "192.0.2.1"}
	for _, c := range []struct {
		name     string
		ends     store.FamilyFilter
		families int
		left     int
	}{
		{"of a user", mine, 2, 3},
		{"of a client that acts for itself", store.FamilyFilter{ClientID: acting.ID, Account: "acct_job"}, 2, 1},
	} {
		ids := of(c.ends)
		if len(ids) != c.families {
			t.Fatalf("%s: %d families, want %d", c.name, len(ids), c.families)
		}
		for range 2 {
			must.Do(t, g.RevokeAccess(ctx, operator, ids[0].ID))
		}
		if left := of(store.FamilyFilter{}); len(left) != c.left || len(of(c.ends)) != 0 {
			t.Errorf("%s: %d families are left, want %d", c.name, len(left), c.left)
		}
	}
	lines := 0
	for _, l := range auditOf(t, g.Fixture, store.AuditRevoke) {
		if l.Reason == store.ReasonRevokedByOperator && l.Actor.OperatorID == "usr_olga" {
			lines++
		}
	}
	if lines != 4 {
		t.Errorf("%d audit lines name the operator, want one for each family", lines)
	}
	if err := g.RevokeAccess(ctx, operator, "fam_00000000000000000000000000"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("of an unknown family: %v", err)
	}
}

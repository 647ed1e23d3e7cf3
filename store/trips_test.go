package store_test

import (
	"fmt"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// TestListsOfManyTakeFewRoundTrips compares what lists and revocations ask of a database when
// there are few rows with what they ask when there are many.
func TestListsOfManyTakeFewRoundTrips(t *testing.T) {
	t.Parallel()
	tr, ctx := storetest.NewTrips(t), t.Context()
	const few, many = 4, 40
	trips := map[string]int{}
	for _, n := range []int{few, many} {
		g := populated(t, tr.Fixture, n)
		for _, c := range []struct {
			name string
			rows func() (int, error)
		}{
			{"families", func() (int, error) {
				list, err := tr.ListFamilies(ctx, store.FamilyFilter{}, "", 1000)
				return len(list), err
			}},
			{"access", func() (int, error) {
				list, _, err := tr.ListAccess(ctx, store.FamilyFilter{}, "")
				return len(list), err
			}},
			{"live sessions", func() (int, error) {
				list, err := tr.ListLiveSessions(ctx, nil, "", 1000)
				return len(list), err
			}},
			{"sessions of a user", func() (int, error) {
				list, err := tr.ListSessions(ctx, g.user)
				return len(list), err
			}},
			{"what a user has granted", func() (int, error) {
				list, _, err := tr.ListGranted(ctx, g.user)
				return len(list), err
			}},
			{"names in the audit record", func() (int, error) {
				lines, err := tr.SearchAudit(ctx, store.AuditFilter{}, record.Position{}, 1000)
				must.Do(t, err)
				tr.RoundTrips(t)
				names, err := tr.NamesIn(ctx, lines.Lines)
				return len(names.Users), err
			}},
			{"webhook endpoints of all accounts", func() (rows int, err error) {
				err = tr.Webhooks.Each(ctx, func(webhook.Endpoint) error { rows++; return nil })
				return rows, err
			}},
			{"list of webhook endpoints", func() (int, error) {
				list, err := tr.Webhooks.List(ctx, webhook.By{}, "", "", 1000)
				return len(list), err
			}},
			{"events of a resource", func() (int, error) {
				page, err := tr.Events.ListEvents(ctx, "acct_all", eventlog.Filter{Resources: []string{fmt.Sprint("cus_", n)}, To: eventlog.CreatedAtMax, Limit: 100}, nil)
				return page.Count, err
			}},
			{"purge", func() (int, error) {
				purged, err := tr.Events.Purge(ctx, eventlog.Purge{Account: "acct_all", Kind: "customer", Resource: fmt.Sprint("cus_", n)}, func(kv.Txn) error { return nil })
				return purged.Events, err
			}},
			{"revocation of what a user has granted", func() (int, error) {
				return n, tr.RevokeGranted(ctx, store.By{}, g.user, g.client.ID)
			}},
		} {
			tr.RoundTrips(t)
			if rows, err := c.rows(); err != nil || rows < n {
				t.Fatalf("%s: %d rows, %v; want at least %d", c.name, rows, err, n)
			}
			took := tr.RoundTrips(t)
			if n == few {
				trips[c.name] = took
			} else if took > trips[c.name]+few {
				t.Errorf("%s: %d round trips with %d rows, %d with %d", c.name, trips[c.name], few, took, many)
			}
		}
	}
}

// populated has n users of n accounts sign in and grant access to a client each. The user of the
// grant that it returns does the same n times, and grants the last client n families and codes.
func populated(t *testing.T, f *storetest.Fixture, n int) (g grant) {
	t.Helper()
	signIn := func() {
		t.Helper()
		_, _, err := f.CreateSession(t.Context(), store.By{}, g.user, secret.Token{}, "")
		must.Do(t, err)
		g.issued(t)
		g.remembers(t, store.ScopeUnstated)
	}
	all := f.User(t, fmt.Sprint("all", n), "acct_all")
	g.Fixture = f
	for i := range n {
		g.client, _ = f.Client(t, func(c *store.ClientSpec) { c.Consent = store.ConsentRemember })
		g.user = f.User(t, fmt.Sprint("user", n, "of", i), fmt.Sprint("acct_", n, "_", i))
		signIn()
		_, _, err := f.Webhooks.Create(t.Context(), webhook.By{}, g.user.Account, webhook.Settings{URL: "https://hooks.example/a"})
		must.Do(t, err)
		g.user = all
		signIn()
		must.Get(f.Events.RecordEvent(t.Context(), eventlog.NewEvent{
			Owner: "acct_all", Type: fmt.Sprintf("customer.changed_%d", i), Resource: fmt.Sprint("cus_", n), Object: snapshot.ObjectOf(),
		}))(t)
	}
	for range n {
		g.issued(t)
		g.remembers(t, store.ScopeUnstated)
	}
	f.Rest()
	return g
}

package store_test

import (
	"context"
	"fmt"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestHotPathsAllocateLittle bounds the allocations of the calls that most requests make,
// with margins of a half and more: reflection, a decoded row or a cache that is never hit
// shows, and a new Go release does not. It is not parallel, because it counts what the
// process allocates.
func TestHotPathsAllocateLittle(t *testing.T) {
	const rows = 100
	ctx := context.Background()
	f := storetest.OnDisk(t, func(o *store.Options) { o.SegmentEvents = 10 * rows })
	f.Rest()
	client, sec := f.Client(t)
	g := grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
	issued := g.mustRefresh(t, g.issue(t, store.ScopeUnstated))
	var lines []string
	for i := range 3 * rows {
		lines = append(lines, fmt.Sprintf(`{"type":"plan.%s","resource":"p%d","eventData":{"object":{"name":"Plan"}},"createdAt":%d}`,
			[]string{"created", "updated"}[i%2], i, f.Now().Unix()-1000+int64(i)))
	}
	storetest.ImportLines(t, f.Store, "acct_larkspur", lines...)
	page := eventlog.Filter{To: eventlog.CreatedAtMax, Types: []string{"plan.created"}, Limit: rows}
	buffer := make([]byte, 0, 128<<10)
	first := must.Get(f.Events.ListEvents(ctx, "acct_larkspur", page, buffer))(t)
	id := first.Next.String()
	for _, path := range []struct {
		name string
		max  float64
		call func() error
	}{
		{"bearer_check", 30, func() error { _, err := f.FindPrincipal(ctx, issued.AccessToken); return err }},
		{"client_authentication", 25, func() error { _, err := f.AuthenticateClient(ctx, client.ID, sec.Reveal(), nil); return err }},
		{"rotation", 200, func() error { issued = g.mustRefresh(t, issued); return nil }},
		{"retrieve", 30, func() error { _, err := f.Events.FindEvent(ctx, "acct_larkspur", id, buffer); return err }},
		{"page_of_100", 150, func() error {
			got, err := f.Events.ListEvents(ctx, "acct_larkspur", page, buffer)
			if got.Count != rows {
				t.Errorf("the page has %d rows, want %d", got.Count, rows)
			}
			return err
		}},
	} {
		t.Run(path.name, func(t *testing.T) {
			got := testing.AllocsPerRun(50, func() { must.Do(t, path.call()) })
			if got > path.max {
				t.Errorf("%.0f allocations, want at most %.0f", got, path.max)
			}
		})
	}
}

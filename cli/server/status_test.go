package server

import (
	"slices"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// TestStatusRows covers rows that only an unhealthy server has.
func TestStatusRows(t *testing.T) {
	t.Parallel()
	now := time.Unix(1773070200, 0)
	s := admin.ServerStatus{Status: admin.StateNotReady, Started: now.Add(-90 * time.Minute).Unix(), PID: 7,
		Store:    &admin.StoreStatus{Used: 3 << 20, Free: 100 << 20, FreeMin: 384 << 20, FreeEnd: 336 << 20},
		Check:    &admin.CheckStatus{Ended: now.Add(-time.Hour).Unix(), Damage: "event evt_1 is damaged"},
		Webhooks: &admin.WebhooksStatus{Endpoints: 3, Failing: 1, Disabled: 1, Parked: 1, Dead: 2, Held: true, OldestUndelivered: 7500}}
	for _, want := range []term.Row{
		{"server", "not ready"},
		{"process", "7, since 2026-03-09T14:00:00Z (1h30m)"},
		{"store", "3.0 MiB, 100.0 MiB free: changes are refused below 384.0 MiB, all writes below 336.0 MiB"},
		{"webhooks", "3 endpoints, 1 failing, 1 disabled; 1 event parked, 2 dead; the oldest undelivered event has waited 2h5m; deliveries are held: tollhouse webhook resume"},
		{"last check", "2026-03-09T14:30:00Z, damage: event evt_1 is damaged"},
	} {
		if rows := StatusRows(s, now); !slices.Contains(rows, want) {
			t.Errorf("rows = %q, want one to be %q", rows, want)
		}
	}
}

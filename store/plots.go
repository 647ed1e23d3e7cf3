package store

import (
	"context"

	"tollhouse/store/eventlog"
	"tollhouse/store/stats"
)

// Ring counts requests for the plots.
func (s *Store) Ring() *stats.Ring { return s.ring }

// Plots returns the plots of a range. The account, or "" for all, applies to the events
// only.
func (s *Store) Plots(ctx context.Context, r stats.Range, account string) (stats.Plots, error) {
	return stats.Read(ctx, s.Events, s.ring, r, account)
}

// BusiestAccounts returns up to n accounts with the most events in a range.
func (s *Store) BusiestAccounts(ctx context.Context, r stats.Range, n int) ([]eventlog.OwnerCount, error) {
	return stats.Busiest(ctx, s.Events, r, n)
}

package store

import (
	"context"

	"tollhouse/store/stats"
)

// Ring counts requests for the plots.
func (s *Store) Ring() *stats.Ring { return s.ring }

// Plots returns the plots of a range. Of an account, or for "" of all, are the events
// only.
func (s *Store) Plots(ctx context.Context, r stats.Range, account string) (stats.Plots, error) {
	return stats.Read(ctx, s.Log, s.ring, r, account)
}

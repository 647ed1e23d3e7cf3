package store

import (
	"context"
	"fmt"

	"tollhouse/store/kv"
)

// Export reads all events of an account that are there when it begins, oldest
// first, page by page, with no transaction open between two pages.
type Export struct {
	store *Store
	owner string
	lo    []byte   // the least bound of the places still to come
	end   Position // of the last event to come
	begun bool
}

// NewExport returns an Export of the account's events.
func (s *Store) NewExport(account string) *Export { return &Export{store: s, owner: account} }

// Next appends at most limit further events to dst, each on a line of its own as
// on the wire, and returns how many; none when all have been read. It may return
// fewer than limit before the end.
func (x *Export) Next(ctx context.Context, limit int, dst []byte) ([]byte, int, error) {
	start, count := len(dst), 0
	err := x.store.db.View(ctx, func(r kv.Reader) error {
		head, err := readEventHead(r, x.owner)
		if err != nil {
			return err
		}
		if !x.begun {
			x.end, x.begun = head.last, true
		}
		page := stretch{list: eventsOf(x.owner), lo: x.lo, hi: through(x.end), limit: limit}
		for p, v := range page.rows(r, head.parts) {
			wire, err := wireOf(v)
			if err != nil {
				return err
			}
			if count > 0 && len(dst)-start+len(wire) > pageSizeMax {
				return nil
			}
			dst = append(append(dst, wire...), '\n')
			count++
			x.lo = through(p)
		}
		return nil
	})
	if err != nil {
		return dst, 0, fmt.Errorf("export events: %w", err)
	}
	return dst, count, nil
}

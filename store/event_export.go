package store

import (
	"bytes"
	"context"
	"fmt"

	"tollhouse/store/kv"
)

// Export reads all events of an account that are there when it begins, oldest
// first, page by page, with no transaction open between two pages.
type Export struct {
	store *Store
	owner string
	lo    []byte   // what follows the prefix in the least key that is still to come
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
	prefix := eventsKey(x.owner)
	err := x.store.db.View(ctx, func(r kv.Reader) error {
		if !x.begun {
			head, err := readEventHead(r, x.owner)
			if err != nil {
				return err
			}
			x.end, x.begun = head.last, true
		}
		page := kv.Range{Lo: append(bytes.Clone(prefix), x.lo...), Hi: append(eventsKey(x.owner).position(x.end), 0), Limit: limit}
		for k, v := range r.Scan(page) {
			wire, err := wireOf(v)
			if err != nil {
				return err
			}
			if count > 0 && len(dst)-start+len(wire) > pageSizeMax {
				return nil
			}
			dst = append(append(dst, wire...), '\n')
			count++
			x.lo = append(bytes.Clone(k[len(prefix):]), 0)
		}
		return nil
	})
	if err != nil {
		return dst, 0, fmt.Errorf("export events: %w", err)
	}
	return dst, count, nil
}

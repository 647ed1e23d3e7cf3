package eventlog

import (
	"context"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Export reads all events of an account that exist when it starts, oldest first, page
// by page, with no transaction open between pages.
type Export struct {
	log   *Log
	owner string
	lo    []byte          // lower bound of the remaining positions
	end   record.Position // of the last event to export
	begun bool
}

// NewExport returns an Export of the account's events.
func (l *Log) NewExport(account string) *Export { return &Export{log: l, owner: account} }

// Next appends up to limit further events to dst, one JSON line each, and returns how
// many; 0 means the end. It may return fewer than limit before the end.
func (x *Export) Next(ctx context.Context, limit int, dst []byte) ([]byte, int, error) {
	start, count := len(dst), 0
	err := x.log.db.View(ctx, func(r kv.Reader) error {
		head, err := ReadHead(r, x.owner)
		if err != nil {
			return err
		}
		if !x.begun {
			x.end, x.begun = head.last, true
		}
		page := stretch{list: eventsOf(x.owner), lo: x.lo, hi: through(x.end), limit: limit}
		for p, v := range page.rows(r, head.Segments) {
			wire, err := wireOf(v)
			if err != nil {
				return err
			}
			if count > 0 && len(dst)-start+len(wire) > PageSizeMax {
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

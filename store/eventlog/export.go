package eventlog

import (
	"bytes"
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

// NewKeptExport is NewExport without the events that are past the retention period, which no
// import takes.
func (l *Log) NewKeptExport(account string) *Export {
	horizon := l.horizon()
	return &Export{log: l, owner: account, lo: horizon[:]}
}

// Next appends up to limit further events to dst, one JSON line each, and returns how
// many; 0 means the end. It may return fewer than limit before the end.
func (x *Export) Next(ctx context.Context, limit int, dst []byte) ([]byte, int, error) {
	count := 0
	err := x.log.db.View(ctx, func(r kv.Reader) (err error) {
		count, err = x.Each(r, limit, func(wire []byte) { dst = append(append(dst, wire...), '\n') })
		return err
	})
	if err != nil {
		return dst, 0, fmt.Errorf("export events: %w", err)
	}
	return dst, count, nil
}

// Each is Next within a transaction. It calls fn with each event, which is valid until fn returns.
func (x *Export) Each(r kv.Reader, limit int, fn func(wire []byte)) (count int, err error) {
	head, err := ReadHead(r, x.owner)
	if err != nil {
		return 0, err
	}
	if !x.begun {
		x.end, x.begun = head.last, true
	}
	page, size := stretch{list: eventsOf(x.owner), lo: x.lo, hi: through(x.end), limit: limit}, 0
	for p, v := range page.rows(r, head.Segments) {
		wire, err := wireOf(v)
		if err != nil {
			return 0, err
		}
		if size += len(wire); count > 0 && size > PageSizeMax {
			return count, nil
		}
		fn(wire)
		count++
		x.lo = through(p)
	}
	return count, nil
}

// ResourceExport reads resources, by account, kind and id, page by page.
type ResourceExport struct {
	log     *Log
	rest    kv.Range
	horizon record.Position
}

// ExportedResource is a resource of an account.
type ExportedResource struct {
	Owner, Kind, ID string
	JSON            []byte // the snapshot
	// IsOfEvent reports whether an event that is exported with it has the same snapshot, and no
	// later one is about the resource.
	IsOfEvent bool
}

// NewResourceExport returns a ResourceExport of an account, or with "" of all.
func (l *Log) NewResourceExport(account string) *ResourceExport {
	prefix := record.NewKey(record.TagResource)
	if account != "" {
		prefix = prefix.Str(account)
	}
	return &ResourceExport{log: l, rest: prefix.All(), horizon: l.horizon()}
}

// Next returns further resources from up to limit records. isEnd is set with the last ones.
func (x *ResourceExport) Next(r kv.Reader, limit int) (list []ExportedResource, isEnd bool, err error) {
	var last []record.Position
	page, size, rows := x.rest, 0, 0
	page.Limit = limit
	for k, v := range r.Scan(page) {
		if size += len(v); rows > 0 && size > PageSizeMax {
			break
		}
		rows++
		x.rest.Lo = append(bytes.Clone(k), 0)
		rec, err := decodeResource(v)
		if err != nil {
			return nil, false, err
		}
		if rec.removed {
			continue
		}
		owner, rest := record.CutString(k[1:])
		kind, rest := record.CutString(rest)
		id, _ := record.CutString(rest)
		list = append(list, ExportedResource{Owner: owner, Kind: kind, ID: id, JSON: bytes.Clone(rec.json)})
		last = append(last, rec.last)
	}
	return list, rows == 0, x.findEvents(r, list, last)
}

// findEvents sets IsOfEvent of resources, whose last events are given.
func (x *ResourceExport) findEvents(r kv.Reader, list []ExportedResource, last []record.Position) error {
	heads := map[string]Head{}
	var keys [][]byte
	var of []int
	for i, p := range last {
		owner := list[i].Owner
		head, known := heads[owner]
		if !known {
			var err error
			if head, err = ReadHead(r, owner); err != nil {
				return err
			}
			heads[owner] = head
		}
		if p.Compare(x.horizon) >= 0 {
			keys, of = append(keys, eventsOf(owner).in(head.Segments.of(p)).Position(p)), append(of, i)
		}
	}
	for i := range r.GetMany(keys) {
		list[of[i]].IsOfEvent = true
	}
	return nil
}

// ExportedCursor returns the event id that stands for a position in the account's log where the
// events that are exported are imported: that of the last one up to p. Without one it is a
// position before the first, and "" for a log without events.
func (l *Log) ExportedCursor(r kv.Reader, account string, p record.Position) (id string, err error) {
	head, err := ReadHead(r, account)
	if err != nil {
		return "", err
	}
	horizon := l.horizon()
	kept := stretch{list: eventsOf(account), lo: horizon[:], hi: through(p), reverse: true, limit: 1}
	for _, v := range kept.rows(r, head.Segments) {
		e, err := followed(p, v)
		return e.ID, err
	}
	kept.hi, kept.reverse = through(head.last), false
	for first := range kept.rows(r, head.Segments) {
		return record.PositionBefore(first.Millis() / 1000).String(), nil
	}
	return "", nil
}

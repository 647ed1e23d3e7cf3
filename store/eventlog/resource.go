package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Resource is the current state of a business record: a customer, an account, a
// transaction, an invoice, or any other kind.
type Resource struct {
	Kind, ID string
	Event    string // id of its last event, which is its version
	JSON     []byte // the snapshot as on the wire
}

// resourceRecord is the stored form of a resource. That of a removed resource stays,
// so that history imported later cannot restore it.
type resourceRecord struct {
	last    record.Position // of its last event
	event   string          // that event's id if it is not native, or ""
	removed bool
	json    []byte
}

const resourceRecordVersion = 1

// exists reports whether the resource exists now.
func (rr resourceRecord) exists() bool { return !rr.last.IsZero() && !rr.removed }

// eventID returns the id of the resource's last event.
func (rr resourceRecord) eventID() string {
	if rr.event != "" {
		return rr.event
	}
	return rr.last.String()
}

// FindResource returns the owner's resource with that kind and id. Errors:
// ErrNotFound.
func (l *Log) FindResource(ctx context.Context, owner, kind, id string) (Resource, error) {
	if !IsKind(kind) || !IsID(id) {
		return Resource{}, fmt.Errorf("find resource: %w", record.ErrNotFound)
	}
	rec, err := l.loadResource(ctx, owner, kind, id)
	if err != nil {
		return Resource{}, fmt.Errorf("find resource: %w", err)
	}
	if !rec.exists() {
		return Resource{}, fmt.Errorf("find resource: %w", record.ErrNotFound)
	}
	return Resource{Kind: kind, ID: id, Event: rec.eventID(), JSON: rec.json}, nil
}

// ResourcePage is one page of a list of resources.
type ResourcePage struct {
	Data        []byte // the snapshots, separated by commas, appended to dst
	Count       int
	More        bool
	First, Last string // ids; Last may be that of a removed resource that was skipped
}

// resourcesScanned bounds the removed resources that one page skips.
const resourcesScanned = 10_000

// ListResources appends the owner's resources of a kind to dst, by id, starting after
// the given one ("" for the first). A page may end before limit, with More set: where it
// does not fit, or when it skipped very many removed resources.
func (l *Log) ListResources(ctx context.Context, owner, kind, after string, limit int, fits Fits, dst []byte) (ResourcePage, error) {
	page := ResourcePage{Data: dst}
	prefix := record.ResourcesKey(owner, kind)
	r := prefix.All()
	if after != "" {
		r.Lo = append(record.ResourceKey(owner, kind, after), 0)
	}
	r.Limit = resourcesScanned + 1
	err := l.db.View(ctx, func(rd kv.Reader) error {
		scanned, passed := 0, ""
		for k, v := range rd.Scan(r) {
			rec, err := decodeResource(v)
			if err != nil {
				return err
			}
			if scanned == resourcesScanned {
				page.More = true
				if page.Count < limit {
					page.Last = passed
				}
				return nil
			}
			id, _ := record.CutString(k[len(prefix):])
			scanned, passed = scanned+1, id
			if rec.removed {
				continue
			}
			if page.Count == limit || page.Count > 0 && !fits.allow(len(page.Data)-len(dst)+len(rec.json)) {
				page.More = true
				return nil
			}
			if page.Count > 0 {
				page.Data = append(page.Data, ',')
			} else {
				page.First = id
			}
			page.Last = id
			page.Data = append(page.Data, rec.json...)
			page.Count++
		}
		return nil
	})
	if err != nil {
		return ResourcePage{Data: dst}, fmt.Errorf("list resources: %w", err)
	}
	return page, nil
}

// loadResource returns the zero record for a resource that never existed.
func (l *Log) loadResource(ctx context.Context, owner, kind, id string) (rec resourceRecord, err error) {
	err = l.db.View(ctx, func(r kv.Reader) (err error) {
		rec, err = readResource(r, owner, kind, id)
		rec.json = bytes.Clone(rec.json) // it outlives the transaction
		return err
	})
	return rec, err
}

// readResource returns the zero record for a resource that never existed. Its json is
// valid only within the transaction.
func readResource(r kv.Reader, owner, kind, id string) (resourceRecord, error) {
	v, err := r.Get(record.ResourceKey(owner, kind, id))
	if record.IsAbsent(err) {
		return resourceRecord{}, nil
	}
	if err != nil {
		return resourceRecord{}, err
	}
	return decodeResource(v)
}

func writeResource(tx kv.Txn, owner, kind, id string, rec resourceRecord) error {
	return tx.Set(record.ResourceKey(owner, kind, id), encodeResource(rec), time.Time{})
}

func encodeResource(rec resourceRecord) []byte {
	return appendResource(make([]byte, 0, 160+len(rec.json)), rec)
}

func appendResource(b []byte, rec resourceRecord) []byte {
	e := record.Encoder{B: append(b, resourceRecordVersion)}
	e.Position(rec.last)
	e.Str(rec.event)
	e.Bool(rec.removed)
	if !rec.removed {
		e.B = append(e.B, rec.json...)
	}
	return e.B
}

func decodeResource(v []byte) (resourceRecord, error) {
	d := record.NewDecoder("resource", resourceRecordVersion, v)
	rec := resourceRecord{last: d.Position(), event: d.Str(), removed: d.Bool()}
	if !rec.removed {
		rec.json = d.Take(uint64(len(d.B)))
		if d.Err == nil && (len(rec.json) < 2 || rec.json[0] != '{' || rec.json[len(rec.json)-1] != '}') {
			d.Fail("holds no snapshot")
		}
	}
	return rec, d.Done()
}

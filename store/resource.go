package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

// Resource is what a business record looks like now: a customer, an account, a
// transaction, an invoice, or anything else that somebody keeps here.
type Resource struct {
	Kind, ID string
	Event    string // id of the last event about it, which is its version
	JSON     []byte // the snapshot as on the wire
}

// resourceRecord is what we keep of a resource. That of a removed one stays, so
// that history that is imported late cannot bring it back.
type resourceRecord struct {
	last    Position // of its last event
	event   string   // that event's id when it is not native; else ""
	removed bool
	json    []byte
}

const resourceRecordVersion = 1

// exists reports whether there is a resource.
func (rr resourceRecord) exists() bool { return !rr.last.IsZero() && !rr.removed }

// eventID returns the id of the last event about the resource.
func (rr resourceRecord) eventID() string {
	if rr.event != "" {
		return rr.event
	}
	return rr.last.String()
}

// FindResource returns the owner's resource of that kind and id. Errors:
// ErrNotFound.
func (s *Store) FindResource(ctx context.Context, owner, kind, id string) (Resource, error) {
	if !IsKind(kind) || !IsID(id) {
		return Resource{}, fmt.Errorf("find resource: %w", ErrNotFound)
	}
	rec, err := s.loadResource(ctx, owner, kind, id)
	if err != nil {
		return Resource{}, fmt.Errorf("find resource: %w", err)
	}
	if !rec.exists() {
		return Resource{}, fmt.Errorf("find resource: %w", ErrNotFound)
	}
	return Resource{Kind: kind, ID: id, Event: rec.eventID(), JSON: rec.json}, nil
}

// ResourcePage is one page of a list of resources.
type ResourcePage struct {
	Data        []byte // the snapshots, with commas between, appended to what ListResources was given
	Count       int
	More        bool
	First, Last string // ids; Last may be that of a removed resource that the page passed over
}

// resourcesScanned bounds the removed resources that one page passes over.
const resourcesScanned = 10_000

// ListResources returns the owner's resources of a kind, by id, those after the
// one given ("" for the first), appended to dst. A page may end before limit,
// with More set, when very many in its range were removed.
func (s *Store) ListResources(ctx context.Context, owner, kind, after string, limit int, dst []byte) (ResourcePage, error) {
	page := ResourcePage{Data: dst}
	prefix := resourcesKey(owner, kind)
	r := prefix.all()
	if after != "" {
		r.Lo = append(resourceKey(owner, kind, after), 0)
	}
	r.Limit = resourcesScanned + 1
	err := s.db.View(ctx, func(rd kv.Reader) error {
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
			id, _ := cutString(k[len(prefix):])
			scanned, passed = scanned+1, id
			if rec.removed {
				continue
			}
			if page.Count == limit || page.Count > 0 && len(page.Data)-len(dst)+len(rec.json) > pageSizeMax {
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

// loadResource returns the zero record for a resource that never was.
func (s *Store) loadResource(ctx context.Context, owner, kind, id string) (rec resourceRecord, err error) {
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		rec, err = readResource(r, owner, kind, id)
		rec.json = append([]byte(nil), rec.json...) // it outlives the transaction
		return err
	})
	return rec, err
}

// readResource returns the zero record for a resource that never was. Its json
// is valid within the transaction.
func readResource(r kv.Reader, owner, kind, id string) (resourceRecord, error) {
	v, err := r.Get(resourceKey(owner, kind, id))
	if isAbsent(err) {
		return resourceRecord{}, nil
	}
	if err != nil {
		return resourceRecord{}, err
	}
	return decodeResource(v)
}

func writeResource(tx kv.Txn, owner, kind, id string, rec resourceRecord) error {
	return tx.Set(resourceKey(owner, kind, id), encodeResource(rec), time.Time{})
}

func encodeResource(rec resourceRecord) []byte {
	return appendResource(make([]byte, 0, 160+len(rec.json)), rec)
}

func appendResource(b []byte, rec resourceRecord) []byte {
	e := encoder{append(b, resourceRecordVersion)}
	e.position(rec.last)
	e.str(rec.event)
	e.bool(rec.removed)
	if !rec.removed {
		e.b = append(e.b, rec.json...)
	}
	return e.b
}

func decodeResource(v []byte) (resourceRecord, error) {
	d := newDecoder("resource", resourceRecordVersion, v)
	rec := resourceRecord{last: d.position(), event: d.str(), removed: d.bool()}
	if !rec.removed {
		rec.json = d.take(uint64(len(d.b)))
		if d.err == nil && (len(rec.json) < 2 || rec.json[0] != '{' || rec.json[len(rec.json)-1] != '}') {
			d.fail("holds no snapshot")
		}
	}
	return rec, d.done()
}

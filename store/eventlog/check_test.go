package eventlog

import (
	"context"
	"fmt"
	"maps"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// CheckEvents reads an account's log in one snapshot. It reports an event missing from
// one of its lists, an entry of a list without its event, and a wrong count. It returns
// the number of events.
func (s *Log) CheckEvents(ctx context.Context, owner string) (events int, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		want := map[string]string{} // the entries that the events need
		known := map[string]knownType{}
		head, err := ReadHead(r, owner)
		if err != nil {
			return err
		}
		events = 0
		log := stretch{list: eventsOf(owner), hi: through(record.LastPosition)}
		for p, v := range log.rows(r, head.Segments) {
			wire, err := wireOf(v)
			if err != nil {
				return err
			}
			names, err := namesOf(wire)
			if err != nil {
				return err
			}
			events++
			sg := head.Segments.of(p)
			want[string(eventsOfType(owner, names.typ).in(sg).Position(p))] = string(v)
			want[string(eventsOfResource(owner, names.resource).in(sg).Position(p))] = ""
			if names.id != p.String() {
				want[string(record.EventForeignKey(owner, names.id))] = string(encodeForeign(p))
			}
			t := known[names.typ]
			known[names.typ] = knownType{count: t.count + 1, last: record.LaterOf(t.last, p)}
			if p.Compare(head.last) > 0 || p.Compare(head.removed) <= 0 {
				return fmt.Errorf("the event %v is outside the range of the head: %v to %v", p, head.removed, head.last)
			}
		}
		for typ, t := range known {
			want[string(record.KnownTypesKey(owner).Str(typ))] = string(encodeTypeCounts(typeCounts{knownType: t}))
		}
		have := map[string]string{}
		lists := []record.Key{record.NewKey(record.TagEventForeign).Str(owner), record.KnownTypesKey(owner)}
		for i := range len(head.Segments) + 1 {
			sg := head.Segments.At(i)
			lists = append(lists, sg.Append(nil, owner, ListByType), sg.Append(nil, owner, ListByResource))
		}
		for _, list := range lists {
			for k, v := range r.Scan(list.All()) {
				if have[string(k)] = string(v); k[0] == record.TagKnownType {
					known, err := decodeKnownType(v)
					if err != nil {
						return err
					}
					have[string(k)] = string(encodeTypeCounts(typeCounts{knownType: known})) // the slots are for TestCounts
				}
			}
		}
		if maps.Equal(want, have) {
			return nil
		}
		for k, v := range want {
			if have[k] != v {
				return fmt.Errorf("%q is %q, want %q", k, have[k], v)
			}
			delete(have, k)
		}
		return fmt.Errorf("%d entries are left of events that are gone: %q", len(have), have)
	})
	return events, err
}

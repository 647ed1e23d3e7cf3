package store

import (
	"context"
	"fmt"
	"maps"

	"tollhouse/store/kv"
)

// CheckEvents looks at an account's log in one snapshot, and returns what it
// finds half there: an event that is not in every list that it belongs into, an
// entry of a list without its event, or a count that is not theirs. It returns
// the number of events.
func (s *Store) CheckEvents(ctx context.Context, owner string) (events int, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		want := map[string]string{} // the entries that the events call for
		known := map[string]knownType{}
		head, err := readEventHead(r, owner)
		if err != nil {
			return err
		}
		events = 0
		log := stretch{list: eventsOf(owner), hi: through(lastPosition)}
		for p, v := range log.rows(r, head.parts) {
			wire, err := wireOf(v)
			if err != nil {
				return err
			}
			names, err := namesOf(wire)
			if err != nil {
				return err
			}
			events++
			pt := head.parts.of(p)
			want[string(eventsOfType(owner, names.typ).in(pt).position(p))] = string(v)
			want[string(eventsOfResource(owner, names.resource).in(pt).position(p))] = ""
			if names.id != p.String() {
				want[string(eventForeignKey(owner, names.id))] = string(encodeForeign(p))
			}
			t := known[names.typ]
			known[names.typ] = knownType{count: t.count + 1, last: laterOf(t.last, p)}
			if p.Compare(head.last) > 0 || p.Compare(head.removed) <= 0 {
				return fmt.Errorf("the event %v lies outside of what the head says: %v to %v", p, head.removed, head.last)
			}
		}
		for typ, t := range known {
			want[string(knownTypesKey(owner).str(typ))] = string(encodeKnownType(t))
		}
		have := map[string]string{}
		lists := []key{newKey(tagEventForeign).str(owner), knownTypesKey(owner)}
		for i := range len(head.parts) + 1 {
			pt := head.parts.at(i)
			lists = append(lists, pt.append(nil, owner, tagEventType), pt.append(nil, owner, tagEventResource))
		}
		for _, list := range lists {
			for k, v := range r.Scan(list.all()) {
				have[string(k)] = string(v)
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

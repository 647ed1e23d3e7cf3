package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/kv"
)

// EventTypeUse is a type of event and how an account's log uses it.
type EventTypeUse struct {
	EventType     // without a meaning when it is not in the catalogue
	Count         uint64
	LastCreatedAt int64 // of the newest, in seconds; 0 when Count is
}

// eventTypesMax bounds the recorded types of one list. The names are the
// callers' to choose, but a platform that has more than these counts something
// else in them.
const eventTypesMax = 10_000

// ListEventTypes returns the types of the catalogue and those of the account's
// events, by name, and whether the account has more than one list holds.
func (s *Store) ListEventTypes(ctx context.Context, owner string) (types []EventTypeUse, more bool, err error) {
	var recorded []EventTypeUse
	err = s.db.View(ctx, func(r kv.Reader) error {
		recorded, more = nil, false
		prefix := knownTypesKey(owner)
		all := prefix.all()
		all.Limit = eventTypesMax + 1
		for k, v := range r.Scan(all) {
			if len(recorded) == eventTypesMax {
				more = true
				break
			}
			known, err := decodeKnownType(v)
			if err != nil {
				return err
			}
			if known.count == 0 {
				continue // all of them were purged
			}
			name, _ := cutString(k[len(prefix):])
			recorded = append(recorded, EventTypeUse{EventType{Name: name}, known.count, known.last.Millis() / 1000})
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list event types: %w", err)
	}
	return withCatalogue(recorded), more, nil
}

// withCatalogue adds what the catalogue says to types that are sorted by name.
func withCatalogue(recorded []EventTypeUse) []EventTypeUse {
	for _, described := range catalogue() {
		i, found := slices.BinarySearchFunc(recorded, described.Name, func(use EventTypeUse, name string) int { return strings.Compare(use.Name, name) })
		if !found {
			recorded = slices.Insert(recorded, i, EventTypeUse{})
		}
		recorded[i].EventType = described
	}
	return recorded
}

package eventlog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// TypeUse is an event type and its use in an account's log.
type TypeUse struct {
	Type          // without a meaning if it is not in the catalogue
	Count         uint64
	LastCreatedAt int64 // of the newest, in seconds; 0 if Count is 0
}

// eventTypesMax bounds the recorded types of one list. Callers choose the names, but a
// platform with more types than this puts other data in them.
const eventTypesMax = 10_000

// ListEventTypes returns the types of the catalogue and of the account's events,
// sorted by name, and whether the account has more types than it returned.
func (l *Log) ListEventTypes(ctx context.Context, owner string) (types []TypeUse, more bool, err error) {
	var recorded []TypeUse
	err = l.db.View(ctx, func(r kv.Reader) error {
		recorded, more = nil, false
		prefix := record.KnownTypesKey(owner)
		all := prefix.All()
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
				continue // all its events were purged
			}
			name, _ := record.CutString(k[len(prefix):])
			recorded = append(recorded, TypeUse{Type{Name: name}, known.count, known.last.Millis() / 1000})
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list event types: %w", err)
	}
	return withCatalogue(recorded), more, nil
}

// withCatalogue merges sorted types with the catalogue.
func withCatalogue(recorded []TypeUse) []TypeUse {
	for _, described := range catalogue {
		i, found := slices.BinarySearchFunc(recorded, described.Name, func(use TypeUse, name string) int { return strings.Compare(use.Name, name) })
		if !found {
			recorded = slices.Insert(recorded, i, TypeUse{})
		}
		recorded[i].Type = described
	}
	return recorded
}

// CountEvents counts the events of all accounts. It reads a record for each type, and
// no event.
func (l *Log) CountEvents(ctx context.Context) (count int, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		count = 0
		for _, v := range r.Scan(record.NewKey(record.TagKnownType).All()) {
			known, err := decodeKnownType(v)
			if err != nil {
				return err
			}
			count += int(known.count)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return count, nil
}

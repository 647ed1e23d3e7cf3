package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// The users whose password is kept as a hash of another system are counted in one record, by the
// cost of the hash and by the day of the import, in the Update that changes the user. The counts
// say when the old database can be deleted, and how long a refused sign-in takes.

const (
	importedName   = "imported" // name of the record
	importedRecord = 1
	// importedDaysMax bounds the days that are told apart. The rounding of costs bounds these.
	importedDaysMax = 1000

	aDay = 24 * time.Hour
)

// importedCounts is what the record holds: users by the cost of their hash, and by days since 1970.
type importedCounts struct {
	costs map[secret.Cost]uint64
	days  map[uint64]uint64
}

func newImportedCounts() importedCounts {
	return importedCounts{map[secret.Cost]uint64{}, map[uint64]uint64{}}
}

// setImported gives a user the password hash of another system, which is imported now. One that is
// ours is none of another system.
func (u *User) setImported(f secret.Foreign, now time.Time) {
	u.setPassword(f.Text)
	if !f.Ours {
		u.importedOn = now.Truncate(aDay)
	}
}

// countImported counts a change of a user within tx. It may change the day on which now counts.
func countImported(tx kv.Txn, was User, now *User) error {
	if was.importedOn.Equal(now.importedOn) && (now.importedOn.IsZero() || was.password == now.password) {
		return nil
	}
	c, err := readImported(tx)
	if err == nil {
		err = c.add(was, -1)
	}
	if err == nil {
		now.importedOn = c.day(now.importedOn)
		err = c.add(*now, 1)
	}
	if err != nil {
		return err
	}
	if len(c.costs) == 0 {
		return tx.Delete(record.MetaKey(importedName))
	}
	return tx.Set(record.MetaKey(importedName), c.encode(), time.Time{})
}

// add counts a user, or with -1 no longer.
func (c importedCounts) add(u User, users int) error {
	if u.importedOn.IsZero() {
		return nil
	}
	cost, err := secret.CostOf(u.password)
	if err != nil {
		return fmt.Errorf("%w: user record: %w", record.ErrCorrupt, err)
	}
	return addTo(c.costs, cost, users, addTo(c.days, dayOf(u.importedOn), users, nil))
}

func addTo[K comparable](counts map[K]uint64, key K, users int, err error) error {
	if counts[key] += uint64(users); int64(counts[key]) < 0 {
		return record.Damaged("the count of imported hashes is too low")
	}
	if counts[key] == 0 {
		delete(counts, key)
	}
	return err
}

// day returns the day on which a user imported that day is counted: an earlier one if there are too
// many.
func (c importedCounts) day(on time.Time) time.Time {
	if on.IsZero() || len(c.days) < importedDaysMax || c.days[dayOf(on)] > 0 {
		return on
	}
	return time.Unix(0, 0).UTC().Add(time.Duration(slices.Max(slices.Collect(maps.Keys(c.days)))) * aDay)
}

func dayOf(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) / uint64(aDay/time.Second) }

func readImported(r kv.Reader) (importedCounts, error) {
	v, err := r.Get(record.MetaKey(importedName))
	if record.IsAbsent(err) {
		return newImportedCounts(), nil
	}
	if err != nil {
		return importedCounts{}, err
	}
	return decodeImported(v)
}

// importedEntryMax bounds what a user adds to the record, in bytes: a cost and a day, with a count.
const importedEntryMax = 64

// importedSize returns the size of the record in bytes.
func importedSize(r kv.Reader) (int, error) {
	v, err := r.Get(record.MetaKey(importedName))
	return len(v), record.GoneIsNil(err)
}

func (c importedCounts) encode() []byte {
	e := record.NewEncoder(importedRecord).Uint(uint64(len(c.costs)))
	for _, cost := range slices.Sorted(maps.Keys(c.costs)) {
		e.Str(string(cost)).Uint(c.costs[cost])
	}
	e.Uint(uint64(len(c.days)))
	for _, day := range slices.Sorted(maps.Keys(c.days)) {
		e.Uint(day).Uint(c.days[day])
	}
	return e.B
}

func decodeImported(v []byte) (importedCounts, error) {
	d := record.NewDecoder("counts of imported hashes", importedRecord, v)
	c := newImportedCounts()
	for range min(d.Uint(), uint64(len(v))) {
		cost := secret.Cost(d.Str())
		if c.costs[cost] = d.Uint(); c.costs[cost] == 0 || cost.Check() != nil {
			d.Fail("has no cost, or no users of it")
		}
	}
	for range min(d.Uint(), uint64(len(v))) {
		day := d.Uint()
		if c.days[day] = d.Uint(); c.days[day] == 0 {
			d.Fail("has a day without users")
		}
	}
	return c, d.Done()
}

// ImportedHashes counts the users who still have a password hash of another system.
type ImportedHashes struct {
	Users  uint64
	Oldest time.Time // the day of the earliest import of one of them; zero if there is none
	Kinds  []ImportedKind
}

// ImportedKind is a kind of hash, and how many users have one.
type ImportedKind struct {
	Kind    string // as in the summary of an import
	Wrapped bool
	Users   uint64
}

// ImportedHashes counts the users who still have a password hash of another system, by kind. Those
// who signed in have one of ours.
func (s *Store) ImportedHashes(ctx context.Context) (ImportedHashes, error) {
	var c importedCounts
	err := s.db.View(ctx, func(r kv.Reader) (err error) {
		c, err = readImported(r)
		return err
	})
	if err != nil {
		return ImportedHashes{}, fmt.Errorf("count imported hashes: %w", err)
	}
	var found ImportedHashes
	users := map[ImportedKind]uint64{}
	for cost, n := range c.costs {
		found.Users += n
		users[ImportedKind{Kind: cost.Kind(), Wrapped: cost.Wrapped()}] += n
	}
	for kind, n := range users {
		kind.Users = n
		found.Kinds = append(found.Kinds, kind)
	}
	slices.SortFunc(found.Kinds, func(a, b ImportedKind) int {
		if order := cmp.Compare(a.Kind, b.Kind); order != 0 || a.Wrapped == b.Wrapped {
			return order
		}
		if a.Wrapped {
			return 1
		}
		return -1
	})
	if len(c.days) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(c.days)))
		found.Oldest = time.Unix(int64(first)*int64(aDay/time.Second), 0).UTC()
	}
	return found, nil
}

// MeasureHashes measures how long a refused sign-in must take. Call it before sign-ins are served,
// and after an import of users: otherwise the first refusal waits for it. Errors: ErrBusy, the
// engine's.
func (s *Store) MeasureHashes(ctx context.Context) error {
	_, err := s.refusalTime(ctx)
	return err
}

// refusalTime returns how long after its turn began a refused sign-in is answered. Without it, the
// time would tell whose hash was imported, and so who exists.
func (s *Store) refusalTime(ctx context.Context) (time.Duration, error) {
	var c importedCounts
	err := s.db.View(ctx, func(r kv.Reader) (err error) {
		c, err = readImported(r)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure password hashes: %w", err)
	}
	return s.hasher.RefusalTime(ctx, slices.Collect(maps.Keys(c.costs)))
}

package eventlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Events are counted by hour, by day and by kind, for each account and for all, in the
// Update that records or removes them. So a plot of a year reads a few hundred records
// instead of the log, and the counts are exact at every moment and on every server.
//
// The record of a type, which each event of the type rewrites anyway, counts the newest
// hours in slots of two minutes. When a later hour begins, the oldest one is added to
// the records of its hour and day. Events of older hours, which an import or a removal
// changes, go to these records directly. So an append writes further records only for
// the first event of its type in an hour.
//
// The owner "" means all accounts: its hours and days change with those of each
// account.

// Grain is the length of time over which events are counted together.
type Grain byte

const (
	BySlot Grain = 's' // two minutes, of the newest three hours
	ByHour Grain = 'h'
	ByDay  Grain = 'd'
)

// Length returns the length of time of a grain.
func (g Grain) Length() time.Duration {
	switch g {
	case BySlot:
		return 2 * time.Minute
	case ByHour:
		return time.Hour
	}
	return 24 * time.Hour
}

// unit numbers the grains since the Unix epoch.
func (g Grain) unit(millis int64) uint32 { return uint32(millis / g.Length().Milliseconds()) }

// ofSlot returns the unit that a slot is part of.
func (g Grain) ofSlot(slot uint32) uint32 {
	return uint32(time.Duration(slot) * BySlot.Length() / g.Length())
}

// start returns when a grain begins.
func (g Grain) start(unit uint32) time.Time {
	return time.UnixMilli(int64(unit) * g.Length().Milliseconds()).UTC()
}

const (
	slotsOfHour = 30
	hoursOfDay  = 24
	// slotHours are the hours of a type that are counted by slot: a plot of the last hour
	// is compared with the hour before it.
	slotHours = 3
	// slotsSizeMax bounds the slots of a type, in bytes: for each a distance of one byte and a
	// count below 2^21.
	slotsSizeMax = 4 * slotsOfHour * slotHours
)

// allAccounts is the owner of the counts of all accounts.
const allAccounts = ""

// slotCount is the number of a type's events in a slot.
type slotCount struct {
	slot  uint32
	count uint64
}

func (c slotCount) hour() uint32 { return c.slot / slotsOfHour }

func (c slotCount) add(e []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(e, uint64(c.slot)), c.count)
}

// typeCounts is the record of a type.
type typeCounts struct {
	knownType
	newest slotCount
	// earlier are the slots before it, still encoded: for each its distance to the one
	// after it, and its count. Most events only count in the newest slot.
	earlier []byte
	// from, if set, is the first hour that is counted by slot. It is not stored. Without it a
	// history that is imported would leave a slot for each event of a rare type.
	from uint32
}

// slotsFrom is typeCounts.from at a time: no plot by slot shows an older hour.
func slotsFrom(now time.Time) uint32 { return ByHour.unit(now.UnixMilli()) - slotHours + 1 }

// slots returns the slots that have events, the newest first.
func (k *typeCounts) slots() ([]slotCount, error) {
	if k.newest.count == 0 {
		return nil, nil
	}
	slots := append(make([]slotCount, 0, 2+len(k.earlier)/2), k.newest)
	d := record.Decoder{B: k.earlier}
	for slot := k.newest.slot; len(d.B) > 0; {
		distance, count := d.Uint(), d.Uint()
		if distance == 0 || distance > uint64(slot) || count == 0 {
			return nil, record.Damaged("known type record: has its slots out of order, or one without events")
		}
		slot -= uint32(distance)
		slots = append(slots, slotCount{slot, count})
	}
	return slots, nil
}

func (k *typeCounts) setSlots(slots []slotCount) {
	k.newest, k.earlier = slotCount{}, nil
	for i, c := range slots {
		if i == 0 {
			k.newest, k.earlier = c, make([]byte, 0, 3*len(slots))
			continue
		}
		k.earlier = slotCount{slots[i-1].slot - c.slot, c.count}.add(k.earlier)
	}
}

// isOld reports whether an hour is older than those that a type counts by slot.
func (k *typeCounts) isOld(hour uint32) bool {
	return hour < k.from || k.newest.count > 0 && hour+slotHours <= k.newest.hour()
}

func findSlot(slots []slotCount, slot uint32) (int, bool) {
	return slices.BinarySearchFunc(slots, slot, func(c slotCount, slot uint32) int { return cmp.Compare(slot, c.slot) })
}

// add counts an event at p: in older if it is of an hour that is not counted by slot. settle
// must follow.
func (k *typeCounts) add(p record.Position, kind string, older hourCounts) error {
	k.count++
	k.last = record.LaterOf(k.last, p)
	slot := BySlot.unit(p.Millis())
	if k.newest.count > 0 && slot == k.newest.slot {
		k.newest.count++
		return nil
	}
	if k.isOld(slot / slotsOfHour) {
		older.add(slot/slotsOfHour, kind, 1)
		return nil
	}
	slots, err := k.slots()
	if err != nil {
		return err
	}
	i, has := findSlot(slots, slot)
	if !has {
		slots = slices.Insert(slots, i, slotCount{slot: slot})
	}
	slots[i].count++
	k.setSlots(slots)
	return nil
}

// settle moves what is no longer counted by slot to older, until that has hoursMax hours. The
// rest stays for a later Update.
func (k *typeCounts) settle(kind string, older hourCounts, hoursMax int) error {
	if len(k.earlier) == 0 {
		return nil
	}
	slots, err := k.slots()
	if err != nil {
		return err
	}
	k.setSlots(slices.DeleteFunc(slots, func(c slotCount) bool {
		_, has := older[c.hour()]
		if !k.isOld(c.hour()) || !has && len(older) >= hoursMax {
			return false
		}
		older.add(c.hour(), kind, int64(c.count))
		return true
	}))
	return nil
}

// take takes events of slots away. Those that are not counted by slot go to older.
func (k *typeCounts) take(taken map[uint32]uint64, kind string, older hourCounts) error {
	slots, err := k.slots()
	if err != nil {
		return err
	}
	for slot, n := range taken {
		i, has := findSlot(slots, slot)
		if has {
			of := min(n, slots[i].count)
			n, slots[i].count = n-of, slots[i].count-of
		}
		if n > 0 {
			older.add(slot/slotsOfHour, kind, -int64(n))
		}
	}
	k.setSlots(slices.DeleteFunc(slots, func(c slotCount) bool { return c.count == 0 }))
	return nil
}

func encodeTypeCounts(k typeCounts) []byte {
	e := record.Encoder{B: append(make([]byte, 0, 64+len(k.earlier)), knownTypeRecord)}
	e.Uint(k.count).Position(k.last)
	e.B = k.newest.add(e.B)
	e.Uint(uint64(len(k.earlier)))
	return append(e.B, k.earlier...)
}

// decodeTypeCounts returns typeCounts that share the memory of v.
func decodeTypeCounts(v []byte) (k typeCounts, err error) {
	d := record.NewDecoder("known type", knownTypeRecord, v)
	k.knownType = knownType{count: d.Uint(), last: d.Position()}
	slot := d.Uint()
	k.newest = slotCount{uint32(slot), d.Uint()}
	k.earlier = d.Take(d.Uint())
	if slot > math.MaxUint32 || k.newest.count == 0 && (slot > 0 || len(k.earlier) > 0) {
		d.Fail("has a slot without events")
	}
	return k, d.Done()
}

// readTypeCounts returns the zero typeCounts for a type without events.
func readTypeCounts(r kv.Reader, owner, typ string) (k typeCounts, err error) {
	v, err := r.Get(record.KnownTypesKey(owner).Str(typ))
	if err != nil {
		return k, record.GoneIsNil(err)
	}
	return decodeTypeCounts(v)
}

func writeTypeCounts(tx kv.Txn, owner, typ string, k typeCounts) error {
	return tx.Set(record.KnownTypesKey(owner).Str(typ), encodeTypeCounts(k), time.Time{})
}

// countEvent counts an event of a type, the newest of its log, within tx.
func countEvent(tx kv.Txn, owner, typ string, p record.Position) error {
	known, err := readTypeCounts(tx, owner, typ)
	if err != nil {
		return err
	}
	older := hourCounts{}
	if err := errors.Join(known.add(p, kindOf(typ), older), known.settle(kindOf(typ), older, updateHoursMax)); err != nil {
		return err
	}
	if err := writeTypeCounts(tx, owner, typ, known); err != nil {
		return err
	}
	return older.apply(tx, owner, allAccounts)
}

// hourCounts are changes of counts, by hour and kind.
type hourCounts map[uint32]map[string]int64

func (hc hourCounts) add(hour uint32, kind string, n int64) {
	if hc[hour] == nil {
		hc[hour] = map[string]int64{}
	}
	hc[hour][kind] += n
}

const (
	// hourWrites is how many records the change of an hour writes: the hour and its day,
	// of the account and of all.
	hourWrites = 4
	// updateHoursMax bounds the hours that one Update changes: with the largest records,
	// these are 600 KiB.
	updateHoursMax = 60
)

// apply changes the records of the hours and of their days, of the owners, within tx.
func (hc hourCounts) apply(tx kv.Txn, owners ...string) error {
	if len(hc) == 0 {
		return nil
	}
	var keys [][]byte
	hours := slices.Sorted(maps.Keys(hc))
	for _, hour := range hours {
		for _, owner := range owners {
			keys = append(keys, hourKey(owner, hour), dayKey(owner, hour))
		}
	}
	kv.Prefetch(tx, keys)
	changed := map[string]Tally{}
	for i, k := range keys {
		t, has := changed[string(k)]
		if !has {
			var err error
			t, err = readTally(tx, k)
			if err != nil && !errors.Is(err, kv.ErrCorrupt) {
				return err
			}
			// A damaged record starts from zero, so that no event is refused for it. RepairCounts
			// finds what it lacks.
		}
		kinds := hc[hours[i/2/len(owners)]]
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			t = t.plus(kind, kinds[kind])
		}
		changed[string(k)] = t
	}
	for _, k := range slices.Sorted(maps.Keys(changed)) {
		if err := writeTally(tx, record.Key(k), changed[k]); err != nil {
			return err
		}
	}
	return nil
}

func hourKey(owner string, hour uint32) record.Key {
	return record.CountsKey(owner, byte(ByHour)).Uint32(hour)
}

func dayKey(owner string, hour uint32) record.Key {
	return record.CountsKey(owner, byte(ByDay)).Uint32(hour / hoursOfDay)
}

// CountedUnit is the number of events in one unit of a grain.
type CountedUnit struct {
	Start time.Time
	Tally Tally
	// Unknown means that some events of the hour are no longer counted by slot: it was
	// not among the newest when the clock was stepped back to it.
	Unknown bool
}

// EventCounts returns the units of a grain in [from, to) that have
// events, in order, of one account or, for the owner "", of all. Slots are known for the
// current hour and the two before it.
func (l *Log) EventCounts(ctx context.Context, owner string, g Grain, from, to time.Time) (units []CountedUnit, err error) {
	first, end := g.unit(from.UnixMilli()), g.unit(to.UnixMilli()+g.Length().Milliseconds()-1)
	var found, older map[uint32]Tally
	err = l.db.View(ctx, func(r kv.Reader) (err error) {
		found = map[uint32]Tally{}
		if g == BySlot {
			older, err = storedCounts(r, owner, ByHour, first/slotsOfHour, end/slotsOfHour+1)
		} else {
			found, err = storedCounts(r, owner, g, first, end)
		}
		if err != nil {
			return err
		}
		return eachType(r, owner, func(typ string, slots []slotCount) {
			for _, c := range slots {
				if unit := g.ofSlot(c.slot); unit >= first && unit < end {
					found[unit] = found[unit].with(kindOf(typ), c.count)
				}
			}
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count events: %w", err)
	}
	for unit := first; unit < end && len(older) > 0; unit++ {
		if _, has := older[unit/slotsOfHour]; has {
			found[unit] = nil
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(found)) {
		units = append(units, CountedUnit{Start: g.start(unit), Tally: found[unit], Unknown: found[unit] == nil})
	}
	return units, nil
}

// storedCounts returns the records of an owner's hours or days in [first, end).
func storedCounts(r kv.Reader, owner string, g Grain, first, end uint32) (map[uint32]Tally, error) {
	found := map[uint32]Tally{}
	prefix := record.CountsKey(owner, byte(g))
	for k, v := range r.Scan(kv.Range{Lo: slices.Clone(prefix).Uint32(first), Hi: slices.Clone(prefix).Uint32(end)}) {
		t, err := decodeTally(v)
		if err != nil {
			return nil, err
		}
		found[record.Uint32At(k)] = t
	}
	return found, nil
}

// eachType reads the types of an account's log, or of all logs for the owner "".
func eachType(r kv.Reader, owner string, do func(typ string, slots []slotCount)) error {
	types := record.NewKey(record.TagKnownType)
	if owner != allAccounts {
		types = types.Str(owner)
	}
	for k, v := range r.Scan(types.All()) {
		known, err := decodeTypeCounts(v)
		if err != nil {
			return err
		}
		slots, err := known.slots()
		if err != nil {
			return err
		}
		_, name := record.CutString(k[1:])
		typ, _ := record.CutString(name)
		do(typ, slots)
	}
	return nil
}

// OwnerCount is the number of events of an account.
type OwnerCount struct {
	Owner string
	Count uint64
}

const busiestAmongMax = 1000 // accounts

// BusiestOwners returns up to n accounts with the most events in a range, as
// EventCounts counts them, the busiest first. If there are more than 1,000 accounts, it looks at
// the first.
func (l *Log) BusiestOwners(ctx context.Context, g Grain, from, to time.Time, n int) (busiest []OwnerCount, err error) {
	looked := 0
	errEnough := errors.New("enough accounts")
	err = l.eachHead(ctx, func(owner string, _ []byte) error {
		if looked++; looked > busiestAmongMax {
			return errEnough
		}
		units, err := l.EventCounts(ctx, owner, g, from, to)
		if err != nil {
			return err
		}
		c := OwnerCount{Owner: owner}
		for _, u := range units {
			c.Count += u.Tally.Total()
		}
		if c.Count > 0 {
			busiest = append(busiest, c)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	slices.SortStableFunc(busiest, func(a, b OwnerCount) int { return cmp.Compare(b.Count, a.Count) })
	return busiest[:min(len(busiest), n)], nil
}

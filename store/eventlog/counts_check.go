package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// RepairCounts counts every log again and corrects the records of hours and days that
// differ. differs reports whether there were any. A record that changes during the call is left
// to the next call. It may take minutes.
func (l *Log) RepairCounts(ctx context.Context) (differs bool, err error) {
	differs, err = l.repairCounts(ctx)
	if errors.Is(err, kv.ErrCorrupt) {
		differs = true
		if err = record.DeleteAll(ctx, l.db, record.NewKey(record.TagCounts).All()); err == nil {
			_, err = l.repairCounts(ctx)
		}
	}
	if err != nil {
		return differs, fmt.Errorf("check the counts of events: %w", err)
	}
	return differs, nil
}

// repairCounts compares the hours and days of each account with its log, and then those of
// all accounts with the hours of each.
func (l *Log) repairCounts(ctx context.Context) (differs bool, err error) {
	repair := func(find func(kv.Reader) (wrongCounts, error)) error {
		var wrong wrongCounts
		err := l.db.View(ctx, func(r kv.Reader) (err error) {
			wrong, err = find(r)
			return err
		})
		if err != nil {
			return err
		}
		differs = differs || len(wrong) > 0
		return wrong.repair(ctx, l.db)
	}
	err = l.eachHead(ctx, func(owner string, _ []byte) error {
		return repair(func(r kv.Reader) (wrongCounts, error) {
			if erasing, err := l.isErasing(r, owner); erasing || err != nil {
				return nil, err // its log and its counts are removed in steps
			}
			return wrongOf(r, owner)
		})
	})
	if err == nil {
		err = repair(wrongOfAll)
	}
	return differs, err
}

// wrongCounts are the records that differ, by key.
type wrongCounts map[string]wrongCount

type wrongCount struct{ is, want Tally }

// note notes the records of an owner that differ from what they should be.
func (wc wrongCounts) note(owner string, g Grain, is, want map[uint32]Tally) {
	for unit := range want {
		if _, has := is[unit]; !has {
			is[unit] = Tally{}
		}
	}
	for unit, t := range is {
		if !t.agrees(want[unit]) {
			wc[string(record.CountsKey(owner, byte(g)).Uint32(unit))] = wrongCount{t, want[unit]}
		}
	}
}

const repairBatchMax = 200 // records in one Update

func (wc wrongCounts) repair(ctx context.Context, db kv.DB) error {
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(wc)), repairBatchMax) {
		err := record.UpdateAs(ctx, db, kv.Ending, func(tx kv.Txn) error {
			for _, k := range keys {
				t, err := readTally(tx, record.Key(k))
				if err == nil && slices.Equal(t, wc[k].is) {
					err = writeTally(tx, record.Key(k), wc[k].want)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wrongOf compares an account's counts with its log: the records of hours have what the
// records of its types do not count by slot.
func wrongOf(r kv.Reader, owner string) (wrongCounts, error) {
	head, err := ReadHead(r, owner)
	if err != nil {
		return nil, err
	}
	hours := map[uint32]Tally{}
	err = eachType(r, owner, func(typ string, slots []slotCount) {
		counted := map[uint32]int64{}
		rows := stretch{list: eventsOfType(owner, typ), hi: through(head.last), keysOnly: true}
		for p := range rows.rows(r, head.Segments) {
			counted[ByHour.unit(p.Millis())]++
		}
		for _, c := range slots {
			counted[c.hour()] -= int64(c.count)
		}
		for hour, n := range counted {
			if hours[hour] = hours[hour].plus(kindOf(typ), n); len(hours[hour]) == 0 {
				delete(hours, hour)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return differing(r, owner, hours)
}

// wrongOfAll compares the counts of all accounts with the hours of each.
func wrongOfAll(r kv.Reader) (wrongCounts, error) {
	hours := map[uint32]Tally{}
	for k, v := range r.Scan(record.NewKey(record.TagCounts).All()) {
		owner, rest := record.CutString(k[1:])
		if owner == allAccounts || Grain(rest[0]) != ByHour {
			continue
		}
		t, err := decodeTally(v)
		if err != nil {
			return nil, err
		}
		hour := record.Uint32At(k)
		hours[hour] = hours[hour].Add(t)
	}
	return differing(r, allAccounts, hours)
}

// differing returns the records of an owner's hours and days that differ from hours.
func differing(r kv.Reader, owner string, hours map[uint32]Tally) (wrongCounts, error) {
	days := map[uint32]Tally{}
	for _, hour := range slices.Sorted(maps.Keys(hours)) {
		days[hour/hoursOfDay] = days[hour/hoursOfDay].Add(hours[hour])
	}
	wrong := wrongCounts{}
	for g, want := range map[Grain]map[uint32]Tally{ByHour: hours, ByDay: days} {
		is, err := storedCounts(r, owner, g, 0, math.MaxUint32)
		if err != nil {
			return nil, err
		}
		wrong.note(owner, g, is, want)
	}
	return wrong, nil
}

// DropCounts removes the counts of an account whose log is gone, also from those of
// all accounts. still is checked by every Update.
func (l *Log) DropCounts(ctx context.Context, owner string, still func(kv.Reader) error) error {
	db := record.GuardedDB{DB: l.db, Check: still}
	hours := record.CountsKey(owner, byte(ByHour)).All()
	hours.KeysOnly, hours.Limit = true, updateHoursMax
	for {
		var keys [][]byte
		err := l.db.View(ctx, func(r kv.Reader) error {
			keys = nil
			for k := range r.Scan(hours) {
				keys = append(keys, bytes.Clone(k))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			// What remains are days that a damaged hour left behind.
			return record.DeleteAll(ctx, db, record.NewKey(record.TagCounts).Str(owner).All())
		}
		err = record.UpdateAs(ctx, db, kv.Ending, func(tx kv.Txn) error { return dropHours(tx, owner, keys) })
		if err != nil {
			return err
		}
		hours.Lo = append(keys[len(keys)-1], 0)
	}
}

func dropHours(tx kv.Txn, owner string, keys [][]byte) error {
	gone := hourCounts{}
	kv.Prefetch(tx, keys)
	for _, k := range keys {
		t, err := readTally(tx, k)
		if err != nil && !errors.Is(err, kv.ErrCorrupt) {
			return err
		}
		for _, c := range t {
			gone.add(record.Uint32At(k), c.Kind, -int64(c.Count))
		}
	}
	return gone.apply(tx, owner, allAccounts)
}

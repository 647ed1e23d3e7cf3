package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// RepairCounts counts every log anew and compares, hour by hour. If the rollup differs
// from the log, or is damaged, it is thrown away and made again, and differs is true.
// It may take minutes.
func (l *Log) RepairCounts(ctx context.Context) (differs bool, err error) {
	if differs, err = l.countsDiffer(ctx); err == nil && differs {
		err = l.CatchUpCounts(ctx)
	}
	if err != nil {
		return differs, fmt.Errorf("check the counts of events: %w", err)
	}
	return differs, nil
}

// countsDiffer compares the rollup with the logs, and throws it away if it differs.
func (l *Log) countsDiffer(ctx context.Context) (differs bool, err error) {
	l.rollup.passing.Lock()
	defer l.rollup.passing.Unlock()
	if err := l.beginCounts(ctx); err != nil {
		return false, err
	}
	all := storedCounts{hours: map[uint32]Tally{}}
	err = l.eachHead(ctx, func(owner string, _ []byte) error {
		return l.db.View(ctx, func(r kv.Reader) error { return checkCounts(r, owner, &all) })
	})
	if err == nil {
		err = l.db.View(ctx, func(r kv.Reader) error {
			stored, err := readStoredCounts(r, allAccounts)
			if err != nil {
				return err
			}
			return stored.check(all.hours, nil)
		})
	}
	if !errors.Is(err, errCountsDiffer) && !errors.Is(err, kv.ErrCorrupt) {
		return false, err
	}
	return true, l.remakeCounts(ctx)
}

// checkCounts compares an account's counts with its log, up to the position that they
// have reached, and adds them to all. Errors: errCountsDiffer.
func checkCounts(r kv.Reader, owner string, all *storedCounts) error {
	stored, err := readStoredCounts(r, owner)
	if err != nil {
		return err
	}
	for hour, t := range stored.hours {
		all.hours[hour] = all.hours[hour].Add(t)
	}
	p := &accountPass{owner: owner}
	if p.was, err = readCounted(r, owner); err != nil || p.was.stopped {
		return err
	}
	dirty, err := p.dirtyHours(r, 0)
	if err != nil {
		return err
	}
	head, err := ReadHead(r, owner)
	if err != nil {
		return err
	}
	types, _, err := typesOf(r, owner)
	if err != nil {
		return err
	}
	fresh := map[uint32]Tally{}
	for _, t := range types {
		kind := kindOf(t.name)
		rows := stretch{list: eventsOfType(owner, t.name), hi: through(p.was.position), keysOnly: true}
		for at := range rows.rows(r, head.Segments) {
			hour := ByHour.unit(at.Millis())
			fresh[hour] = fresh[hour].with(kind, 1)
		}
	}
	return stored.check(fresh, dirty)
}

// storedCounts are the hours and days of an owner's counts.
type storedCounts struct{ hours, days map[uint32]Tally }

func readStoredCounts(r kv.Reader, owner string) (s storedCounts, err error) {
	read := func(g Grain) map[uint32]Tally {
		found := map[uint32]Tally{}
		for k, v := range r.Scan(record.CountsKey(owner, byte(g)).All()) {
			t, failed := decodeTally(v)
			err = errors.Join(err, failed)
			found[record.Uint32At(k)] = t
		}
		return found
	}
	s.hours, s.days = read(ByHour), read(ByDay)
	return s, err
}

// check compares the hours with fresh ones, except the dirty ones, and the days with
// the hours. Errors: errCountsDiffer.
func (s storedCounts) check(fresh map[uint32]Tally, dirty map[uint32]uint64) error {
	days := map[uint32]Tally{}
	for hour, t := range s.hours {
		days[hour/hoursOfDay] = days[hour/hoursOfDay].Add(t)
		if _, is := fresh[hour]; !is {
			fresh[hour] = nil
		}
	}
	for hour, t := range fresh {
		if _, is := dirty[hour]; !is && !t.agrees(s.hours[hour]) {
			return errCountsDiffer
		}
	}
	if !maps.EqualFunc(days, s.days, Tally.agrees) {
		return errCountsDiffer
	}
	return nil
}

// StopCounts stops counting the events of an account that is being erased. still is
// checked by every Update.
func (l *Log) StopCounts(ctx context.Context, owner string, still func(kv.Reader) error) error {
	l.rollup.passing.Lock()
	defer l.rollup.passing.Unlock()
	return record.GuardedDB{DB: l.db, Check: still}.Update(ctx, func(tx kv.Txn) error {
		done, err := readCounted(tx, owner)
		if err != nil {
			return err
		}
		done.stopped = true
		_, err = writeCounted(tx, owner, done)
		return err
	})
}

const dropHoursMax = 100 // hours removed in one Update

// DropCounts removes the counts of an account whose log is gone, also from those of
// all accounts. still is checked by every Update.
func (l *Log) DropCounts(ctx context.Context, owner string, still func(kv.Reader) error) error {
	db := record.GuardedDB{DB: l.db, Check: still}
	ru := &l.rollup
	ru.passing.Lock()
	defer ru.passing.Unlock()
	hours := record.CountsKey(owner, byte(ByHour)).All()
	hours.KeysOnly, hours.Limit = true, dropHoursMax
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
			break
		}
		err = db.Update(ctx, func(tx kv.Txn) error {
			m := tallies{tx: tx, read: map[string]Tally{}}
			for _, k := range keys {
				if _, _, err := m.setHour(owner, record.Uint32At(k), &hourCount{anew: true}); err != nil {
					return err
				}
			}
			return m.write()
		})
		if errors.Is(err, errCountsDiffer) || errors.Is(err, kv.ErrCorrupt) {
			err = errors.Join(l.remakeCounts(ctx), record.DeleteAll(ctx, db, record.NewKey(record.TagCounts).Str(owner).All()))
		}
		if err != nil {
			return err
		}
		hours.Lo = append(keys[len(keys)-1], 0)
	}
	ru.mu.Lock()
	defer ru.mu.Unlock()
	err := db.Update(ctx, func(tx kv.Txn) error {
		whole, err := readRollup(tx)
		if err == nil {
			_, err = writeCounted(tx, allAccounts, whole)
		}
		if err != nil {
			return err
		}
		return tx.Delete(record.CountedKey(owner))
	})
	if err == nil {
		delete(ru.behind, owner)
		ru.recent.forgetAll(owner)
	}
	return err
}

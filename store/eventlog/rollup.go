package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The rollup counts the events of each account by hour, by day and by kind, so that a
// plot of a year reads a few hundred records instead of the log. It is derived from the
// log and can be made again at any time.
//
// Recording an event writes nothing for it. A pass (rollup_pass.go) walks from the
// position that an account has reached to the head of its log and adds what it finds;
// counts and position are written in one Update. Whoever changes the log below the
// head, by an import, a purge or retention, marks the hours as dirty in the same
// Update, and a pass counts these hours anew. So the counts of an account are exact
// when its position is its head and no hour is dirty, even after a crash.
//
// The owner "" stands for all accounts: its hours, and every day, are moved by the
// difference that an account's hour makes, in the same Update.
//
// Several processes may count in one store. Each write of an account's counts raises
// the number of writes in its position's record, and whoever finds another number than
// it has read gives up and reads again.

// Grain is the length of time over which events are counted together.
type Grain byte

const (
	BySlot Grain = 's' // two minutes; in memory, of the newest three hours
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

// start returns when a grain begins.
func (g Grain) start(unit uint32) time.Time {
	return time.UnixMilli(int64(unit) * g.Length().Milliseconds()).UTC()
}

const (
	slotsOfHour = 30
	hoursOfDay  = 24
)

// rollup is what a Log keeps in memory about its rollup.
type rollup struct {
	every time.Duration // between passes

	passing   sync.Mutex // held to change counts
	updateMax int        // hours written in one Update
	pace      pace
	remade    bool   // since the log was opened
	last      string // the account that was counted last

	mu     sync.Mutex
	begun  bool              // the rollup exists, and behind is complete
	behind map[string]uint64 // events not yet counted, by account; no account has 0
	wake   chan struct{}
	recent recentCounts
}

const (
	countsEveryDefault = time.Second
	countsRetry        = time.Minute // after an error
	updateHoursMax     = 150         // with days, marks and all accounts, 751 writes
)

func (ru *rollup) init(every time.Duration) {
	if every == 0 {
		every = countsEveryDefault
	}
	ru.every, ru.updateMax = every, updateHoursMax
	ru.behind, ru.wake = map[string]uint64{}, make(chan struct{}, 1)
	ru.recent.init()
}

// changed notes that n events of an account were recorded or removed. It is called
// after the commit.
func (ru *rollup) changed(owner string, n int) {
	ru.mu.Lock()
	defer ru.mu.Unlock()
	ru.behind[owner] += uint64(n)
	ru.signal()
}

// hasSeen reports whether this process has counted up to a position by slot.
func (ru *rollup) hasSeen(owner string, p record.Position) bool {
	ru.mu.Lock()
	defer ru.mu.Unlock()
	return ru.recent.seen[owner].was.position == p
}

func (ru *rollup) signal() {
	select {
	case ru.wake <- struct{}{}:
	default: // a signal is already pending
	}
}

// RunCounts keeps the rollup up to date until ctx is done.
func (l *Log) RunCounts(ctx context.Context) {
	if l.rollup.every < 0 {
		return
	}
	rest := time.NewTimer(l.rollup.every)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
		case <-ctx.Done():
			return
		}
		wait := l.rollup.every
		if err := l.CatchUpCounts(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("events not counted", "err", err)
			wait = countsRetry
			l.rollup.signal()
		}
		rest.Reset(wait)
		select {
		case <-l.rollup.wake:
		case <-ctx.Done():
			return
		}
	}
}

// CatchUpCounts counts the events that are not yet counted.
func (l *Log) CatchUpCounts(ctx context.Context) error {
	for {
		more, err := l.countPass(ctx)
		if err != nil {
			return fmt.Errorf("count events: %w", err)
		}
		if !more {
			return nil
		}
	}
}

// CountedUnit is the number of events in one unit of a grain.
type CountedUnit struct {
	Start time.Time
	Tally Tally
	// Unknown means that the events were too many to be kept in memory by slot.
	Unknown bool
}

// EventCounts returns the units of a grain from from on and before to that have
// events, in order, of one account or, for the owner "", of all. behind is the number
// of events that are not counted yet; the counts are exact when it is 0. Slots exist
// for the current hour and the two before it.
func (l *Log) EventCounts(ctx context.Context, owner string, g Grain, from, to time.Time) (units []CountedUnit, behind uint64, err error) {
	first, end := g.unit(from.UnixMilli()), g.unit(to.UnixMilli()+g.Length().Milliseconds()-1)
	if behind, err = l.eventsBehind(ctx, owner); err != nil {
		return nil, 0, err
	}
	if g == BySlot {
		return l.rollup.recentUnits(owner, first, end), behind, nil
	}
	prefix := record.CountsKey(owner, byte(g))
	r := kv.Range{Lo: append(record.Key(nil), prefix...).Uint32(first), Hi: append(record.Key(nil), prefix...).Uint32(end)}
	err = l.db.View(ctx, func(rd kv.Reader) error {
		units = units[:0]
		for k, v := range rd.Scan(r) {
			t, err := decodeTally(v)
			if err != nil {
				return err
			}
			units = append(units, CountedUnit{Start: g.start(record.Uint32At(k)), Tally: t})
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("count events: %w", err)
	}
	return units, behind, nil
}

// eventsBehind returns the number of an account's events that are not counted yet; the
// owner "" has those of all.
func (l *Log) eventsBehind(ctx context.Context, owner string) (n uint64, err error) {
	ru := &l.rollup
	if !l.hasRecent() {
		ru.passing.Lock()
		err = l.beginCounts(ctx)
		ru.passing.Unlock()
		if err != nil {
			return 0, fmt.Errorf("count events: %w", err)
		}
	}
	ru.mu.Lock()
	defer ru.mu.Unlock()
	if owner != allAccounts {
		return ru.behind[owner], nil
	}
	for _, events := range ru.behind {
		n += events
	}
	return n, nil
}

// hasRecent reports whether the rollup has begun, and drops slots that are no longer
// recent. When the clock was stepped back, it must begin again.
func (l *Log) hasRecent() bool {
	ru := &l.rollup
	ru.mu.Lock()
	defer ru.mu.Unlock()
	ru.begun = ru.begun && ru.recent.advance(l.firstRecent())
	return ru.begun
}

// firstRecent is the first hour that is counted by slot: a plot of the last hour is
// compared with the hour before it.
func (l *Log) firstRecent() uint32 { return ByHour.unit(l.now().UnixMilli()) - 2 }

// hours is a set of hours since the Unix epoch.
type hours map[uint32]struct{}

func (h hours) add(p record.Position) { h[ByHour.unit(p.Millis())] = struct{}{} }

// raise marks an account's hours as dirty: their events have changed below the head,
// in tx. Each mark counts how often it was raised, so that a pass takes away only a
// mark that it has seen.
func (h hours) raise(tx kv.Txn, owner string) error {
	for hour := range h {
		k := record.DirtyHoursKey(owner).Uint32(hour)
		raised, err := readMark(tx, k)
		if err != nil {
			return err
		}
		if err := tx.Set(k, encodeMark(raised+1), time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// beginCounts finds the accounts that have events to count. Without a rollup, or with one
// of another version, it starts from nothing. The caller holds
// passing.
func (l *Log) beginCounts(ctx context.Context) error {
	ru := &l.rollup
	if l.hasRecent() {
		return nil
	}
	var whole counted
	err := l.db.View(ctx, func(r kv.Reader) (err error) {
		whole, err = readRollup(r)
		return err
	})
	if err == nil && whole.stopped {
		err = l.clearCounts(ctx)
	}
	if err != nil {
		return err
	}
	recent := l.firstRecent()
	behind := map[string]uint64{}
	err = l.eachHead(ctx, func(owner string, v []byte) error {
		head, err := decodeEventHead(v)
		if err != nil {
			return err
		}
		n, err := l.uncounted(ctx, owner, head)
		if ByHour.unit(head.last.Millis()) >= recent {
			n = max(n, 1) // for its slots
		}
		if n > 0 {
			behind[owner] = n
		}
		return err
	})
	if err != nil {
		return err
	}
	ru.mu.Lock()
	defer ru.mu.Unlock()
	for owner, n := range ru.behind { // changed while the heads were read
		behind[owner] = max(behind[owner], n)
	}
	ru.behind, ru.begun = behind, true
	ru.recent.begin(recent)
	ru.signal()
	return nil
}

// uncounted returns the number of an account's events that are not counted, at least 1
// if it needs a pass for another reason.
func (l *Log) uncounted(ctx context.Context, owner string, head Head) (n uint64, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		done, err := readCounted(r, owner)
		if err != nil || done.stopped {
			return err
		}
		_, total, err := typesOf(r, owner)
		if err != nil {
			return err
		}
		dirty := record.DirtyHoursKey(owner).All()
		dirty.KeysOnly, dirty.Limit = true, 1
		n = 0
		for range r.Scan(dirty) {
			n = 1
		}
		if done.events != total || done.position != head.last {
			n = max(1, total-min(total, done.events))
		}
		return nil
	})
	return n, err
}

// clearCounts removes the rollup and starts a new one. A rollup that is half removed is
// still stopped. Other processes may remove it too, until one starts the new one.
func (l *Log) clearCounts(ctx context.Context) error {
	var stopped counted
	err := l.db.Update(ctx, func(tx kv.Txn) (err error) {
		if stopped, err = readRollup(tx); err != nil || stopped.writes > 0 {
			return err
		}
		stopped, err = writeCounted(tx, allAccounts, stopped)
		return err
	})
	if err != nil {
		return err
	}
	positions := record.NewKey(record.TagCounted).All()
	positions.Lo = append(record.CountedKey(allAccounts), 0)
	clearing := record.GuardedDB{DB: l.db, Check: func(r kv.Reader) error { return mustBeAt(r, allAccounts, stopped) }}
	err = record.DeleteAll(ctx, clearing, record.NewKey(record.TagCounts).All(), positions, record.NewKey(record.TagDirtyHour).All())
	if err == nil {
		err = clearing.Update(ctx, func(tx kv.Txn) error {
			_, err := writeCounted(tx, allAccounts, counted{writes: stopped.writes})
			return err
		})
	}
	if errors.Is(err, errCountsMoved) { // another process has started it
		return nil
	}
	return err
}

// remakeCounts throws the rollup away; the next pass begins a new one. The caller holds
// passing.
func (l *Log) remakeCounts(ctx context.Context) error {
	ru := &l.rollup
	err := l.db.Update(ctx, func(tx kv.Txn) error {
		whole, err := readRollup(tx)
		if err != nil || whole.stopped {
			return err
		}
		whole.stopped = true
		_, err = writeCounted(tx, allAccounts, whole)
		return err
	})
	ru.mu.Lock()
	defer ru.mu.Unlock()
	ru.begun, ru.remade = false, true
	ru.signal()
	l.log.Warn("counts of events differed from the log and are made again")
	return err
}

// OwnerCount is the number of events of an account.
type OwnerCount struct {
	Owner string
	Count uint64
}

const busiestAmongMax = 1000 // accounts

// BusiestOwners returns up to n accounts with the most events in a range, as
// EventCounts counts them, the busiest first. Of more than 1,000 accounts it looks at
// the first.
func (l *Log) BusiestOwners(ctx context.Context, g Grain, from, to time.Time, n int) (busiest []OwnerCount, err error) {
	looked := 0
	errEnough := errors.New("enough accounts")
	err = l.eachHead(ctx, func(owner string, _ []byte) error {
		if looked++; looked > busiestAmongMax {
			return errEnough
		}
		units, _, err := l.EventCounts(ctx, owner, g, from, to)
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

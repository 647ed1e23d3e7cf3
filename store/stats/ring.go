package stats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Ring counts what the server does, by two minutes, hours and days. It counts in
// memory and once a minute adds that to the records of the hour and the day, so a crash
// loses a minute, and servers that share an engine count together. A time in which no
// server ran has no record, and is unknown.
type Ring struct {
	db   kv.DB
	now  func() time.Time
	log  *slog.Logger
	wake chan struct{} // the ring has begun

	writing  sync.Mutex // held while counts go to the store, and while both are read
	stripped uint32     // the hour in which old hours were last stripped; guarded by writing

	mu      sync.Mutex
	sample  func() Disk        // nil until the ring begins
	hour    uint32             // the newest one
	fresh   map[uint32]*counts // by slot: what is not yet written
	sampled Disk               // the last sample
	at      uint32             // its slot
}

const (
	writeEvery = time.Minute
	writeAfter = time.Second // the first write, which must not delay the start
)

// NewRing returns a Ring over db. It counts nothing before Begin.
func NewRing(db kv.DB, now func() time.Time, log *slog.Logger) *Ring {
	return &Ring{db: db, now: now, log: log, wake: make(chan struct{}, 1), fresh: map[uint32]*counts{}}
}

// Begin starts to count, for a server that serves. sample returns the space of the
// store.
func (r *Ring) Begin(sample func() Disk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sample = sample
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Count counts a request. It does not block on the store.
func (r *Ring) Count(rq Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sample == nil || !rq.Served && rq.SignIn == NoSignIn && rq.Grant == NoGrant {
		return
	}
	slot := r.slot()
	if r.fresh[slot] == nil {
		r.fresh[slot] = &counts{}
	}
	r.fresh[slot].count(rq)
}

// Run writes the counts, once Begin was called, every minute and when ctx is done.
func (r *Ring) Run(ctx context.Context) {
	select {
	case <-r.wake:
	case <-ctx.Done():
	}
	write := context.WithoutCancel(ctx)
	timer := time.NewTimer(writeAfter)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if err := r.Write(write); err != nil {
			r.log.Warn("counts of requests not written", "err", err)
		}
		if ctx.Err() != nil {
			return
		}
		now := r.now()
		timer.Reset(now.Truncate(writeEvery).Add(writeEvery).Sub(now))
	}
}

// Write samples the space of the store, and writes what was counted since the last
// write.
func (r *Ring) Write(ctx context.Context) error {
	r.mu.Lock()
	sample := r.sample
	r.mu.Unlock()
	if sample == nil {
		return nil
	}
	disk := sample() // may take time
	r.writing.Lock()
	defer r.writing.Unlock()
	taken, running := r.take(disk)
	for _, hour := range slices.Sorted(maps.Keys(taken)) {
		err := r.db.Update(ctx, func(tx kv.Txn) error { return addHour(tx, hour, taken[hour], hour+1 >= running) })
		if err != nil {
			if !errors.Is(err, kv.ErrUnknownOutcome) { // it may be there: better a minute too few than one twice
				r.putBack(taken)
			}
			return fmt.Errorf("write the counts of requests: %w", err)
		}
		delete(taken, hour)
	}
	if err := r.strip(ctx, running); err != nil {
		return fmt.Errorf("write the counts of requests: %w", err)
	}
	return nil
}

// take returns what is to be written, by hour and slot, and the running hour.
func (r *Ring) take(disk Disk) (taken map[uint32]map[uint32]*counts, running uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := r.slot()
	if r.fresh[slot] == nil && (r.at != slot || r.sampled != disk) {
		r.fresh[slot] = &counts{}
	}
	if c := r.fresh[slot]; c != nil {
		c.disk, r.sampled, r.at = disk, disk, slot
	}
	taken = map[uint32]map[uint32]*counts{}
	for slot, c := range r.fresh {
		hour := slot / slotsOfHour
		if taken[hour] == nil {
			taken[hour] = map[uint32]*counts{}
		}
		taken[hour][slot] = c
	}
	r.fresh = map[uint32]*counts{}
	return taken, r.hour
}

// putBack returns what could not be written.
func (r *Ring) putBack(taken map[uint32]map[uint32]*counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, slots := range taken {
		for slot, c := range slots {
			if later := r.fresh[slot]; later != nil {
				c = c.plus(later)
			}
			r.fresh[slot] = c
		}
	}
}

// addHour adds slots to the records of their hour and its day. Only a recent hour keeps
// its slots.
func addHour(tx kv.Txn, hour uint32, slots map[uint32]*counts, recent bool) error {
	k, err := readKept(tx, byte(eventlog.ByHour), hour)
	if err != nil {
		return err
	}
	hasSlots := recent && (k == nil || len(k.slots) > 0)
	if k == nil {
		k = &kept{slots: map[uint32]*counts{}}
	}
	var added counts
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		added.add(slots[slot])
		k.slots[slot] = k.slots[slot].plus(slots[slot])
	}
	k.sum.add(&added)
	if !hasSlots {
		k.slots = nil
	}
	if err := writeKept(tx, byte(eventlog.ByHour), hour, *k); err != nil {
		return err
	}
	day, err := readKept(tx, byte(eventlog.ByDay), hour/hoursOfDay)
	if err != nil {
		return err
	}
	if day != nil {
		added = *day.sum.plus(&added)
	}
	return writeKept(tx, byte(eventlog.ByDay), hour/hoursOfDay, kept{sum: added})
}

const hoursOfDay = 24

func unitOf(g eventlog.Grain, at time.Time) uint32 {
	return uint32(at.UnixMilli() / g.Length().Milliseconds())
}

// slot returns the running slot. A clock that was stepped back counts in the newest
// hour.
func (r *Ring) slot() uint32 {
	now := r.now()
	hour := unitOf(eventlog.ByHour, now)
	if hour < r.hour {
		return r.hour * slotsOfHour
	}
	r.hour = hour
	return unitOf(eventlog.BySlot, now)
}

// strip reduces, once an hour, the records of hours to their sums, but for those of the
// running hour and the one before.
func (r *Ring) strip(ctx context.Context, running uint32) error {
	if r.stripped == running {
		return nil
	}
	var hours []uint32
	err := r.db.View(ctx, func(rd kv.Reader) (err error) {
		hours, err = unstripped(rd, running-1)
		return err
	})
	if err == nil && len(hours) > 0 {
		err = r.db.Update(ctx, func(tx kv.Txn) error { return stripSlots(tx, hours) })
	}
	if err == nil {
		r.stripped = running
	}
	return err
}

func stripSlots(tx kv.Txn, hours []uint32) error {
	for _, hour := range hours {
		k, err := readKept(tx, byte(eventlog.ByHour), hour)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		if err := writeKept(tx, byte(eventlog.ByHour), hour, kept{sum: k.sum}); err != nil {
			return err
		}
	}
	return nil
}

// unstripped returns the hours before one that have their slots: at most two, the recent
// ones when a server last wrote.
func unstripped(rd kv.Reader, before uint32) (strip []uint32, err error) {
	hours := record.RingKey(byte(eventlog.ByHour))
	newest := kv.Range{Lo: hours, Hi: record.RingKey(byte(eventlog.ByHour)).Uint32(before), Reverse: true, Limit: 2}
	for k, v := range rd.Scan(newest) {
		hour := record.Uint32At(k)
		rec, err := decodeKept(hour, v)
		if err != nil {
			return nil, err
		}
		if len(rec.slots) > 0 {
			strip = append(strip, hour)
		}
	}
	return strip, nil
}

// Trim removes the counts of hours and days that ended before a time.
func (r *Ring) Trim(ctx context.Context, before time.Time) error {
	var ranges []kv.Range
	for _, g := range []eventlog.Grain{eventlog.ByHour, eventlog.ByDay} {
		old := record.RingKey(byte(g)).All()
		old.Hi = record.RingKey(byte(g)).Uint32(unitOf(g, before))
		ranges = append(ranges, old)
	}
	if err := record.DeleteAll(ctx, r.db, ranges...); err != nil {
		return fmt.Errorf("trim the counts of requests: %w", err)
	}
	return nil
}

// units returns the counts of each unit of a grain in a range that was counted.
func (r *Ring) units(ctx context.Context, rg Range) (found map[time.Time]*counts, err error) {
	g := rg.grain
	stored := g
	if g == eventlog.BySlot {
		stored = eventlog.ByHour
	}
	rows := kv.Range{Lo: record.RingKey(byte(stored)).Uint32(unitOf(stored, rg.From())), Hi: record.RingKey(byte(stored)).Uint32(unitOf(stored, rg.End) + 1)}
	units := map[uint32]*counts{}
	r.writing.Lock()
	defer r.writing.Unlock()
	err = r.db.View(ctx, func(rd kv.Reader) error {
		for k, v := range rd.Scan(rows) {
			unit := record.Uint32At(k)
			rec, err := decodeKept(unit, v)
			if err != nil {
				return err
			}
			if g == eventlog.BySlot {
				maps.Copy(units, rec.slots)
				continue
			}
			units[unit] = &rec.sum
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the counts of requests: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, slot := range slices.Sorted(maps.Keys(r.fresh)) {
		unit := unitOf(g, time.UnixMilli(int64(slot)*eventlog.BySlot.Length().Milliseconds()))
		units[unit] = units[unit].plus(r.fresh[slot])
	}
	found = map[time.Time]*counts{}
	for unit, c := range units {
		start := time.UnixMilli(int64(unit) * g.Length().Milliseconds()).UTC()
		if !start.Before(rg.From()) && start.Before(rg.End) {
			found[start] = c
		}
	}
	return found, nil
}

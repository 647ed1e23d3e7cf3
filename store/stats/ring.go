package stats

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Ring counts what the server does, by two minutes, hours and days. It counts in
// memory and writes the running hour once a minute, so a crash loses a minute. A time
// in which no server ran has no record, and is unknown.
type Ring struct {
	db   kv.DB
	now  func() time.Time
	log  *slog.Logger
	wake chan struct{} // the ring has begun

	writing sync.Mutex

	mu      sync.Mutex
	sample  func() Disk // nil until the ring begins
	loaded  bool
	changed bool
	hour    uint32             // the running one
	slots   map[uint32]*counts // of the running hour and the one before
	days    map[uint32]*counts // of the ended hours of this day and, until written, of the one before
	pending pending
}

// pending is what the next write does besides writing the running hour.
type pending struct {
	ended map[uint32]kept // hours to be written for the last time
	strip []uint32        // hours that lose their slots
}

const (
	writeEvery = time.Minute
	writeAfter = time.Second // the first write, which must not delay the start
)

// NewRing returns a Ring over db. It counts nothing before Begin.
func NewRing(db kv.DB, now func() time.Time, log *slog.Logger) *Ring {
	return &Ring{db: db, now: now, log: log, wake: make(chan struct{}, 1), slots: map[uint32]*counts{}, days: map[uint32]*counts{}, pending: pending{ended: map[uint32]kept{}}}
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
	r.slot(r.now()).count(rq)
	r.changed = true
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

// Write samples the space of the store, and writes what has changed since the last
// write.
func (r *Ring) Write(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	sample := r.sample
	r.mu.Unlock()
	if sample == nil {
		return nil
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	disk := sample() // may take time
	records, taken := r.take(disk)
	if len(records) == 0 {
		return nil
	}
	err := r.db.Update(ctx, func(tx kv.Txn) error {
		for _, rec := range records {
			if err := tx.Set(rec.Key, rec.Value, time.Time{}); err != nil {
				return err
			}
		}
		return stripSlots(tx, taken.strip)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.changed = true
		maps.Copy(r.pending.ended, taken.ended)
		r.pending.strip = append(r.pending.strip, taken.strip...)
		return fmt.Errorf("write the counts of requests: %w", err)
	}
	for day := range r.days {
		if day+1 < r.hour/hoursOfDay {
			delete(r.days, day)
		}
	}
	return nil
}

// take returns the records to write and what was pending.
func (r *Ring) take(disk Disk) (records []kv.Record, taken pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, had := r.slots[unitOf(eventlog.BySlot, r.now())]
	if slot := r.slot(r.now()); !had || slot.disk != disk {
		slot.disk, r.changed = disk, true
	}
	if !r.changed {
		return nil, pending{}
	}
	r.changed = false
	taken, r.pending = r.pending, pending{ended: map[uint32]kept{}}
	days := map[uint32]struct{}{r.hour / hoursOfDay: {}}
	add := func(g eventlog.Grain, unit uint32, k kept) {
		records = append(records, kv.Record{Key: record.RingKey(byte(g)).Uint32(unit), Value: encodeKept(unit, k)})
	}
	for hour, k := range taken.ended {
		add(eventlog.ByHour, hour, k)
		days[hour/hoursOfDay] = struct{}{}
	}
	add(eventlog.ByHour, r.hour, r.keptHour(r.hour))
	for day := range days {
		add(eventlog.ByDay, day, kept{sum: *r.keptDay(day)})
	}
	return records, taken
}

// keptHour returns a recent hour from memory.
func (r *Ring) keptHour(hour uint32) kept {
	k := kept{slots: map[uint32]*counts{}}
	for slot := hour * slotsOfHour; slot < (hour+1)*slotsOfHour; slot++ {
		if c := r.slots[slot]; c != nil {
			k.slots[slot] = c
			k.sum.add(c)
		}
	}
	return k
}

// keptDay returns a recent day from memory, or nil if it was not counted.
func (r *Ring) keptDay(day uint32) *counts {
	running := r.keptHour(r.hour)
	isToday := r.hour/hoursOfDay == day && len(running.slots) > 0
	if r.days[day] == nil && !isToday {
		return nil
	}
	sum := counts{}
	if ended := r.days[day]; ended != nil {
		sum = *ended
	}
	if isToday {
		sum.add(&running.sum)
	}
	return &sum
}

const hoursOfDay = 24

func unitOf(g eventlog.Grain, at time.Time) uint32 {
	return uint32(at.UnixMilli() / g.Length().Milliseconds())
}

// slot returns the counts of the running slot. A clock that was stepped back counts in
// the newest hour.
func (r *Ring) slot(now time.Time) *counts {
	hour, slot := unitOf(eventlog.ByHour, now), unitOf(eventlog.BySlot, now)
	if hour < r.hour {
		hour, slot = r.hour, r.hour*slotsOfHour
	}
	if hour > r.hour {
		r.advance(hour)
	}
	c := r.slots[slot]
	if c == nil {
		c = &counts{}
		r.slots[slot] = c
	}
	return c
}

// advance ends the running hour.
func (r *Ring) advance(hour uint32) {
	if ended := r.keptHour(r.hour); len(ended.slots) > 0 {
		r.addToDay(r.hour, &ended.sum)
		r.pending.ended[r.hour] = ended
	}
	for _, old := range []uint32{r.hour - 1, r.hour} {
		if old+1 < hour && len(r.keptHour(old).slots) > 0 {
			r.pending.strip = append(r.pending.strip, old)
		}
	}
	for slot := range r.slots {
		if slot/slotsOfHour+1 < hour {
			delete(r.slots, slot)
		}
	}
	r.hour = hour
}

func (r *Ring) addToDay(hour uint32, sum *counts) {
	day := hour / hoursOfDay
	if r.days[day] == nil {
		r.days[day] = &counts{}
	}
	r.days[day].add(sum)
}

// stripSlots reduces the records of hours to their sums.
func stripSlots(tx kv.Txn, hours []uint32) error {
	for _, hour := range hours {
		k, err := readKept(tx, byte(eventlog.ByHour), hour)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		if err := tx.Set(record.RingKey(byte(eventlog.ByHour)).Uint32(hour), encodeKept(hour, kept{sum: k.sum}), time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// load reads what an earlier process has written of the running day.
func (r *Ring) load(ctx context.Context) error {
	r.mu.Lock()
	loaded := r.loaded
	r.mu.Unlock()
	if loaded {
		return nil
	}
	hour := unitOf(eventlog.ByHour, r.now())
	var slots map[uint32]*counts
	var today *counts
	var strip []uint32
	err := r.db.View(ctx, func(rd kv.Reader) error {
		slots, today = map[uint32]*counts{}, nil
		for at := hour - hour%hoursOfDay; at < hour; at++ {
			k, err := readKept(rd, byte(eventlog.ByHour), at)
			if err != nil {
				return err
			}
			if k != nil {
				today = today.plus(&k.sum)
			}
		}
		for _, recent := range []uint32{hour - 1, hour} {
			k, err := readKept(rd, byte(eventlog.ByHour), recent)
			if err != nil {
				return err
			}
			if k != nil {
				maps.Copy(slots, k.slots)
			}
		}
		var err error
		strip, err = unstripped(rd, hour-1)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the counts of requests: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return nil
	}
	for slot, c := range r.slots { // counted before
		if slots[slot] != nil {
			slots[slot].add(c)
			continue
		}
		slots[slot] = c
	}
	r.loaded, r.hour, r.slots, r.pending.strip = true, max(hour, r.hour), slots, append(r.pending.strip, strip...)
	if today != nil {
		r.addToDay(hour, today)
	}
	return nil
}

// unstripped returns the hours before one that have their slots, of those that an
// earlier process can have left.
func unstripped(rd kv.Reader, before uint32) (strip []uint32, err error) {
	hours := record.RingKey(byte(eventlog.ByHour))
	newest := kv.Range{Lo: hours, Hi: record.RingKey(byte(eventlog.ByHour)).Uint32(before), Reverse: true, Limit: 2}
	for k, v := range rd.Scan(newest) {
		hour := unitAt(k)
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

// unitAt returns the unit that ends a key.
func unitAt(k []byte) uint32 {
	var n uint32
	for _, b := range k[len(k)-4:] {
		n = n<<8 | uint32(b)
	}
	return n
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
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	found = map[time.Time]*counts{}
	g := rg.grain
	at := func(unit uint32) time.Time { return time.UnixMilli(int64(unit) * g.Length().Milliseconds()).UTC() }
	if g != eventlog.BySlot {
		stored := kv.Range{Lo: record.RingKey(byte(g)).Uint32(unitOf(g, rg.From())), Hi: record.RingKey(byte(g)).Uint32(unitOf(g, rg.End))}
		err = r.db.View(ctx, func(rd kv.Reader) error {
			for k, v := range rd.Scan(stored) {
				unit := unitAt(k)
				rec, err := decodeKept(unit, v)
				if err != nil {
					return err
				}
				found[at(unit)] = &rec.sum
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the counts of requests: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch g {
	case eventlog.BySlot:
		for slot, c := range r.slots {
			same := *c
			found[at(slot)] = &same
		}
	case eventlog.ByHour:
		for hour, k := range r.pending.ended {
			found[at(hour)] = &k.sum
		}
		for _, hour := range []uint32{r.hour - 1, r.hour} {
			if k := r.keptHour(hour); len(k.slots) > 0 {
				found[at(hour)] = &k.sum
			}
		}
	case eventlog.ByDay:
		for _, day := range []uint32{r.hour/hoursOfDay - 1, r.hour / hoursOfDay} {
			if sum := r.keptDay(day); sum != nil {
				found[at(day)] = sum
			}
		}
	}
	for start := range found {
		if start.Before(rg.From()) || !start.Before(rg.End) {
			delete(found, start)
		}
	}
	return found, nil
}

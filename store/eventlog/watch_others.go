package eventlog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// On an engine that several processes share, each one sends a note about every commit,
// and once a second looks at the heads of the logs that have live readers in it. The
// note is fast and may be lost; the look is what readers rely on. A head does not show
// where events were recorded below it: the note does. If none arrived for a generation
// of the log, readers get the whole log as the span.

// others is how this process exchanges notes with those that share its engine.
type others struct {
	engine kv.Caller // nil if the engine is not shared
	self   secret.ID // of this process; it also receives its own notes
	look   chan struct{}
}

func (o *others) init(db kv.DB) {
	if engine, shared := db.(kv.Caller); shared {
		o.engine, o.self, o.look = engine, secret.NewID(nil), make(chan struct{}, 1)
	}
}

const (
	pollEvery  = time.Second     // between two looks at the heads of watched logs
	headsEvery = 5 * time.Second // between two looks at all heads
)

// polled is what the looks at a log's head have shown.
type polled struct {
	begun bool
	head  record.Position // the newest event
	// A note is missing if its generation was shown by one regular look and not heard of
	// by the next.
	accounted uint64 // for every generation up to this one
	shown     uint64
	raised    map[uint64]struct{} // generations heard of, after accounted
}

// raisedMax bounds the generations of a log between two looks. More count as missed.
const raisedMax = 1 << 14

func (p *polled) heard(generation uint64) {
	if generation <= p.accounted || len(p.raised) >= raisedMax {
		return
	}
	p.raised[generation] = struct{}{}
}

// saw takes what a look has shown. It reports whether there are new events and, at a
// regular look, whether events were recorded below the head without a note.
func (p *polled) saw(v Version, regular bool) (moved, missed bool) {
	moved, p.head = v.Head != p.head, v.Head
	if !regular {
		return moved, false
	}
	if v.Generation < p.accounted { // the account was deleted and created again
		p.accounted, p.shown = v.Generation, v.Generation
		clear(p.raised)
	}
	for g := p.accounted + 1; g <= p.shown && !missed; g++ {
		_, heard := p.raised[g]
		missed = !heard
	}
	p.accounted, p.shown = p.shown, v.Generation
	maps.DeleteFunc(p.raised, func(g uint64, _ struct{}) bool { return g <= p.accounted })
	return moved, missed
}

// announce wakes the live readers of this process and sends the others a note.
func (l *Log) announce(c logChange) {
	l.watches.notify(c)
	if l.others.engine != nil {
		l.others.engine.Call(encodeNote(l.others.self, c))
	}
}

const noteRecord = 1

func encodeNote(from secret.ID, c logChange) []byte {
	e := record.NewEncoder(noteRecord).ID(from).Str(c.owner).Uint(c.raised).Bool(c.backfill != nil)
	if c.backfill != nil {
		e.Position(c.backfill.First).Position(c.backfill.Last)
	}
	return e.B
}

func decodeNote(note []byte) (from secret.ID, c logChange, err error) {
	d := record.NewDecoder("note", noteRecord, note)
	from, c.owner, c.raised = d.ID(), d.Str(), d.Uint()
	if d.Bool() {
		c.backfill = &Span{First: d.Position(), Last: d.Position()}
	}
	return from, c, d.Done()
}

// RunWatches wakes live readers after commits of other processes, until ctx is done. On
// an engine that is not shared it does nothing.
func (l *Log) RunWatches(ctx context.Context) {
	if l.others.engine == nil {
		return
	}
	var hearing sync.WaitGroup
	hearing.Go(func() { l.others.engine.Hear(ctx, l.hear) })
	defer hearing.Wait()
	tick, all := time.NewTicker(pollEvery), time.NewTicker(headsEvery)
	defer tick.Stop()
	defer all.Stop()
	for {
		regular := false
		select {
		case <-tick.C:
			regular = true
		case <-all.C:
			_ = l.lookAtHeads(ctx) // and so here
			continue
		case <-l.others.look:
			_ = l.lookAtHeads(ctx)
		case <-ctx.Done():
			return
		}
		_ = l.poll(ctx, regular) // the next one is soon, and readers meet the same error
	}
}

// hear takes a note. One of an unknown form is of a newer release; it counts as nil.
func (l *Log) hear(note []byte) {
	from, c, err := decodeNote(note)
	if err != nil {
		select {
		case l.others.look <- struct{}{}:
		default:
		}
		return
	}
	if from == l.others.self {
		return
	}
	l.watches.notify(c)
}

// lookAtHeads wakes the readers of all logs if heads have changed: the notes of other
// processes may not have arrived.
func (l *Log) lookAtHeads(ctx context.Context) error {
	return l.eachHead(ctx, func(owner string, v []byte) error {
		head, err := decodeEventHead(v)
		if err != nil {
			return err
		}
		l.watches.sawHead(owner, head.last)
		return nil
	})
}

// beginPolling reads the head of a log that has its first live reader, unless the engine
// is not shared. Later looks compare with it.
func (l *Log) beginPolling(ctx context.Context, owner string) error {
	if l.others.engine == nil || l.watches.isPolled(owner) {
		return nil
	}
	v, err := l.EventsVersion(ctx, owner)
	if err != nil {
		return err
	}
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	if log := l.watches.logs[owner]; log != nil && !log.polled.begun {
		log.polled = polled{begun: true, head: v.Head, accounted: v.Generation, shown: v.Generation, raised: log.polled.raised}
	}
	return nil
}

func (l *watchLog) isPolled(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs[owner].polled.begun
}

// poll looks at the heads of all watched logs and wakes the readers of those that have
// changed.
func (l *Log) poll(ctx context.Context, regular bool) error {
	var owners []string
	var keys [][]byte
	l.watches.mu.Lock()
	for owner, log := range l.watches.logs {
		if log.polled.begun {
			owners, keys = append(owners, owner), append(keys, headKey(owner))
		}
	}
	l.watches.mu.Unlock()
	if len(owners) == 0 {
		return nil
	}
	heads := make([]Version, len(owners))
	err := l.db.View(ctx, func(r kv.Reader) (err error) {
		clear(heads)
		for i, v := range r.GetMany(keys) {
			if heads[i], err = versionOf(owners[i], v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, owner := range owners {
		if missed := l.watches.saw(owner, heads[i], regular); missed {
			l.wakeForAll(ctx, owner)
		}
	}
	return nil
}

// saw wakes the readers of a log with new events, and reports whether a backfill was
// missed.
func (l *watchLog) saw(owner string, v Version, regular bool) (missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.logs[owner]
	if log == nil || !log.polled.begun {
		return false
	}
	moved, missed := log.polled.saw(v, regular)
	if moved {
		log.wake(nil)
	}
	return missed
}

// wakeForAll wakes the readers of a log with the span of all its events.
func (l *Log) wakeForAll(ctx context.Context, owner string) {
	span := Span{Last: record.Position(slices.Repeat([]byte{0xff}, record.PositionSize))}
	_ = l.db.View(ctx, func(r kv.Reader) error {
		head, err := ReadHead(r, owner)
		if err == nil {
			span = Span{First: oldestEvent(r, owner, head), Last: head.last}
		}
		return err
	})
	l.watches.notify(logChange{owner: owner, backfill: &span})
}

package badgerkv

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

const (
	// queueMax updates may wait; further ones are refused immediately, so that an overload
	// does not pile up.
	queueMax = 1024
	// groupOpsMax updates share one commit; with more, the first would wait without
	// saving a sync.
	groupOpsMax = 512
)

// anchorKey is written with each group that stores nothing permanent. A compaction may
// drop deletions and expired records, and with them the store's highest version; but
// it never drops the newest version of a permanent key.
//
// It is not written with every group, because it sorts below all other keys: during an
// import each new table would start with it, span all keys up to the newest events,
// and make the next compaction rewrite everything between.
var anchorKey = []byte{kv.ReservedPrefix, 'v'}

// op is one Update on its way through the committer.
type op struct {
	fn     func(kv.Txn) error
	budget kv.Budget // full
	after  *op       // must succeed before this one runs, or nil
	state  atomic.Int32
	done   chan struct{} // closed when the fields below are final

	err      error
	panicked any
	full     bool     // err is for lack of space
	class    kv.Class // that it declared, if full
}

const (
	opWaiting int32 = iota
	opRunning
	opWithdrawn
)

// withdraw keeps a waiting op from running, and reports whether it was in time.
func (o *op) withdraw() bool { return o.state.CompareAndSwap(opWaiting, opWithdrawn) }

// wait returns when the op has finished, or was withdrawn because ctx was done.
func (o *op) wait(ctx context.Context) {
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.withdraw() {
			o.err = ctx.Err()
			return
		}
		<-o.done
	}
}

// failed reports whether an op that was queued earlier has failed.
func (o *op) failed() bool {
	return o.state.Load() == opWithdrawn || o.err != nil || o.panicked != nil
}

// outcome returns or panics with what fn did, as if the caller had run it.
func (o *op) outcome() error {
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// committer is the only writer of the store. All its fields except the queue belong to
// its goroutine.
type committer struct {
	db      *DB
	queue   chan *op
	ended   chan struct{}
	version uint64 // the last committed one

	admission kv.Admission
	took      time.Duration // by the last commit

	next    *op // taken from the queue for the next group, or nil
	group   []*op
	refusal error // given to the whole group instead of running it
	space   space // on the disk, when the group began
	base    *base // what the group reads
	pending *pending
}

func newCommitter(db *DB, version uint64) *committer {
	return &committer{
		db:      db,
		queue:   make(chan *op, queueMax),
		ended:   make(chan struct{}),
		version: version,
		pending: newPending(),
	}
}

// loop commits group after group until stop is called.
func (c *committer) loop() {
	defer close(c.ended)
	for {
		o, ok := c.next, true
		if c.next = nil; o == nil {
			o, ok = <-c.queue
		}
		if !ok {
			return
		}
		c.begin()
		c.run(o)
		c.fill()
		c.commit()
	}
}

// stop makes loop return once the queue is empty. No op may be sent after it.
func (c *committer) stop() {
	close(c.queue)
	<-c.ended
}

func (c *committer) begin() {
	c.admission.Begin(time.Now())
	c.pending.reset()
	c.base = &base{db: c.db, version: c.version}
	_ = c.db.stopIfMoved()
	c.refusal = c.db.stopped()
	if c.refusal == nil {
		c.space = c.db.space()
	}
}

// fill adds the waiting ops to the group. When the queue is empty, it yields once to
// other goroutines: the callers that the last commit answered are about to return, and
// would each pay for a sync of their own.
func (c *committer) fill() {
	yielded := false
	for len(c.group) < groupOpsMax {
		select {
		case o, ok := <-c.queue:
			if !ok {
				return
			}
			if !c.fits(o) {
				c.next = o
				return
			}
			c.run(o)
			yielded = false
		default:
			if yielded {
				return
			}
			runtime.Gosched()
			yielded = true
		}
	}
}

// fits reports whether o still fits the group's transaction, whatever it writes, with the
// anchor and Badger's own end marker.
func (c *committer) fits(o *op) bool {
	const extra = 2
	count := c.pending.count + kv.UpdateWritesMax + extra
	size := c.pending.size + o.budget.BytesMax() + (kv.UpdateWritesMax+extra)*(writeOverhead+kv.ChecksumSize)
	return int64(count) < c.db.engine.MaxBatchCount() && int64(size) < c.db.engine.MaxBatchSize()
}

// run runs one fn on the group's pending writes, and rolls its writes back if it
// fails.
func (c *committer) run(o *op) {
	if !o.state.CompareAndSwap(opWaiting, opRunning) {
		return
	}
	c.group = append(c.group, o)
	c.admission.Take(1)
	if c.refusal != nil {
		o.err = c.refusal
		return
	}
	if o.after != nil && o.after.failed() {
		o.err = kv.ErrSkipped
		return
	}
	t := &txn{
		reader:    reader{base: c.base, damage: c.db.damage.Load()},
		pending:   c.pending,
		budget:    o.budget,
		wallClock: c.db.opts.Now == nil,
		space:     &c.space,
	}
	c.pending.begin()
	returned := false
	defer func() {
		t.close()
		if o.err != nil || !returned {
			c.pending.rollback()
		}
		if !returned {
			if o.panicked = recover(); o.panicked == nil {
				panic("badgerkv: an update ended its goroutine")
			}
		}
	}()
	o.err = t.outcome(o.fn(t))
	if t.full != nil { // whatever fn made of it
		o.err, o.full, o.class = t.full, true, t.As(kv.Ordinary)
		c.db.refused.diskFull[o.class].Add(1)
	}
	returned = true
}

// commit stores the group and answers its callers. Refused updates wait too: the
// refusal may depend on a write of the same group.
func (c *committer) commit() {
	c.base.discard()
	err := c.store()
	first := err != nil && c.db.stop(err)
	c.admission.End(time.Now(), c.took, len(c.queue))
	for _, o := range c.group {
		if err != nil {
			o.err = fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, err)
		}
		close(o.done)
	}
	clear(c.group)
	c.group = c.group[:0]
	if first {
		c.db.opts.OnFatal(*c.db.failure.Load())
	}
}

// store writes the group's changes at the next version and publishes it. After an
// error the state on disk is unknown.
func (c *committer) store() error {
	if c.pending.count == 0 {
		return nil
	}
	version := c.version + 1
	tx := c.db.engine.NewTransactionAt(c.version, true)
	defer tx.Discard()
	if err := c.write(tx); err != nil {
		return fmt.Errorf("prepare version %d: %w", version, err)
	}
	begun := time.Now() // measures the commit, for the figures and Ready
	c.db.writing.Store(&begun)
	defer c.db.writing.Store(nil)
	if err := c.db.opts.commitAt(tx, version); err != nil {
		return fmt.Errorf("commit version %d: %w", version, err)
	}
	c.took = time.Since(begun)
	c.db.opts.OnCommit(len(c.group), c.took)
	if cause := c.db.failure.Load(); cause != nil {
		return *cause // logged by Badger while it committed
	}
	if c.db.stamp != nil {
		now := stamp{version: version, wall: c.db.opts.wall()}
		if err := c.db.stamp.write(now); err != nil {
			return err
		}
		c.db.lastWrite.Store(now.wall.UnixNano())
	}
	c.version = version
	c.db.cache.replace(c.pending, version)
	c.db.engine.SetDiscardTs(c.db.snapshots.publish(version))
	return nil
}

// write passes the group's changes to tx.
func (c *committer) write(tx *badger.Txn) error {
	stays := false
	entries := make([]badger.Entry, 0, c.pending.count) // Badger keeps pointers to them
	err := c.pending.all(func(s *slot) error {
		switch s.kind {
		case changeSet:
			stays = stays || s.expiresAt == 0
			entries = append(entries, badger.Entry{Key: s.key, Value: s.sealed, ExpiresAt: s.expiresAt})
			return tx.SetEntry(&entries[len(entries)-1])
		case changeDelete:
			return tx.Delete(s.key)
		default:
			return nil
		}
	})
	if err != nil || stays {
		return err
	}
	return tx.SetEntry(&badger.Entry{Key: anchorKey, Value: kv.Seal(anchorKey, nil)})
}

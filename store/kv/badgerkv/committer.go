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
	// queueMax updates may wait; one more is refused, so that an overload is
	// answered at once instead of being piled up.
	queueMax = 1024
	// groupOpsMax updates share one commit; more would make the first of them
	// wait without gaining anything on the sync.
	groupOpsMax = 512
)

// anchorKey is written with each group that sets nothing to stay: a compaction
// may drop what only deletes or expires, and with it the store's highest
// version. The newest version of a key that stays is never dropped, so the
// highest version is always that of the last commit.
//
// It is not written with every group, because it lies below all other keys: in
// an import each new table would begin with it, reach from there to the newest
// events, and have all the events between rewritten by the next compaction.
var anchorKey = []byte{kv.ReservedPrefix, 'v'}

// op is one Update on its way through the committer.
type op struct {
	fn    func(kv.Txn) error
	after *op // that must have ended well for this one to run, or nil
	state atomic.Int32
	done  chan struct{} // closed when the fields below are final

	err      error
	panicked any
	exited   bool // fn ended its goroutine, as t.FailNow does
}

const (
	opWaiting int32 = iota
	opRunning
	opWithdrawn
)

// withdraw keeps a waiting op from running, and reports whether it was in time.
func (o *op) withdraw() bool { return o.state.CompareAndSwap(opWaiting, opWithdrawn) }

// wait returns when the op has ended, or has been withdrawn because ctx has.
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

// failed reports whether an op that was in the queue before the one that asks
// has not ended well.
func (o *op) failed() bool {
	return o.state.Load() == opWithdrawn || o.err != nil || o.panicked != nil || o.exited
}

// outcome gives the caller what its fn did, as if it had run it itself.
func (o *op) outcome() error {
	if o.panicked != nil {
		panic(o.panicked)
	}
	if o.exited {
		runtime.Goexit()
	}
	return o.err
}

// committer is the one writer of the store. All its fields but the queue belong
// to its goroutine.
type committer struct {
	db      *DB
	queue   chan *op
	ended   chan struct{}
	version uint64 // the last committed one

	group    []*op
	refusal  error       // given to the whole group instead of running it
	diskFull bool        // is the refusal's reason
	base     *badger.Txn // what the group reads
	pending  *pending
	entries  slab[badger.Entry] // in which the group's writes are handed over
}

func newCommitter(db *DB, version uint64) *committer {
	return &committer{
		db:      db,
		queue:   make(chan *op, queueMax),
		ended:   make(chan struct{}),
		version: version,
		pending: newPending(),
		entries: slab[badger.Entry]{atOnce: slotsAtOnce},
	}
}

// loop commits group after group until stop is called.
func (c *committer) loop() {
	finished := false
	defer func() {
		if finished {
			close(c.ended)
			return
		}
		// An fn ended this goroutine. Its group goes on in another.
		go c.loop()
	}()
	if len(c.group) > 0 {
		c.fill()
		c.commit()
	}
	for o := range c.queue {
		c.begin()
		c.run(o)
		c.fill()
		c.commit()
	}
	finished = true
}

// stop ends loop once the queue is empty. Nobody may send any more.
func (c *committer) stop() {
	close(c.queue)
	<-c.ended
}

func (c *committer) begin() {
	c.pending.reset()
	c.base = c.db.engine.NewTransactionAt(c.version, false)
	c.refusal = c.db.stopped()
	c.diskFull = false
	if c.refusal == nil {
		c.refusal = c.db.spaceRefusal()
		c.diskFull = c.refusal != nil
	}
}

// fill adds what waits in the queue to the group, without waiting for more.
// Before it gives up it lets other goroutines run once: the callers answered by
// the last commit are about to come back, and would each pay for a sync alone.
func (c *committer) fill() {
	yielded := false
	for len(c.group) < groupOpsMax && c.roomForAnother() {
		select {
		case o, ok := <-c.queue:
			if !ok {
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

// roomForAnother says whether the largest Update still fits into the group's
// transaction, with the anchor and Badger's own end marker.
func (c *committer) roomForAnother() bool {
	const extra = 2
	count := c.pending.count + kv.UpdateWritesMax + extra
	size := c.pending.size + kv.UpdateBytesMax + (kv.UpdateWritesMax+extra)*(writeOverhead+checksumSize)
	return int64(count) < c.db.engine.MaxBatchCount() && int64(size) < c.db.engine.MaxBatchSize()
}

// run runs one fn over the group's pending writes, and takes its own back if it
// fails in any way.
func (c *committer) run(o *op) {
	if !o.state.CompareAndSwap(opWaiting, opRunning) {
		return
	}
	c.group = append(c.group, o)
	if c.refusal != nil {
		if c.diskFull {
			c.db.refused.diskFull.Add(1)
		}
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
		wallClock: c.db.opts.Now == nil,
	}
	c.pending.begin()
	returned := false
	defer func() {
		t.close()
		if o.err != nil || !returned {
			c.pending.rollback()
		}
		if !returned {
			o.panicked = recover()
			o.exited = o.panicked == nil
		}
	}()
	o.err = t.outcome(o.fn(t))
	returned = true
}

// commit stores the group and answers everyone in it. Refused updates wait for
// the commit too: their refusal may rest on a write of the same group.
func (c *committer) commit() {
	c.base.Discard()
	err := c.store()
	first := err != nil && c.db.stop(err)
	c.entries.reset()
	if err != nil {
		// Who knows what the engine still reads. Its memory is no longer ours.
		c.pending, c.entries = newPending(), slab[badger.Entry]{atOnce: slotsAtOnce}
	}
	for _, o := range c.group {
		if err != nil {
			o.err = fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, err)
		}
		close(o.done)
	}
	clear(c.group)
	c.group = c.group[:0]
	if first {
		c.db.opts.OnFatal(err)
	}
}

// store writes the group's pending changes at the next version and publishes
// it. After an error nobody knows what is on disk.
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
	begun := time.Now() // measures the commit and decides nothing
	if err := c.db.opts.commitAt(tx, version); err != nil {
		return fmt.Errorf("commit version %d: %w", version, err)
	}
	c.db.opts.OnCommit(len(c.group), time.Since(begun))
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
	c.db.engine.SetDiscardTs(c.db.snapshots.publish(version))
	return nil
}

// write hands the group's changes to tx.
func (c *committer) write(tx *badger.Txn) error {
	stays := false
	err := c.pending.all(func(s *slot) error {
		switch s.kind {
		case changeSet:
			stays = stays || s.expiresAt == 0
			e := &c.entries.take(1)[0]
			e.Key, e.Value, e.ExpiresAt = s.key, s.sealed, s.expiresAt
			return tx.SetEntry(e)
		case changeDelete:
			return tx.Delete(s.key)
		default:
			return nil
		}
	})
	if err != nil || stays {
		return err
	}
	return tx.SetEntry(&badger.Entry{Key: anchorKey, Value: seal(anchorKey, nil)})
}

// Package pgkv keeps a [kv.DB] in PostgreSQL, shared by several processes.
//
// Keys and values are in one table. Each process has one committer, and the committers
// take turns by a row lock:
//
//	Update → queue → committer: take the turn, read the named keys one round trip
//	                            run each fn over the group's rows
//	                            write, mark, commit                one round trip
//	                            answer everyone
//	View   → one snapshot, begun with the first read
//
// Updates are serial by construction, over all processes: the rows are read after the
// turn was taken, and the turn ends with the commit. Callers name the keys that they will
// read ([kv.Naming], [kv.Prefetch]). That only saves round trips: a key that nobody named is
// read when it is asked for. The Views of one request share a snapshot ([kv.Share]).
//
// When the connection breaks after COMMIT was sent, the committer takes the turn again,
// which waits for the old transaction to end, and looks for the mark that the group
// wrote: it is there or it is not. Only if this takes too long do callers get
// [kv.ErrUnknownOutcome], and the committer keeps trying until it knows.
package pgkv

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
)

const (
	connectionsDefault = 24
	// Callers get an answer after at most answerMax. A connection of the pool has to be
	// free within connectionWait; a group is tried until tryMax after its first update
	// was called, and has the turn by turnMax.
	connectionWait = 2 * time.Second
	tryMax         = 3 * time.Second
	turnMax        = 4 * time.Second
	answerMax      = 5 * time.Second
	// statementMax is for one read and the wait for its connection.
	statementMax = 4800 * time.Millisecond
	statementMin = 200 * time.Millisecond // of which this is left for the read
)

// Options says which database to open, and how.
type Options struct {
	// Address says where the database is. Without it URL and Schema do.
	Address *Address
	// URL is a database URL as [ParseAddress] takes it.
	URL string
	// Schema has the tables; "" is [SchemaDefault]. See [Address.UseSchema].
	Schema string
	// Connections bounds the connections of readers; 0 means 24. A few more serve
	// commits, notes and backups.
	Connections int
	// Next opens the generation after the current one, empty, for Load and reads.
	// [DB.Adopt] makes it the current one.
	Next bool
	// SealNote and OpenNote protect notes with a key of the servers: any role that may
	// connect to the database can read and send notifications. OpenNote returns false for
	// what another key sealed. Without them notes are neither sealed nor checked.
	SealNote func(plain []byte) string
	OpenNote func(sealed string) (plain []byte, ok bool)
	// Mute sends no notes, for a command without the servers' key.
	Mute bool
	// Log receives what an operator may act on; nil drops it.
	Log *slog.Logger
	// OnFatal, if set, is called once when the database turns out to be another one, or
	// its generation has changed: every later transaction fails, and the process must
	// exit. OnFatal must not call Close.
	OnFatal func(error)
	// OnCommit, if set, is called after every commit with the number of updates and
	// the time it took. It runs in the committer, so it must be quick.
	OnCommit func(updates int, took time.Duration)

	patience int           // multiplies all waits
	life     time.Duration // of a connection
}

// Patient returns o with n times the time limits, for tests on slow machines that are
// not about them.
func (o Options) Patient(n int) Options {
	o.patience = n
	return o
}

func (o Options) withDefaults() Options {
	if o.Connections <= 0 {
		o.Connections = connectionsDefault
	}
	if o.SealNote == nil || o.OpenNote == nil {
		o.SealNote = base64.RawURLEncoding.EncodeToString
		o.OpenNote = func(text string) ([]byte, bool) {
			plain, err := base64.RawURLEncoding.DecodeString(text)
			return plain, err == nil
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.OnCommit == nil {
		o.OnCommit = func(int, time.Duration) {}
	}
	o.patience = max(o.patience, 1)
	if o.life == 0 {
		o.life = lifeMax
	}
	return o
}

func (o Options) wait(d time.Duration) time.Duration { return d * time.Duration(o.patience) }

// DB is an open store. It is safe for concurrent use.
type DB struct {
	opts    Options
	address *Address
	place   atomic.Pointer[string] // of the last connection that was made
	site    site
	server  []byte // identifies this handle in the table of marks

	pool      *pool
	committer *committer
	notes     *notes
	counts    counts
	writing   writing

	isNext  atomic.Bool           // its generation is not the current one
	fatal   atomic.Pointer[error] // why the store has stopped, if it has
	life    context.Context       // done after Close
	end     context.CancelFunc
	running sync.WaitGroup // goroutines that stop with life

	mu       sync.Mutex // guards closed, and inFlight's growth against Close
	closed   bool
	inFlight sync.WaitGroup
	closing  sync.Once
}

// Open connects to the database, creates the tables if they are missing, and checks
// them. Errors: [*AddressError]; [*RefusedError] if this database must not be used;
// [kv.ErrUnavailable] if it cannot be reached.
func Open(ctx context.Context, opts Options) (*DB, error) {
	address := opts.Address
	if address == nil {
		var err error
		if address, err = ParseAddress(opts.URL); err != nil {
			return nil, err
		}
		if err := address.UseSchema(opts.Schema); err != nil {
			return nil, err
		}
	}
	db := &DB{opts: opts.withDefaults(), address: address, notes: newNotes(), writing: newWriting()}
	db.life, db.end = context.WithCancel(context.Background())
	db.pool = newPool(db)
	db.isNext.Store(opts.Next)
	if err := db.prepare(ctx); err != nil {
		db.end()
		return nil, err
	}
	db.committer = newCommitter(db)
	go db.committer.loop()
	db.begin(db.watch)
	db.begin(db.watchWrites)
	db.begin(db.tend)
	db.begin(db.sendNotes)
	return db, nil
}

// View runs fn over the snapshot of its first read, which is not older than the call.
// It never waits for a commit.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	if s := kv.SharedOf(ctx); s != nil {
		return db.viewShared(ctx, s, fn)
	}
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	v := newView(ctx, db)
	defer v.close()
	return v.outcome(fn(&v.reader))
}

// viewShared is View in the snapshot that the Views of ctx share.
func (db *DB) viewShared(ctx context.Context, s *kv.Shared, fn func(kv.Reader) error) error {
	if s.Snapshot == nil {
		if err := db.enter(ctx); err != nil {
			return err
		}
		v := newView(ctx, db)
		s.Snapshot, s.Release = v, func() { v.close(); db.inFlight.Done() }
	}
	v := s.Snapshot.(*view)
	v.ctx = ctx
	return v.outcome(fn(&v.reader))
}

// Update passes fn to the committer, with the keys of [kv.Naming], and waits for the outcome
// of its group. If ctx is done before the committer has begun with it, it does not run. fn must not call Update or Close, which would deadlock.
func (db *DB) Update(ctx context.Context, fn func(kv.Txn) error) error {
	kv.SharedOf(ctx).End()
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.inFlight.Done()
	o := newOp(fn)
	o.budget, o.named = kv.BudgetOf(ctx), kv.NamedBy(ctx)
	if err := db.committer.submit(ctx, o); err != nil {
		return err
	}
	db.await(ctx, o)
	return o.outcome()
}

// UpdateEach is kv.UpdateEach. What an update names by kv.Prefetch is read together. Updates
// in the queue are committed together as far as they fit a group.
func (db *DB) UpdateEach(ctx context.Context, fns []func(kv.Txn) error) []error {
	ends := make([]error, len(fns))
	kv.SharedOf(ctx).End()
	refusal := db.enter(ctx)
	if refusal == nil {
		defer db.inFlight.Done()
	}
	var ops []*op
	var last *op
	for i, fn := range fns {
		o := newOp(fn)
		o.budget, o.after = kv.BudgetOf(ctx), last
		if refusal == nil {
			refusal = db.committer.submit(ctx, o)
		}
		if ends[i] = refusal; refusal != nil {
			refusal = kv.ErrSkipped
			continue
		}
		ops, last = append(ops, o), o
	}
	failed := false
	for _, o := range ops {
		db.await(ctx, o)
	}
	for i, o := range ops {
		ends[i] = o.outcome()
		if failed && errors.Is(ends[i], kv.ErrUnavailable) {
			ends[i] = kv.ErrSkipped // it waited behind the failed one
		}
		failed = failed || ends[i] != nil
	}
	return ends
}

// await returns when the op has finished or was withdrawn, because ctx was done or it
// waited too long. An op that has begun is answered in time by the committer.
func (db *DB) await(ctx context.Context, o *op) {
	timer := time.NewTimer(time.Until(o.called.Add(db.opts.wait(tryMax))))
	defer timer.Stop()
	select {
	case <-o.done:
		return
	case <-ctx.Done():
		o.withdraw(ctx.Err())
	case <-timer.C:
		if o.withdraw(fmt.Errorf("%w: too many updates wait for it", kv.ErrAway)) {
			db.counts.unavailable.Add(1)
		}
	}
	<-o.done
}

// Close refuses new work, finishes accepted work and closes the connections. It may be
// called more than once.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.mu.Lock()
		db.closed = true
		db.mu.Unlock()
		db.inFlight.Wait()
		db.end()
		db.committer.stop()
		db.running.Wait()
		db.pool.close()
	})
	return nil
}

// enter counts a transaction as running; the caller ends it.
func (db *DB) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.stopped(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return fmt.Errorf("%w: the store is closed", kv.ErrUnavailable)
	}
	db.inFlight.Add(1)
	return nil
}

// begin runs fn in a goroutine of its own. fn returns soon after its context is done, at
// Close.
func (db *DB) begin(fn func(context.Context)) {
	db.running.Go(func() { fn(db.life) })
}

// stop makes every later transaction fail.
func (db *DB) stop(cause error) {
	if db.fatal.CompareAndSwap(nil, &cause) {
		db.opts.Log.Error("store stopped", "err", cause)
		db.opts.OnFatal(cause)
	}
}

// stopped returns the error for transactions once the store has stopped, or nil.
func (db *DB) stopped() error {
	if cause := db.fatal.Load(); cause != nil {
		return fmt.Errorf("%w: the store has stopped: %w", kv.ErrUnavailable, *cause)
	}
	return nil
}

// watchEvery is how often an idle process looks for another generation.
const watchEvery = 5 * time.Second

// watch notices a changed generation although nothing is committed here.
func (db *DB) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = db.answers(ctx) // stops the store if it must
		}
	}
}

// tend closes connections that are not needed, and heeds refusals.
func (db *DB) tend(ctx context.Context) {
	for said := false; ctx.Err() == nil; sleep(ctx, refusedPause) {
		db.pool.trim(time.Now())
		said = db.heed(ctx, said)
	}
}

// Ready reports whether the database answers, is still the one that was opened, and accepts
// writes and new connections. Errors: [kv.ErrUnavailable].
func (db *DB) Ready(ctx context.Context) error {
	err := db.answers(ctx)
	if refused := db.address.refusedFor(); refused != nil && (err == nil || errors.Is(err, kv.ErrAway)) {
		return refused
	}
	return err
}

func (db *DB) answers(ctx context.Context) error {
	if err := db.stopped(); err != nil {
		return err
	}
	c, err := db.pool.take(ctx)
	if err != nil {
		return err
	}
	defer db.pool.put(c)
	var found site
	err = c.exchange(db.opts.wait(statementMax), found.call())
	if err != nil {
		return db.unavailable(err)
	}
	if err := db.same(found); err != nil {
		return err
	}
	return db.WriteFault()
}

// same stops the store if found is another site.
func (db *DB) same(found site) error {
	if db.isNext.Load() || found == db.site {
		return nil
	}
	db.stop(movedFrom(db.site, found))
	return db.stopped()
}

// Package badgerkv keeps a [kv.DB] in Badger, on disk or in memory.
//
// Badger on its own syncs each commit separately, and its readers wait for the commit
// in flight, fsync included. So one goroutine, the committer, owns all writing:
//
//	Update ─┐
//	Update ─┼→ queue → committer: run each fn over the group's pending writes
//	Update ─┘                     commit the group once, synced, at version n+1
//	                              write the stamp, publish n+1, answer everyone
//	View   ───────────→ snapshot at the last published version; never waits
//
// Updates are serial by construction, without conflicts or retries. A
// fn that returns an error or panics has its writes rolled back within the
// group, and the others of the group do not notice.
//
// Three checks protect the data on disk. Each value ends with a checksum over its key
// and itself, and Check finds damage that hides keys ([kv.ErrCorrupt]). A stamp file
// records the last acknowledged version and the wall clock, so that Open detects a
// truncated write-ahead log or a wrong clock ([BehindError], [ClockError]). And nothing
// is written while the disk is nearly full, because Badger crashes on a full disk
// ([DiskError] at open, [kv.ErrFull] later); a file holds the space of its merges.
//
// After a failed commit the state on disk is unknown. Its callers get
// [kv.ErrUnknownOutcome], every later transaction is refused, and Options.OnFatal is
// called: the process must exit.
package badgerkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"tollhouse/store/kv"
)

// DB is an open store. It is safe for concurrent use.
type DB struct {
	opts      Options
	place     *place // nil in memory
	engine    *badger.DB
	stamp     *stampFile // nil in memory
	snapshots *snapshots
	committer *committer
	cache     *cache
	failure   atomic.Pointer[error]          // why the store has stopped, if it has
	damage    atomic.Pointer[[]damagedTable] // what Check has found
	lastWrite atomic.Int64                   // the wall clock at the last commit, in Unix nanoseconds; not used in memory
	writing   atomic.Pointer[time.Time]      // when the commit under way began, or nil
	refused   refusals
	filesNeed atomic.Uint64 // files that must be open, at the last look
	merge     struct {      // what the engine may write at the same time, at the last look
		sync.Mutex
		bytes     uint64
		levels    []badger.LevelInfo // of watchSpace alone
		tables    map[uint64]bool    // which a level has or had, of watchSpace alone
		took      uint64             // what merges under way have written, looked at while space is short
		reserved  uint64             // the reserve holds at least that many bytes of the disk
		resizing  bool
		noReserve bool // on this file system
	}
	closing         sync.Once
	closeErr        error
	closed, watched chan struct{} // closed when the engine is, and when watchSpace returns; nil in memory
}

// IsSafe reports whether this build may have a store on disk. On 32-bit machines Badger
// acknowledges writes that a killed process loses.
const IsSafe = math.MaxInt > math.MaxInt32

// ErrUnsafe is the error of Open for a store on disk if this build is not safe.
var ErrUnsafe = errors.New("this is a 32-bit build, and on 32-bit machines the storage engine loses acknowledged writes")

// Open opens the store in opts.Dir, or an empty one in memory. Before it lets
// Badger touch the directory it checks the free space and the wall clock; after
// Badger has replayed its log it compares the store with its stamp. Errors:
// [ErrUnsafe], [*DiskError], [*ClockError], [*DamageError], [*BehindError], or Badger's own.
func Open(opts Options) (*DB, error) {
	if !opts.InMemory && !IsSafe {
		return nil, ErrUnsafe
	}
	opts = opts.withDefaults()
	db := &DB{opts: opts, cache: newCache(opts)}
	if !opts.InMemory {
		if err := makeDir(opts.Dir); err != nil {
			return nil, err
		}
		var err error
		if db.place, err = openPlace(opts.Dir); err != nil {
			return nil, err
		}
		db.opts.path = db.place.path
	}
	if err := db.open(); err != nil {
		if db.place != nil {
			db.place.close()
		}
		return nil, db.place.name(err)
	}
	return db, nil
}

func (db *DB) open() error {
	opts := db.opts
	engine := opts.engine(engineLogger{log: opts.Log, fatal: db.stopAndTell, place: db.place})
	stamped, err := examine(opts, engine)
	if err != nil {
		return err
	}
	if !opts.InMemory {
		err = checkIndexes(opts, engine)
	}
	if err == nil && !opts.InMemory {
		err = checkMerges(opts, engine)
	}
	if err == nil {
		db.engine, err = badger.OpenManaged(engine)
	}
	if err != nil {
		return openError(opts, err)
	}
	version, err := db.adopt(stamped)
	if err != nil {
		return fmt.Errorf("%w%s", err, alsoFailed(db.engine.Close()))
	}
	if !opts.InMemory {
		db.lookAtTables()
		if err := filesError(opts, db.filesNeed.Load()); err != nil {
			return fmt.Errorf("%w%s", err, alsoFailed(cmp.Or(db.stamp.close(), db.engine.Close())))
		}
	}
	db.snapshots = newSnapshots(version)
	db.engine.SetDiscardTs(version)
	db.fillCache(version)
	db.committer = newCommitter(db, version)
	go db.committer.loop()
	if !opts.InMemory {
		db.closed, db.watched = make(chan struct{}), make(chan struct{})
		go db.watchSpace()
	}
	return nil
}

// examine makes the checks that must precede Badger's own opening. It returns the
// stamp, or nil.
func examine(opts Options, engine badger.Options) (*stamp, error) {
	if opts.InMemory {
		return nil, nil
	}
	RemoveReserve(opts.path)
	if err := removeUnfinished(opts.path, engine); err != nil {
		return nil, &DiskError{Dir: opts.Dir, Reason: "a table that no merge has finished cannot be removed", Remedy: "check the disk and its permissions", Err: err}
	}
	if err := cmp.Or(checkSpace(opts), checkFiles(opts)); err != nil {
		return nil, err
	}
	stamped, err := readStamp(opts)
	if err == nil && stamped != nil {
		err = checkClock(opts, *stamped)
	}
	if err != nil {
		return nil, err
	}
	return stamped, removeEmptyLogs(opts)
}

// removeEmptyLogs removes empty log files. Badger creates a log before it sets its
// size; if the process is killed in between, Badger refuses the file at the next open.
func removeEmptyLogs(opts Options) error {
	entries, err := os.ReadDir(opts.path)
	for _, e := range entries {
		if kind := filepath.Ext(e.Name()); kind != ".mem" && kind != ".vlog" {
			continue
		}
		info, statErr := e.Info()
		if statErr == nil && info.Mode().IsRegular() && info.Size() == 0 {
			statErr = os.Remove(filepath.Join(opts.path, e.Name()))
		}
		err = cmp.Or(err, statErr)
	}
	if err != nil {
		return &DiskError{Dir: opts.Dir, Reason: "its files cannot be looked at", Remedy: "check the disk and its permissions", Err: err}
	}
	return nil
}

// adopt compares the store's version with its stamp, returns it, and writes the new
// stamp.
func (db *DB) adopt(stamped *stamp) (uint64, error) {
	version := db.engine.MaxVersion()
	if db.opts.InMemory {
		return version, nil
	}
	if stamped != nil && version < stamped.version {
		return 0, &BehindError{Dir: db.opts.Dir, Found: version, Stamped: stamped.version}
	}
	var err error
	now := stamp{version: version, wall: db.opts.wall()}
	db.lastWrite.Store(now.wall.UnixNano())
	db.stamp, err = createStamp(db.opts, now)
	return version, err
}

// View runs fn over the last acknowledged version. It never waits for a commit.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at, err := db.snapshots.open()
	if err != nil {
		return err
	}
	defer db.snapshots.release(at)
	return db.viewAt(at.version, fn)
}

// viewAt runs fn on a version that is kept.
func (db *DB) viewAt(version uint64, fn func(kv.Reader) error) error {
	r := reader{base: &base{db: db, version: version}, damage: db.damage.Load()}
	defer r.base.discard()
	defer r.close()
	err := r.outcome(fn(&r))
	// A commit that failed in the meantime may have been a failed fsync: nothing read
	// since then may be served.
	if stopped := db.stopped(); stopped != nil {
		return stopped
	}
	return err
}

// Update passes fn to the committer and waits for its group's outcome. If ctx is done
// before fn has started, fn does not run. fn must not call Update or Close, which
// would deadlock. An ending that the disk has no room for is tried again for two seconds.
func (db *DB) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.snapshots.enter(); err != nil {
		return err
	}
	defer db.snapshots.leave()

	for tries := 1; ; tries++ {
		o := &op{fn: fn, budget: kv.BudgetOf(ctx), done: make(chan struct{})}
		if err := db.submit(ctx, o); err != nil {
			return err
		}
		o.wait(ctx)
		if !o.full || o.class < kv.Ending || tries == endingTries {
			return o.outcome()
		}
		select {
		case <-time.After(endingEvery):
		case <-ctx.Done():
			return o.outcome()
		}
	}
}

// UpdateEach is kv.UpdateEach. Updates in the queue are committed together as far as
// they fit a group.
func (db *DB) UpdateEach(ctx context.Context, fns []func(kv.Txn) error) []error {
	ends := make([]error, len(fns))
	refusal := ctx.Err()
	if refusal == nil {
		if refusal = db.snapshots.enter(); refusal == nil {
			defer db.snapshots.leave()
		}
	}
	var ops []*op
	var last *op
	for i, fn := range fns {
		o := &op{fn: fn, budget: kv.BudgetOf(ctx), after: last, done: make(chan struct{})}
		if refusal == nil {
			refusal = db.submit(ctx, o)
		}
		if ends[i] = refusal; refusal != nil {
			refusal = kv.ErrSkipped
			continue
		}
		ops, last = append(ops, o), o
	}
	for _, o := range ops {
		o.wait(ctx)
	}
	for i, o := range ops {
		ends[i] = o.outcome()
	}
	return ends
}

// Crowded makes the engine a [kv.Crowder].
func (db *DB) Crowded() bool {
	crowded := db.committer.admission.Crowded(time.Now(), len(db.committer.queue))
	if crowded {
		db.refused.queueFull.Add(1)
	}
	return crowded
}

// submit queues an op, and fails when the queue is full.
func (db *DB) submit(ctx context.Context, o *op) error {
	queue := db.committer.queue
	if kv.Yields(ctx) && len(queue) >= queueMax-kv.QueueKept {
		queue = nil
	}
	select {
	case queue <- o:
		return nil
	default:
		db.refused.queueFull.Add(1)
		return fmt.Errorf("%w: %d updates are already waiting", kv.ErrUnavailable, len(db.committer.queue))
	}
}

// closeMax bounds Close, which waits for a merge under way. On a disk that hangs it would
// wait for ever.
const closeMax = 5 * time.Minute

// Close refuses new work, finishes accepted work, syncs the stamp and closes Badger.
// It may be called more than once. It writes nothing and returns a [*MovedError] if the
// directory was moved; then, and if it has not returned within five minutes, the process must exit.
func (db *DB) Close() error {
	db.closing.Do(func() {
		ended := make(chan error, 1)
		go func() { ended <- db.close() }()
		select {
		case err := <-ended:
			db.closeErr = db.place.name(err)
		case <-time.After(db.opts.closeMax):
			db.closeErr = fmt.Errorf("%w: %s was not closed within %s; what was acknowledged is kept", kv.ErrUnknownOutcome, db.opts.name(), db.opts.closeMax)
		}
	})
	return db.closeErr
}

func (db *DB) close() error {
	db.snapshots.closeAndWait()
	db.committer.stop()
	if err := db.stopIfMoved(); err != nil {
		return err
	}
	var stampErr error
	if db.stamp != nil {
		if db.stopped() == nil {
			stampErr = db.stamp.sync(stamp{version: db.committer.version, wall: db.opts.wall()})
		}
		stampErr = cmp.Or(stampErr, db.stamp.close())
	}
	err := cmp.Or(db.engine.Close(), stampErr)
	if db.closed != nil {
		close(db.closed)
		<-db.watched
		db.place.close()
	}
	if err != nil {
		return fmt.Errorf("badgerkv: close %s: %w", db.opts.name(), err)
	}
	return nil
}

// stop makes every later transaction fail, and reports whether this was the first
// call.
func (db *DB) stop(cause error) bool {
	cause = db.place.name(cause)
	if !db.failure.CompareAndSwap(nil, &cause) {
		return false
	}
	db.opts.Log.Error("store stopped", "err", cause)
	return true
}

// stopAndTell is stop for failures that Badger only logs, and for a directory that was moved.
func (db *DB) stopAndTell(cause error) {
	if db.stop(cause) {
		db.opts.OnFatal(*db.failure.Load())
	}
}

// stopped returns the error for transactions once the store has stopped, or nil.
func (db *DB) stopped() error {
	if cause := db.failure.Load(); cause != nil {
		return fmt.Errorf("%w: the store has stopped: %w", kv.ErrUnavailable, *cause)
	}
	return nil
}

// alsoFailed describes a second error after a first.
func alsoFailed(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (and closing failed: %v)", err)
}

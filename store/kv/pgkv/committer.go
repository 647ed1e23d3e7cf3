package pgkv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

const (
	// queueMax updates may wait; further ones are refused immediately, so that an overload
	// does not pile up.
	queueMax = 1024
	// A group has at most groupOpsMax updates, and is closed before its writes could exceed
	// the other two.
	groupOpsMax   = 256
	groupRowsMax  = 20_000
	groupBytesMax = 8 << 20
	// retryPause is between two attempts of a group.
	retryPause = 50 * time.Millisecond
	// turnFreeAfter is how long a committer waits before it looks who has the turn.
	turnFreeAfter = 2 * time.Second
	// Of each server the marks of at least so many groups are kept.
	marksKept = 256
	// versionsMax transactions may have begun since the oldest snapshot of the database
	// before changes add versions, and every countEvery that is looked at.
	versionsMax = 200
	countEvery  = time.Second
)

// op is one Update on its way through the committer.
type op struct {
	fn      func(kv.Txn) error
	budget  kv.Budget // full
	named   [][]byte  // keys that it is likely to read
	expired [][]byte  // rows to drop if they are expired
	after   *op       // must succeed before this one runs, or nil
	called  time.Time
	state   atomic.Int32
	ran     end  // of the last attempt; the committer's own
	failed  bool // the committer's own

	answering sync.Once
	done      chan struct{} // closed when end is final
	end       end
}

// end is what fn did.
type end struct {
	err      error
	panicked any
}

const (
	opWaiting int32 = iota
	opRunning
	opWithdrawn
)

func newOp(fn func(kv.Txn) error) *op {
	return &op{fn: fn, called: time.Now(), done: make(chan struct{})}
}

// withdraw keeps a waiting op from running, and reports whether it was in time.
func (o *op) withdraw(why error) bool {
	if !o.state.CompareAndSwap(opWaiting, opWithdrawn) {
		return false
	}
	o.answer(end{err: why})
	return true
}

// answer gives the caller an outcome. Only the first counts.
func (o *op) answer(e end) {
	o.answering.Do(func() {
		o.end = e
		close(o.done)
	})
}

// outcome returns or panics with what fn did, as if the caller had run it.
func (o *op) outcome() error {
	if o.end.panicked != nil {
		panic(o.end.panicked)
	}
	return o.end.err
}

// committer is the only writer of this process. All its fields except the queue belong
// to its goroutine.
type committer struct {
	db    *DB
	queue chan *op
	ended chan struct{}
	c     *conn  // nil when there is none
	seq   uint64 // of the last group that was sent

	admission kv.Admission
	took      time.Duration // by the last commit

	group   []*op
	rest    []*op // of the last group, which did not fit
	first   time.Time
	known   map[string][]byte // read under the turn
	pending *pending
	expired [][]byte
	broken  error // a read failed: this attempt is void

	versions bool      // changes add versions
	counted  time.Time // when that was decided
}

func newCommitter(db *DB) *committer {
	return &committer{
		db:      db,
		queue:   make(chan *op, queueMax),
		ended:   make(chan struct{}),
		known:   map[string][]byte{},
		pending: newPending(),
	}
}

// submit queues an op, and fails when the queue is full.
func (c *committer) submit(ctx context.Context, o *op) error {
	queue := c.queue
	if kv.Yields(ctx) && len(queue) >= queueMax-kv.QueueKept {
		queue = nil
	}
	select {
	case queue <- o:
		return nil
	default:
		c.db.counts.queueFull.Add(1)
		return fmt.Errorf("%w: %d updates are already waiting", kv.ErrUnavailable, len(c.queue))
	}
}

// Crowded makes the engine a [kv.Crowder].
func (db *DB) Crowded() bool {
	crowded := db.committer.admission.Crowded(time.Now(), len(db.committer.queue))
	if crowded {
		db.counts.queueFull.Add(1)
	}
	return crowded
}

// loop commits group after group until stop is called.
func (c *committer) loop() {
	defer close(c.ended)
	for c.gather() {
		c.settle()
	}
	c.drop()
}

// stop makes loop return once the queue is empty. No op may be submitted after it.
func (c *committer) stop() {
	close(c.queue)
	<-c.ended
}

// gather waits for an op, and adds those that wait too. When the queue is empty, it
// yields once to other goroutines: the callers that the last commit answered are about
// to return. It reports false when the queue is closed and empty.
func (c *committer) gather() bool {
	c.group, c.rest = append(c.group[:0], c.rest...), c.rest[:0]
	keys := 0
	yielded := false
	for len(c.group) < groupOpsMax && keys < groupRowsMax {
		if len(c.group) == 0 {
			o, ok := <-c.queue
			if !ok {
				return false
			}
			keys += c.add(o)
			continue
		}
		select {
		case o, ok := <-c.queue:
			if !ok {
				return true
			}
			keys += c.add(o)
			yielded = false
		default:
			if yielded {
				return true
			}
			runtime.Gosched()
			yielded = true
		}
	}
	return true
}

func (c *committer) add(o *op) (keys int) {
	if !o.state.CompareAndSwap(opWaiting, opRunning) {
		o.failed = true
		return 0
	}
	c.group = append(c.group, o)
	return len(o.named)
}

// settle commits the group and answers its callers. What failed before it was committed
// runs again, for a while.
func (c *committer) settle() {
	defer c.db.writing.begin()()
	c.first = c.group[0].called
	for _, o := range c.group {
		if o.called.Before(c.first) {
			c.first = o.called
		}
	}
	c.admission.Begin(time.Now())
	c.admission.Take(len(c.group))
	for {
		err := c.db.stopped()
		if err == nil {
			err = c.attempt()
		}
		if err == nil {
			c.admission.Take(-len(c.rest))
			c.admission.End(time.Now(), c.took, len(c.queue)+len(c.rest))
			c.answer()
			return
		}
		if !isPassing(err) || time.Since(c.first) > c.db.opts.wait(tryMax) {
			c.admission.Fail()
			c.refuse(err)
			return
		}
		c.db.counts.retries.Add(1)
		time.Sleep(retryPause)
	}
}

// isPassing reports whether another attempt may succeed. The group is not committed.
func isPassing(err error) bool {
	if errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknownOutcome) || isRefusal(err) {
		return false
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return true // the connection
	}
	switch refused.Code {
	case "25006", "25P03", "40001", "40P01", "53300", "55P03":
		return true
	}
	return refused.Code[:2] == "08" || refused.Code[:3] == "57P"
}

func (c *committer) answer() {
	for _, o := range c.group {
		o.answer(o.ran)
		o.failed = o.end != end{} // also if the caller was told that it is unknown
	}
	clear(c.group)
}

func (c *committer) refuse(err error) {
	if !errors.Is(err, kv.ErrUnknownOutcome) {
		err = c.db.unavailable(err)
	}
	c.db.writing.refuse(err)
	for _, o := range append(c.group, c.rest...) {
		o.failed = true
		o.answer(end{err: err})
	}
	clear(c.group)
	c.rest = c.rest[:0]
}

// attempt takes the turn, runs the group and commits it. After an error it is not
// committed, unless the error matches kv.ErrUnknownOutcome.
func (c *committer) attempt() error {
	c.group = append(c.group, c.rest...)
	c.rest = c.rest[:0]
	if err := c.takeTurn(); err != nil {
		c.drop()
		return err
	}
	begun := time.Now()
	for i, o := range c.group {
		if !c.fitsAnother() {
			c.rest = append(c.rest, c.group[i:]...)
			c.group = c.group[:i]
			break
		}
		if c.run(o); c.broken != nil {
			c.drop()
			return c.broken
		}
	}
	if len(c.pending.changes)+len(c.expired) == 0 {
		c.c.leave()
		return nil
	}
	if err := c.commit(); err != nil {
		return err
	}
	c.took = time.Since(begun)
	c.db.opts.OnCommit(len(c.group), c.took)
	c.db.counts.commits.Add(1)
	return nil
}

// fitsAnother reports whether the largest Update still fits the group.
func (c *committer) fitsAnother() bool {
	return len(c.pending.changes)+kv.UpdateWritesMax <= groupRowsMax && c.pending.size+kv.UpdateBytesMax <= groupBytesMax
}

var (
	beginCommit = statement{"begin commit", "begin isolation level read committed read write"}
	takeTurn    = statement{"turn", "select 1 from turn where id = 1 for update"}
)

// takeTurn takes the turn and reads what the group named. Each statement after the
// lock sees all that was committed before it.
func (c *committer) takeTurn() error {
	c.pending.reset()
	clear(c.known)
	c.expired, c.broken = nil, nil
	left := func() time.Duration {
		return max(time.Until(c.first.Add(c.db.opts.wait(turnMax))), c.db.opts.wait(turnMax-tryMax))
	}
	if err := c.connect(left()); err != nil {
		return err
	}
	var found site
	calls := []call{{statement: beginCommit}, {statement: takeTurn}, found.call()}
	if time.Since(c.counted) > countEvery {
		calls = append(calls, c.countVersions())
	}
	if keys := c.named(); len(keys) > 0 {
		calls = append(calls, c.db.getCall(keys, func(key, sealed []byte) { c.known[string(key)] = sealed }))
	}
	begun := time.Now()
	waiting := c.c.PgConn().PID()
	freeing := time.AfterFunc(c.db.opts.wait(turnFreeAfter), func() { c.db.freeTurn(waiting) })
	defer freeing.Stop()
	if err := c.c.exchange(left(), calls...); err != nil {
		return err
	}
	c.db.counts.turnWait.Store(int64(time.Since(begun)))
	return c.db.same(found)
}

// oldest reads how many transactions have begun since the oldest snapshot: of a session such
// as pg_dump, of a replication slot, or of a prepared transaction.
var oldest = statement{"oldest", `select coalesce(greatest(
	(select max(age(backend_xmin)) from pg_stat_activity where pid <> pg_backend_pid()),
	(select max(age(xmin)) from pg_replication_slots),
	(select max(age(transaction)) from pg_prepared_xacts)), 0)::bigint`}

var endHolder = statement{"end holder", `select pg_terminate_backend(a.pid) from unnest(pg_blocking_pids($1::bigint::int)) b (pid) join pg_stat_activity a using (pid)
	where a.wait_event_type = 'Client' and a.xact_start < clock_timestamp() - interval '1 s'`}

// freeTurn ends the session that a committer waits for, if PostgreSQL waits for that one's
// client: its server is stopped or cut off. Its idle limit does not hold within a flight, and
// it has no limit for statements, because a COMMIT may wait for a standby.
func (db *DB) freeTurn(waiting uint32) {
	_ = db.read(db.life, call{statement: endHolder, params: [][]byte{int8Param(int64(waiting))}}) // else the others' lock_timeout tells
}

// countVersions decides whether changes replace the last version of a key or add one. While
// there is an old snapshot PostgreSQL keeps what every commit replaces, such as the head of
// a log. Replaced in place, the former rows of a key stand before its last one in the index,
// and every read and write inside the turn goes through all of them; those of lower numbers
// stand behind it.
func (c *committer) countVersions() call {
	return call{statement: oldest, row: func(v [][]byte) {
		c.versions, c.counted = int8Value(v[0]) > versionsMax, time.Now()
	}}
}

// named returns the keys of the group, which count as absent until they were read.
func (c *committer) named() [][]byte {
	var keys [][]byte
	for _, o := range c.group {
		for _, key := range o.named {
			if _, found := c.known[string(key)]; !found {
				c.known[string(key)] = nil
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// connect makes a connection if there is none, or the one that there is has to be replaced.
func (c *committer) connect(limit time.Duration) error {
	if c.c != nil && !c.c.IsClosed() && time.Now().Before(c.c.until) && c.c.place == *c.db.place.Load() {
		return nil
	}
	c.drop()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var err error
	if c.c, err = c.db.dial(ctx, roleCommitter); hasCode(err, codeTooMany) {
		c.db.pool.shed() // for the next attempt
	}
	return err
}

// drop gives the connection up, and with it what it has not committed.
func (c *committer) drop() {
	if c.c != nil {
		c.c.discard()
		c.c = nil
	}
}

// run runs one fn on the group's pending writes, and rolls its writes back if it fails.
func (c *committer) run(o *op) {
	o.ran = end{}
	if o.after != nil && (o.after.failed || o.after.ran != end{}) {
		o.ran.err = kv.ErrSkipped
		return
	}
	t := &txn{reader: reader{source: c, known: c.known, pending: c.pending}, budget: o.budget}
	c.pending.mark()
	returned := false
	defer func() {
		t.ended = true
		if o.ran.err != nil || !returned {
			c.pending.rollback()
		}
		if !returned {
			if o.ran.panicked = recover(); o.ran.panicked == nil {
				panic("pgkv: an update ended its goroutine")
			}
		}
	}()
	o.ran.err = t.outcome(o.fn(t))
	c.expired = append(c.expired, o.expired...)
	returned = true
}

// get reads keys that were not named. It makes the committer a source.
func (c *committer) get(keys [][]byte, row func(key, sealed []byte)) error {
	return c.readLate(c.db.getCall(keys, row))
}

func (c *committer) page(rng kv.Range, n int) ([]stored, error) {
	return readPage(c.db, rng, n, c.readLate)
}

func (c *committer) readLate(one call) error {
	if c.broken == nil {
		c.db.counts.lateReads.Add(1)
		c.broken = c.c.exchange(c.db.opts.wait(answerMax-turnMax), one)
	}
	if c.broken != nil {
		return kv.ErrUnavailable
	}
	return nil
}

var (
	deleteRows = statement{"delete", "delete from KV where ctid = any(array(select last.ctid from unnest($1::bytea[]) w (k), " + lastVersion("ctid", "") + "))"}
	writeRows  = statement{"write", write + "n from KV where k = w.k order by n desc limit 1), 0) from " + written +
		" on conflict (k, n) do update set v = excluded.v, x = excluded.x"}
	addVersions = statement{"add versions", write + "n + 1 from KV where k = w.k order by n desc limit 1), 0) from " + written}
	dropFormer  = statement{"drop former", "delete from KV where ctid = any(array(select last.ctid from unnest($1::bytea[]) w (k), " + lastVersion("ctid", "offset 1") + "))"}
	writeMark   = statement{"mark", "insert into mark values ($1, $2, clock_timestamp())"}
	dropMarks   = statement{"drop marks", "delete from mark where server = $1 and seq > $2 and seq <= $3"}
	touchMark   = statement{"touch mark", "update mark set at = clock_timestamp() where server = $1 and seq = $2"}
	readMark    = statement{"read mark", "select seq from mark where server = $1 and seq = $2"}
	commit      = statement{"commit", "commit"}
)

const (
	write   = "insert into KV (k, v, x, n) select w.k, w.v, w.x, coalesce((select "
	written = "unnest($1::bytea[], $2::bytea[], $3::bigint[]) w (k, v, x)"
)

// lastVersion selects, for each w.k, the last version of a key, or the one before it. It
// comes from the index, and none that was deleted stands before it there.
func lastVersion(columns, offset string) string {
	return "lateral (select " + columns + " from KV where k = w.k order by n desc " + offset + " limit 1) last"
}

// commit writes the group's changes and its mark, and commits. If there is no answer it
// finds out what happened.
func (c *committer) commit() error {
	var calls []call
	if len(c.expired) > 0 { // before the writes, which may renew a row
		calls = append(calls, call{statement: c.db.in(dropExpired), params: [][]byte{byteaArray(c.expired)}})
	}
	calls = append(calls, c.db.writes(c.pending.changes, c.versions)...)
	c.seq++
	told := c.answerInTime()
	defer told.Stop()
	err := c.send(append(append(calls, c.mark()...), call{statement: commit})...)
	if err == nil {
		return nil
	}
	answered := answered(c.c, err)
	c.drop()
	if answered {
		return err // and nothing else of it was run
	}
	in, unknown := c.resolve()
	switch {
	case unknown != nil:
		return unknown
	case !in:
		return err
	default:
		return nil
	}
}

// writes returns the statements for changes: a new version of each key, or a change of the
// last one.
func (db *DB) writes(changes map[string]change, versions bool) (calls []call) {
	var deleted, keys, values [][]byte
	var expiries []int64
	for key, change := range changes {
		if change.deleted {
			deleted = append(deleted, []byte(key))
			continue
		}
		keys, values, expiries = append(keys, []byte(key)), append(values, change.sealed), append(expiries, change.x)
	}
	if len(deleted) > 0 {
		calls = append(calls, call{statement: db.in(deleteRows), params: [][]byte{byteaArray(deleted)}})
	}
	if len(keys) == 0 {
		return calls
	}
	params := [][]byte{byteaArray(keys), byteaArray(values), int8Array(expiries)}
	if !versions {
		return append(calls, call{statement: db.in(writeRows), params: params})
	}
	return append(calls, call{statement: db.in(addVersions), params: params}, call{statement: db.in(dropFormer), params: params[:1]})
}

// mark writes the mark of a group, and now and then drops old ones.
func (c *committer) mark() []call {
	calls := []call{{statement: writeMark, params: [][]byte{c.db.server, int8Param(int64(c.seq))}}}
	if c.seq%marksKept == 0 {
		last := int64(c.seq) - marksKept
		calls = append(calls, call{statement: dropMarks, params: [][]byte{c.db.server, int8Param(last - marksKept), int8Param(last)}})
	}
	return calls
}

// send commits. A warning may mean that the wait for the standby was cancelled: then the
// commit is not as safe as it must be, which counts as no answer. There is no time limit
// before the store closes: the wait may be long.
func (c *committer) send(calls ...call) error {
	c.c.noticed = false
	network := c.c.PgConn().Conn()
	defer context.AfterFunc(c.db.life, func() {
		time.AfterFunc(c.db.opts.wait(answerMax), func() { _ = network.Close() })
	})()
	if err := c.c.exchange(0, calls...); err != nil {
		return err
	}
	if c.c.noticed {
		c.drop()
		return errNoticed
	}
	return nil
}

var errNoticed = errors.New("pgkv: the commit came with a warning")

// answerInTime gives the callers ErrUnknownOutcome if there is no outcome in time. The
// committer keeps trying until it knows.
func (c *committer) answerInTime() *time.Timer {
	group := append([]*op(nil), c.group...)
	left := max(time.Until(c.first.Add(c.db.opts.wait(answerMax))), c.db.opts.wait(answerMax-turnMax))
	return time.AfterFunc(left, func() {
		c.db.counts.unknown.Add(1)
		for _, o := range group {
			o.answer(end{err: fmt.Errorf("%w: the database did not answer", kv.ErrUnknownOutcome)})
		}
	})
}

// resolve finds out whether the last group is committed: its mark is there or not, as
// soon as the old transaction has ended, which the turn waits for. It writes the mark
// again, and so waits for a standby as the group would have done. It tries until it
// knows, or the store is closed.
func (c *committer) resolve() (in bool, unknown error) {
	begun := time.Now()
	for {
		var err error
		if in, err = c.look(); err == nil {
			c.db.counts.resolved.Add(1)
			return in, nil
		}
		c.drop()
		closing := c.db.life.Err() != nil && time.Since(begun) > c.db.opts.wait(answerMax)
		if closing || c.db.stopped() != nil {
			return false, fmt.Errorf("%w: %s", kv.ErrUnknownOutcome, Reason(err))
		}
		time.Sleep(retryPause)
	}
}

func (c *committer) look() (in bool, err error) {
	if err := c.connect(c.db.opts.wait(answerMax)); err != nil {
		return false, err
	}
	var found site
	err = c.c.exchange(c.db.opts.wait(answerMax),
		call{statement: beginCommit}, call{statement: takeTurn}, found.call(),
		call{statement: readMark, params: [][]byte{c.db.server, int8Param(int64(c.seq))}, row: func([][]byte) { in = true }})
	if err == nil {
		err = c.db.same(found)
	}
	switch {
	case err != nil:
		return false, err
	case !in:
		c.c.leave()
		return false, nil
	}
	return true, c.send(call{statement: touchMark, params: [][]byte{c.db.server, int8Param(int64(c.seq))}}, call{statement: commit})
}

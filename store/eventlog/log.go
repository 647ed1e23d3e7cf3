// Package eventlog keeps each account's log of events, its resources, and the event
// types that its log contains.
//
// A change to a resource becomes an event ([Log.PutResource], [Log.RecordEvent], or an
// [Importer] for history). One transaction gives it the next position, which is its id
// (record.Position), and writes it three times: under its account, under its type, and
// as an entry under its resource (segment.go). A page by type or resource is therefore
// one scan ([Log.ListEvents]). The same transaction reads and writes the log's head,
// which holds the newest position, so commit order, createdAt order and page order
// agree. [Watch] wakes live readers; retention and [Log.Purge] remove events. What
// adds or removes an event counts it by hour (counts.go).
//
// Package store owns the accounts: [Options] says how to create one.
package eventlog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// Log holds the event logs and resources of all accounts. It is safe for concurrent
// use.
type Log struct {
	db            kv.DB
	now           func() time.Time
	random        secret.Source
	log           *slog.Logger
	policy        atomic.Pointer[policy]
	strictTypes   bool
	ensureAccount func(tx kv.Txn, id string) error
	isErasing     func(r kv.Reader, id string) (bool, error)
	watches       watchLog
	others        others
	turns         turns
	guesses       guesses
	types         recentTypes
	retention     retention
	feedOff       atomic.Bool                     // unless another process has turned it on
	feedPassed    atomic.Pointer[record.Position] // TrimFeed left no entry up to here
	segmentEvents uint64
	budget        *record.Budget
}

// Options configure a Log.
type Options struct {
	Now    func() time.Time // in whole milliseconds, UTC
	Random secret.Source    // for positions; nil means the system's
	Log    *slog.Logger
	// CardGuard says what to do with card numbers and secrets in resources and events.
	// The default is to refuse them.
	CardGuard CardGuard
	// Rules are for resources of the kinds that the specification names.
	Rules snapshot.Rules
	// StrictTypes refuses event types that look misspelled.
	StrictTypes bool
	// EnsureAccount creates the account within tx if needed, and fails for one that is
	// being erased.
	EnsureAccount func(tx kv.Txn, id string) error
	// IsErasing reports whether an account is being erased.
	IsErasing func(r kv.Reader, id string) (bool, error)
	// Budget bounds what accounts change; nil bounds nothing.
	Budget *record.Budget
	// SegmentEvents is the number of events in a segment; 0 means 200,000.
	SegmentEvents uint64
}

// Open returns the Log in db, with the stored retention.
func Open(ctx context.Context, db kv.DB, o Options) (*Log, error) {
	l := &Log{db: db, now: o.Now, random: o.Random, log: o.Log, strictTypes: o.StrictTypes, ensureAccount: o.EnsureAccount, isErasing: o.IsErasing, segmentEvents: cmp.Or(o.SegmentEvents, segmentEventsDefault), budget: o.Budget}
	l.SetPolicy(o.CardGuard, o.Rules)
	l.others.init(db)
	l.guesses.init(l)
	return l, errors.Join(l.recallRetention(ctx), l.recallFeed(ctx))
}

// policy is what may be changed while the log is in use.
type policy struct {
	cardGuard CardGuard
	rules     snapshot.Rules
}

// SetPolicy replaces [Options].CardGuard and Rules for the writes that begin from now on.
func (l *Log) SetPolicy(guard CardGuard, rules snapshot.Rules) { l.policy.Store(&policy{guard, rules}) }

// Rules returns the rules for resources.
func (l *Log) Rules() snapshot.Rules { return l.policy.Load().rules }

// Counts counts what a Log has done since it was opened.
type Counts struct {
	Recorded uint64 // events committed to all logs, including imported ones
	Readers  int    // live readers now
}

// committed wakes live readers after events of an account were recorded.
func (l *Log) committed(c logChange) {
	l.watches.recorded.Add(uint64(c.recorded))
	l.announce(c)
}

// LogCounts returns the current counts. It does not read the store.
func (l *Log) LogCounts() Counts {
	c := Counts{Recorded: l.watches.recorded.Load()}
	l.watches.mu.Lock()
	defer l.watches.mu.Unlock()
	for _, log := range l.watches.logs {
		c.Readers += len(log.readers)
	}
	return c
}

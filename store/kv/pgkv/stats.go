package pgkv

import (
	"sync/atomic"
	"time"
)

// counts counts since Open.
type counts struct {
	commits, retries, lateReads, unknown, resolved, unavailable, queueFull, notes, notesRefused atomic.Uint64
	turnWait                                                                                    atomic.Int64 // of the last group, in nanoseconds
}

// Stats describes the current state of the store and counts since Open.
type Stats struct {
	Queue           int           // updates that wait for the committer
	QueueMax        int           // past that they are refused
	Used, Idle, Max int           // connections of readers
	TurnWait        time.Duration // how long the last group waited for its turn and its reads
	Commits         uint64        // groups
	Retries         uint64        // attempts of a group after its first
	LateReads       uint64        // reads that were not named
	UnknownOutcomes uint64        // groups whose callers were told so
	Resolved        uint64        // commits without an answer whose outcome was found
	Unavailable     uint64        // refusals because of the database
	QueueFull       uint64        // updates refused because too many waited
	Notes           uint64        // sent to other processes
	NotesRefused    uint64        // received, but not sent by a server with our key, or sent before
}

// Stats returns the current figures, without asking the database.
func (db *DB) Stats() Stats {
	used, idle := db.pool.open()
	return Stats{
		Queue: len(db.committer.queue), QueueMax: queueMax,
		Used: used, Idle: idle, Max: db.opts.Connections,
		TurnWait: time.Duration(db.counts.turnWait.Load()),
		Commits:  db.counts.commits.Load(), Retries: db.counts.retries.Load(),
		LateReads: db.counts.lateReads.Load(), UnknownOutcomes: db.counts.unknown.Load(),
		Resolved: db.counts.resolved.Load(), Unavailable: db.counts.unavailable.Load(),
		QueueFull: db.counts.queueFull.Load(), Notes: db.counts.notes.Load(), NotesRefused: db.counts.notesRefused.Load(),
	}
}

package badgerkv

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
)

// refusals counts the updates that were refused before they ran.
type refusals struct {
	queueFull atomic.Uint64
	diskFull  [kv.Classes]atomic.Uint64
}

// Stats describes the current state of the store.
type Stats struct {
	Queue        int                // updates that wait for the committer
	QueueMax     int                // past that they are refused
	Transactions int                // open now, including updates
	QueueFull    uint64             // updates refused because too many waited, since Open
	DiskFull     [kv.Classes]uint64 // updates refused because too little disk is free, since Open
	MemoryMax    int64              // bytes that tables and caches may take together
}

// Stats returns the current figures, without reading the disk.
func (db *DB) Stats() Stats {
	db.snapshots.mu.Lock()
	open := db.snapshots.inFlight
	db.snapshots.mu.Unlock()
	var diskFull [kv.Classes]uint64
	for class := range diskFull {
		diskFull[class] = db.refused.diskFull[class].Load()
	}
	return Stats{
		Queue: len(db.committer.queue), QueueMax: queueMax, Transactions: open,
		QueueFull: db.refused.queueFull.Load(), DiskFull: diskFull,
		MemoryMax: db.opts.Memory,
	}
}

// Space is the store's use of the disk, in bytes.
type Space struct {
	Used    uint64
	Free    uint64 // that the store may write to the filesystem
	FreeMin uint64 // below it ordinary writes are refused
	FreeEnd uint64 // below it all are
}

// CheckClock returns the wall clock's time of the last write, and a [*ClockError] if
// the clock is now too far from it to open the store. In memory it returns zero.
func (db *DB) CheckClock() (lastWrite time.Time, err error) {
	if db.opts.InMemory {
		return time.Time{}, nil
	}
	lastWrite = time.Unix(0, db.lastWrite.Load())
	return lastWrite, clockFault(db.opts, lastWrite)
}

// FreeSpace returns the bytes that this user may still write to dir's filesystem.
func FreeSpace(dir string) (uint64, error) { return freeSpace(dir) }

// Space reads the filesystem. ok is false for a store in memory.
func (db *DB) Space() (s Space, ok bool, err error) {
	if db.opts.InMemory {
		return Space{}, false, nil
	}
	room := db.space()
	if room.unable != nil {
		return Space{}, false, fmt.Errorf("badgerkv: free space of %s: %w", db.opts.Dir, room.unable)
	}
	s.Free, s.FreeMin = room.has(kv.Ordinary)
	_, s.FreeEnd = room.has(kv.Ruling)
	files, err := os.ReadDir(db.opts.path)
	if err != nil {
		return Space{}, false, fmt.Errorf("badgerkv: size: %w", err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil || file.Name() == reserveName { // removed by a compaction, or counted as free
			continue
		}
		s.Used += uint64(allocated(info))
	}
	return s, true, nil
}

// writeSlow is how long a commit may last before the store counts as not ready: a disk that
// hangs reports no error.
const writeSlow = 10 * time.Second

// Ready returns why an ordinary update would be refused now, or nil: a failed write or one that
// does not finish ([kv.ErrUnavailable]), a nearly full disk ([*RefusingError]), or a wall clock too
// far from the last write ([*ClockError]).
func (db *DB) Ready() error {
	if err := db.stopped(); err != nil {
		return err
	}
	if begun := db.writing.Load(); begun != nil && time.Since(*begun) > writeSlow {
		return fmt.Errorf("%w: the disk has not ended a write for %s", kv.ErrUnavailable, time.Since(*begun).Round(time.Second))
	}
	if db.opts.InMemory {
		return nil
	}
	if room := db.space(); room.least > kv.Ordinary {
		return &RefusingError{err: room.refusal(kv.Ordinary), least: room.least}
	}
	return clockFault(db.opts, time.Unix(0, db.lastWrite.Load()))
}

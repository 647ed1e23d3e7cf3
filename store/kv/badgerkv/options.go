package badgerkv

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// The profile for a small machine. With 1 M events it needs 48 MiB of resident
// memory, against 123 MiB by Badger's defaults.
const (
	// memTableSize must not change while a data directory lives: a log written
	// for a larger table would overflow a smaller one when it is replayed.
	memTableSize = 16 << 20
	memTables    = 2
	// valueThreshold lies above every value (kv.ValueSizeMax), which keeps all
	// of them out of the value log: that serves damage silently, and frees
	// little. Badger allows at most 15 % of memTableSize.
	valueThreshold   = 128 << 10
	valueLogFileSize = 16 << 20
	// blockSize is what is read, unpacked and cached at a time: some twenty
	// events. Against Badger's 4 KiB, a million events take 40 % less disk, a page
	// of them from anywhere a third less time, and a single key whose block is not
	// cached 5 µs more.
	blockSize  = 16 << 10
	compactors = 2
	// The tree is low and its first levels are wide. What is recorded lies in the
	// newest part of a log, and the base holds some parts: so what sinks below it
	// meets nothing there, and to record an event of the second million writes as
	// much as one of the first (3.5 KB of 790 bytes, its log included; with a base of
	// 128 MiB 3.4 and then 4.1). What is in no order, such as tokens and the
	// snapshots of resources, sinks the dearer the smaller the base is.
	//
	// More tables than eight at a time would make imports cheaper and pages dearer,
	// since each page looks into all of them: of a million events twice as dear with
	// 24, by a quarter with twelve.
	baseLevelSize   = 256 << 20
	firstTables     = 8
	firstTablesHalt = 20 // writes wait

	// MemoryDefault is divided into the memtables and, two to one, the block
	// cache (32 MiB) and the index cache (16 MiB).
	MemoryDefault = 80 << 20
	// MemoryMin leaves the caches 8 MiB.
	MemoryMin = memTables*memTableSize + 8<<20
)

// Options says where and how to open a store.
type Options struct {
	// Dir is the directory of the store; it is made, closed to others, when it
	// does not exist. Unused in memory.
	Dir string
	// InMemory keeps everything in memory and nothing after Close.
	InMemory bool
	// Now is the injected clock by which records expire, or nil for the wall
	// clock. Badger knows the wall clock only, so it expires nothing under an
	// injected one. Nothing else here looks at Now.
	Now func() time.Time
	// Memory is what memtables and caches may take together, in bytes: at least
	// MemoryMin, 0 for MemoryDefault. Only the caches follow it.
	Memory int64
	// Log receives Badger's messages, at debug and warn; nil drops them.
	Log *slog.Logger
	// AcceptClock opens the store although the wall clock seems wrong.
	AcceptClock bool
	// OnFatal is called once, after the store has stopped because a write
	// failed. The process must then end with a non-zero code: what the disk
	// holds is unknown. It must not call Close. Nil leaves it at the log.
	OnFatal func(error)
	// OnCommit is told of every group that was committed: how many updates it
	// held, and how long the engine took, sync included. It is called by the
	// committer, so it must be quick; nil tells nobody.
	OnCommit func(updates int, took time.Duration)
	// FreeSpace returns the free bytes of the filesystem of dir; nil asks the
	// system.
	FreeSpace func(dir string) (uint64, error)

	wall     func() time.Time                // the wall clock
	commitAt func(*badger.Txn, uint64) error // how a group is committed
}

func (o Options) withDefaults() Options {
	if o.Memory == 0 {
		o.Memory = MemoryDefault
	}
	o.Memory = max(o.Memory, MemoryMin)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.OnCommit == nil {
		o.OnCommit = func(int, time.Duration) {}
	}
	if o.FreeSpace == nil {
		o.FreeSpace = freeSpace
	}
	if o.wall == nil {
		// Not the injected clock: Badger and the stamp live by the machine's.
		o.wall = time.Now
	}
	if o.commitAt == nil {
		o.commitAt = func(tx *badger.Txn, version uint64) error { return tx.CommitAt(version, nil) }
	}
	return o
}

// place names the store in messages.
func (o Options) place() string {
	if o.InMemory {
		return "the store in memory"
	}
	return o.Dir
}

// engine returns Badger's options, all those that matter spelled out.
func (o Options) engine(log badger.Logger) badger.Options {
	dir := o.Dir
	if o.InMemory {
		dir = ""
	}
	caches := o.Memory - memTables*memTableSize
	opts := badger.DefaultOptions(dir)
	opts.InMemory = o.InMemory
	opts.Logger = log
	// Without it, power cuts lose acknowledged writes; a later Sync is no
	// barrier. Badger itself turns it off in memory.
	opts.SyncWrites = true
	opts.DetectConflicts = false // the committer is serial
	opts.NumVersionsToKeep = 1
	opts.ReadOnly = false
	opts.BypassLockGuard = false
	opts.MemTableSize = memTableSize
	opts.NumMemtables = memTables
	opts.ValueThreshold = valueThreshold
	opts.VLogPercentile = 0
	opts.ValueLogFileSize = valueLogFileSize
	opts.BlockSize = blockSize
	opts.BlockCacheSize = caches * 2 / 3
	opts.IndexCacheSize = caches / 3
	opts.Compression = options.Snappy
	if o.InMemory {
		// The tables lie in memory as they are: a cache would hold them twice, and
		// to make it takes as long as all else at open.
		opts.Compression, opts.BlockCacheSize, opts.IndexCacheSize = options.None, 0, 0
	}
	opts.NumCompactors = compactors
	opts.BaseLevelSize = baseLevelSize
	opts.NumLevelZeroTables = firstTables
	opts.NumLevelZeroTablesStall = firstTablesHalt
	opts.CompactL0OnClose = false
	opts.MetricsEnabled = false
	// At open this would read everything; each value has our checksum instead,
	// and Check reads everything when there is time for it.
	opts.ChecksumVerificationMode = options.NoVerification
	opts.VerifyValueChecksum = false
	return opts
}

// What Badger only logs although the disk has failed. A memtable that cannot be
// flushed is retried without end, and the second one blocks every write. The
// value log holds nothing of ours, but is synced with each commit, and its
// failure is the disk's.
var fatalFormats = []string{"Error while curlf sync", "error flushing memtable to disk"}

// engineLogger hands Badger's messages to slog, and makes the fatal ones fatal.
type engineLogger struct {
	log   *slog.Logger
	fatal func(error)
}

func (l engineLogger) Errorf(format string, args ...any) {
	l.say(slog.LevelWarn, format, args)
	for _, fatal := range fatalFormats {
		if strings.HasPrefix(format, fatal) {
			l.fatal(fmt.Errorf("badger: "+strings.TrimSpace(format), args...))
			return
		}
	}
}

// cacheFormats begin what Badger warns of once a minute for as long as a process
// lives, when pages from anywhere in a large log have passed through the cache: the
// cache is as large as --memory allows, and nothing is amiss.
var cacheFormats = []string{"%s might be too small.", "Cache life expectancy"}

func (l engineLogger) Warningf(format string, args ...any) {
	level := slog.LevelWarn
	for _, cache := range cacheFormats {
		if strings.HasPrefix(format, cache) {
			level = slog.LevelDebug
		}
	}
	l.say(level, format, args)
}

func (l engineLogger) Infof(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
func (l engineLogger) Debugf(format string, args ...any) { l.say(slog.LevelDebug, format, args) }

// say formats nothing that nobody will read: Badger has debug messages on the
// path of every commit.
func (l engineLogger) say(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "engine message", "detail", strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

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
	// memTableSize must not change while a data directory exists: a log written
	// for a larger table would overflow a smaller one when it is replayed. Badger's
	// largest transaction is 15 % of it and must hold the largest Update. With
	// 16 MiB an import of a million events took 360 MiB of anonymous memory, with
	// 8 MiB 213.
	memTableSize = 8 << 20
	memTables    = 2
	// Badger keeps the buffers in which it makes tables, up to eight of them and each as
	// large as it ever was. A buffer begins with two tables of the base and doubles: with
	// half a MiB a whole memtable just fits into 15 MiB, with 1 MiB it needs 30. Under ten
	// times the load that a server can take, its heap was 181 MiB, and 292 with 1 MiB.
	// Ten million events are some 1,500 tables, and were 960.
	tableSize       = 512 << 10
	tableSizeFactor = 4 // from one level to the next
	// valueThreshold is above every value (kv.ValueSizeMax), which keeps all
	// of them out of the value log: that serves damage silently, and frees
	// little. Badger allows at most its largest transaction.
	valueThreshold   = 128 << 10
	valueLogFileSize = 16 << 20
	// blockSize is what is read, unpacked and cached at a time: some twenty
	// events. Against Badger's 4 KiB, a million events take 40 % less disk, a page
	// of them from anywhere a third less time, and a single key whose block is not
	// cached 5 µs more.
	blockSize  = 16 << 10
	compactors = 2
	// The tree is low and its first levels are wide. Events are recorded at the end of
	// a log, and the base holds several segments, so tables that sink below it overlap
	// with none. An event of the second million then writes as much as one of the first
	// (3.5 KB for 790 bytes, its log included; with a base of 128 MiB 3.4 and then
	// 4.1). Unordered records, such as tokens and snapshots of resources, cost more to
	// merge with a smaller base.
	//
	// More tables than eight at a time would make imports cheaper and pages more expensive,
	// since each page looks into all of them: with a million events, they cost twice as
	// much with 24, and a quarter more with twelve.
	baseLevelSize   = 256 << 20
	firstTables     = 8
	firstTablesHalt = 20 // writes wait

	// MemoryDefault is divided into the memtables, the cache of records (7.5 MiB) and,
	// two to one, the block cache (38 MiB) and the buffers in which tables are made
	// (19 MiB: a few writers need less, writers who never pause need more).
	MemoryDefault = 80 << 20
	// MemoryMin leaves the block cache 13 MiB.
	MemoryMin = 40 << 20
)

// Options says where and how to open a store.
type Options struct {
	// Dir is the directory of the store, created with mode 0700 if needed. Not used in
	// memory.
	Dir string
	// InMemory keeps everything in memory only.
	InMemory bool
	// Now is the injected clock for expiry, or nil for the wall clock. Badger only
	// knows the wall clock, so with an injected one it expires nothing.
	Now func() time.Time
	// Memory bounds memtables and caches together, in bytes: at least MemoryMin; 0
	// means MemoryDefault. Only the caches vary with it.
	Memory int64
	// Recent are the kinds of record, by the first byte of their keys, of which those
	// last read or written are kept in memory.
	Recent string
	// RecentMax bounds them, in bytes; 0 means a sixteenth of Memory.
	RecentMax int64
	// Whole are the kinds of which all records are kept in memory as long as they fit,
	// so that a missing one is found missing as fast as another is found. They must not
	// expire.
	Whole string
	// Log receives Badger's messages at debug and warn level; nil drops them.
	Log *slog.Logger
	// AcceptClock opens the store even if the wall clock seems wrong.
	AcceptClock bool
	// Moved, if set, returns a *MovedError if something else than Dir that the store rests on was
	// moved or replaced. It is called before each group of updates, so it must be quick.
	Moved func() error
	// OnFatal, if set, is called once after a failed write, or a [*MovedError], has stopped the store. The
	// process must then exit with an error, because the state of the disk is unknown.
	// OnFatal must not call Close.
	OnFatal func(error)
	// OnCommit, if set, is called after every commit with the number of updates and
	// the time it took, including the sync. It runs in the committer, so it must be
	// quick.
	OnCommit func(updates int, took time.Duration)
	// FreeSpace returns the free bytes of dir's filesystem; nil uses the system.
	FreeSpace func(dir string) (uint64, error)

	path     string                          // of Dir for the files, wherever Dir is moved to
	closeMax time.Duration                   // how long Close may take
	filesMax func() uint64                   // how many files this process may open
	wall     func() time.Time                // the wall clock
	commitAt func(*badger.Txn, uint64) error // how a group is committed
}

func (o Options) withDefaults() Options {
	if o.Memory == 0 {
		o.Memory = MemoryDefault
	}
	o.Memory = max(o.Memory, MemoryMin)
	if o.RecentMax == 0 {
		o.RecentMax = o.Memory / recentShare
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.filesMax == nil {
		o.filesMax = FilesMax
	}
	if o.closeMax == 0 {
		o.closeMax = closeMax
	}
	if o.Moved == nil {
		o.Moved = func() error { return nil }
	}
	if o.OnCommit == nil {
		o.OnCommit = func(int, time.Duration) {}
	}
	if o.FreeSpace == nil {
		o.FreeSpace = freeSpace
	}
	if !o.InMemory && o.path == "" {
		o.path = o.Dir
	}
	if o.wall == nil {
		// Not the injected clock: Badger and the stamp use the wall clock.
		o.wall = time.Now
	}
	if o.commitAt == nil {
		o.commitAt = func(tx *badger.Txn, version uint64) error { return tx.CommitAt(version, nil) }
	}
	return o
}

// name names the store in messages.
func (o Options) name() string {
	if o.InMemory {
		return "the store in memory"
	}
	return o.Dir
}

// engine returns Badger's options, with everything that matters spelled out.
func (o Options) engine(log badger.Logger) badger.Options {
	caches := o.Memory - memTables*memTableSize - o.RecentMax - o.Memory/wholeShare
	opts := badger.DefaultOptions(o.path) // "" in memory
	opts.InMemory = o.InMemory
	opts.Logger = log
	// Without it a power cut loses acknowledged writes; a later Sync does not help.
	// Badger turns it off in memory.
	opts.SyncWrites = true
	opts.DetectConflicts = false // the committer is serial
	opts.NumVersionsToKeep = 1
	opts.ReadOnly = false
	opts.BypassLockGuard = false
	opts.MemTableSize = memTableSize
	opts.NumMemtables = memTables
	opts.BaseTableSize = tableSize
	opts.TableSizeMultiplier = tableSizeFactor
	opts.ValueThreshold = valueThreshold
	opts.VLogPercentile = 0
	opts.ValueLogFileSize = valueLogFileSize
	opts.BlockSize = blockSize
	opts.BlockCacheSize = caches * 2 / 3
	opts.IndexCacheSize = 0 // only encrypted tables use it; the others' indexes are in their files
	opts.Compression = options.Snappy
	if o.InMemory {
		// The tables are in memory anyway: a cache would hold them twice, and its
		// creation takes as long as the rest of Open.
		opts.Compression, opts.BlockCacheSize = options.None, 0
	}
	opts.NumCompactors = compactors
	opts.BaseLevelSize = baseLevelSize
	opts.NumLevelZeroTables = firstTables
	opts.NumLevelZeroTablesStall = firstTablesHalt
	opts.CompactL0OnClose = false
	opts.MetricsEnabled = false
	// At open this would read everything; each value has our checksum instead,
	// and Check reads everything in the background.
	opts.ChecksumVerificationMode = options.NoVerification
	opts.VerifyValueChecksum = false
	return opts
}

// Messages that Badger only logs although the disk has failed. A memtable that cannot
// be flushed is retried for ever, and the second one blocks every write. The value log
// is not used, but is synced with each commit, so its failure is the disk's.
var fatalFormats = []string{"Error while curlf sync", "error flushing memtable to disk"}

// engineLogger sends Badger's messages to slog and stops the store at the fatal ones.
type engineLogger struct {
	log   *slog.Logger
	fatal func(error)
	place *place // nil in memory
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

// cacheFormats are the starts of warnings that Badger repeats every minute once reads
// of a large log have passed through the cache. The cache has the size of --memory;
// nothing is wrong.
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

// say does not format a disabled message: Badger logs debug messages in every commit.
func (l engineLogger) say(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "engine message", "detail", l.place.rename(strings.TrimSpace(fmt.Sprintf(format, args...))))
	}
}

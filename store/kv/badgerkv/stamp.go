package badgerkv

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	stampName  = "STAMP"
	stampMagic = "tollstp1"
	// stampSize: magic, version, Unix nanoseconds, CRC-32C. It fits one sector, so
	// that a power cut cannot tear it.
	stampSize = 8 + 8 + 8 + crc32.Size

	// stampSyncEvery bounds what a power cut can take from the stamp, and the cost of
	// syncing it. An older stamp detects less.
	stampSyncEvery = time.Second

	clockBehindMax = 60 * time.Second
	clockAheadMax  = 400 * 24 * time.Hour // more than a yearly restart
)

// stamp records the last acknowledged commit outside Badger, because Badger silently
// drops the damaged end of a write-ahead log.
type stamp struct {
	version uint64
	wall    time.Time
}

// stampFile is the stamp on disk. It is in Badger's directory, so a restore, which
// creates a new directory, has none.
type stampFile struct {
	file   *os.File
	synced time.Time // by the wall clock
}

func stampPath(dir string) string { return filepath.Join(dir, stampName) }

// readStamp returns the stamp of a store, or nil if it has none.
func readStamp(opts Options) (*stamp, error) {
	dir := opts.Dir
	raw, err := os.ReadFile(stampPath(opts.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &DiskError{Dir: dir, Reason: "the stamp cannot be read", Remedy: "make it readable by this user", Err: err}
	}
	if len(raw) != stampSize || string(raw[:8]) != stampMagic {
		return nil, &BehindError{Dir: dir, Damage: "it is not a stamp"}
	}
	body, sum := raw[:stampSize-crc32.Size], raw[stampSize-crc32.Size:]
	if binary.BigEndian.Uint32(sum) != crc32.Checksum(body, castagnoli) {
		return nil, &BehindError{Dir: dir, Damage: "its checksum does not match"}
	}
	return &stamp{
		version: binary.BigEndian.Uint64(body[8:]),
		wall:    time.Unix(0, int64(binary.BigEndian.Uint64(body[16:]))),
	}, nil
}

func (s stamp) encode() []byte {
	raw := append(make([]byte, 0, stampSize), stampMagic...)
	raw = binary.BigEndian.AppendUint64(raw, s.version)
	raw = binary.BigEndian.AppendUint64(raw, uint64(s.wall.UnixNano()))
	return binary.BigEndian.AppendUint32(raw, crc32.Checksum(raw, castagnoli))
}

// checkClock compares the wall clock with the stamp. It runs before Badger opens,
// because with a wrong clock Badger's compaction drops unexpired records.
func checkClock(opts Options, stamped stamp) error {
	err := clockFault(opts, stamped.wall)
	if err == nil || !opts.AcceptClock {
		return err
	}
	opts.Log.Warn("wall clock accepted", "err", err)
	return nil
}

// clockFault returns a *ClockError when the wall clock is far from lastWrite, or nil.
func clockFault(opts Options, lastWrite time.Time) error {
	wall := opts.wall()
	distance := wall.Sub(lastWrite)
	if -clockBehindMax <= distance && distance <= clockAheadMax {
		return nil
	}
	return &ClockError{Dir: opts.Dir, Wall: wall, Stamped: lastWrite}
}

// createStamp replaces the stamp with s, durably.
func createStamp(opts Options, s stamp) (*stampFile, error) {
	failed := func(err error) error {
		return &DiskError{Dir: opts.Dir, Reason: "the stamp cannot be written", Remedy: "check the disk and its permissions", Err: err}
	}
	path := stampPath(opts.path)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, failed(err)
	}
	f := &stampFile{file: file}
	err = cmp.Or(f.sync(s), os.Rename(path+".new", path), syncDir(opts.path))
	if err != nil {
		return nil, failed(cmp.Or(err, file.Close()))
	}
	return f, nil
}

// write writes s, and syncs it if the last sync is long ago.
func (f *stampFile) write(s stamp) error {
	if since := s.wall.Sub(f.synced); since < 0 || since >= stampSyncEvery {
		return f.sync(s)
	}
	_, err := f.file.WriteAt(s.encode(), 0)
	return err
}

// sync writes s durably.
func (f *stampFile) sync(s stamp) error {
	if _, err := f.file.WriteAt(s.encode(), 0); err != nil {
		return err
	}
	f.synced = s.wall
	return fdatasync(f.file)
}

func (f *stampFile) close() error { return f.file.Close() }

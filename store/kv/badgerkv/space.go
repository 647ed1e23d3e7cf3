package badgerkv

import (
	"fmt"
	"os"

	"tollhouse/store/kv"
)

// freeSpaceMin must be free for a write. Badger writes through memory maps of
// sparse files: on a full disk that is SIGBUS, and SIGBUS again at reopening.
// Memtables, their logs and the tables they are flushed into take up to six
// times a memtable before anybody asks again.
const freeSpaceMin = 6 * memTableSize

// makeDir makes the directory of a store, closed to others.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &DiskError{Dir: dir, Reason: "the directory cannot be made", Remedy: "choose a directory that this user can write to", Err: err}
	}
	return nil
}

// checkSpace refuses to open a store on a nearly full disk.
func checkSpace(opts Options) error {
	free, err := opts.FreeSpace(opts.Dir)
	if err != nil {
		return &DiskError{Dir: opts.Dir, Reason: "the free space cannot be found out", Remedy: "check the disk", Err: err}
	}
	if free < freeSpaceMin {
		return &DiskError{
			Dir:    opts.Dir,
			Reason: fmt.Sprintf("only %d MiB are free on its filesystem", free>>20),
			Remedy: fmt.Sprintf("free at least %d MiB there and start again; the store is untouched", freeSpaceMin>>20),
		}
	}
	return nil
}

// spaceRefusal returns why nothing may be written now, or nil.
func spaceRefusal(opts Options) error {
	if opts.InMemory {
		return nil
	}
	free, err := opts.FreeSpace(opts.Dir)
	if err != nil {
		return fmt.Errorf("%w: the free space cannot be found out: %w", kv.ErrUnavailable, err)
	}
	if free < freeSpaceMin {
		return fmt.Errorf("%w: only %d MiB are free on the disk, writing needs %d", kv.ErrUnavailable, free>>20, freeSpaceMin>>20)
	}
	return nil
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return firstError(d.Sync(), d.Close())
}

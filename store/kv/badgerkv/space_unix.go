//go:build linux || darwin

package badgerkv

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"tollhouse/store/kv"
)

// filesFreeMin more files must fit on the disk, far more than merges make at a time. The
// engine tries for ever to create a file that does not fit.
const filesFreeMin = 256

// freeSpace returns the bytes that this user may still write to dir's filesystem. It
// returns a DiskError if no more files fit there.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	if st.Files > 0 && st.Ffree < filesFreeMin { // some filesystems do not count files
		return 0, &DiskError{
			Dir: dir, Err: kv.ErrFull,
			Reason: fmt.Sprintf("only %d more files fit on its filesystem", st.Ffree),
			Remedy: fmt.Sprintf("remove files of other programs from that filesystem, until df -i shows at least %d free", filesFreeMin),
		}
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// allocated returns a file's size on disk. Badger's logs are sparse files of twice a
// memtable, mostly unwritten.
func allocated(info fs.FileInfo) int64 {
	const blockSize = 512 // of st_blocks, whatever the filesystem's own is
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockSize
	}
	return info.Size()
}

// FilesMax returns how many files this process may open.
func FilesMax() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return noLimit
	}
	return uint64(limit.Cur)
}

//go:build linux || darwin

package badgerkv

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeSpace returns the bytes that this user may still write to dir's filesystem.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
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

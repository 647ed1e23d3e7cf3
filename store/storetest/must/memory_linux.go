package must

import (
	"flag"
	"os"
	"syscall"
)

// The file system in memory that most Linux systems have, and the free space it must have:
// containers often have 64 MB of it, and do not run programs from it.
const (
	memoryDir      = "/dev/shm"
	memoryFree     = 4 << 30
	memoryNoExec   = 0x8        // ST_NOEXEC
	memoryFSMagic  = 0x01021994 // TMPFS_MAGIC
	memoryVariable = "TMPDIR"
)

// FilesInMemory puts the temporary files of the tests into memory under -short, where the
// system has a place for them: no test of the quick loop is about a disk, and an fsync takes as
// long as the rest of a small test. TestMain calls it in packages whose tests sync files. A
// TMPDIR that is set stays.
func FilesInMemory() {
	if !flag.Parsed() {
		flag.Parse()
	}
	var fs syscall.Statfs_t
	if !Short() || os.Getenv(memoryVariable) != "" || syscall.Statfs(memoryDir, &fs) != nil ||
		fs.Type != memoryFSMagic || fs.Flags&memoryNoExec != 0 || fs.Bavail*uint64(fs.Bsize) < memoryFree {
		return
	}
	if err := os.Setenv(memoryVariable, memoryDir); err != nil {
		panic(err)
	}
}

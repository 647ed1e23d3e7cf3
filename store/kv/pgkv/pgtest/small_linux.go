package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tollhouse/store/storetest/must"
)

// SmallDatabase makes a database on a disk of its own of so many MiB, mounted at dir, until the
// test ends. The log of the server is not on it. An empty database takes 8 MiB.
func (s *Server) SmallDatabase(t testing.TB, mebibytes int) (dsn, dir string) {
	t.Helper()
	must.Have(t, s.asUser != nil, "root, to mount a file system")
	dir = filepath.Join(s.dir, "small")
	must.Do(t, os.Mkdir(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700,uid=%d,gid=%d", mebibytes, s.asUser.Uid, s.asUser.Gid))
	must.Have(t, err == nil, fmt.Sprintf("a machine that mounts a tmpfs: %v", err))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s.Exec(t, s.DSN("postgres"), "create tablespace small location '"+dir+"'")
	s.Exec(t, s.DSN("postgres"), "create database small tablespace small")
	return s.DSN("small"), dir
}

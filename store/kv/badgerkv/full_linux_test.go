package badgerkv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// TestFullDiskWhileMerging: on a disk that a store fills, the engine keeps room to merge
// its tables, so that writes are refused and the process continues. Otherwise SIGBUS ends
// this process. Writes are possible again whenever a merge frees space, until none does.
func TestFullDiskWhileMerging(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const (
		disk  = 420 // MiB
		value = 60 << 10
		rest  = 50 * time.Millisecond
	)
	db := mustOpen(t, Options{Dir: smallDisk(t, disk)})
	random := rand.New(rand.NewPCG(1, 2))
	written := 0
	for refused := 0; refused < 40; {
		err := db.Update(t.Context(), func(tx kv.Txn) error {
			for range 10 {
				key := fmt.Sprintf("%08x", random.Uint32())
				if err := setAll(tx, key, noise(key, value)); err != nil {
					return err
				}
			}
			return nil
		})
		switch {
		case err == nil:
			written += 10 * value
			refused = 0
		case errors.Is(err, kv.ErrUnavailable):
			refused++
			if err := putAs(t, db, kv.Ruling, fmt.Sprint("ended", refused), noise("ended", 1<<10)); err != nil {
				t.Errorf("an ending where changes are refused = %v", err)
			}
			time.Sleep(rest)
		default:
			t.Fatal(err)
		}
		if written > disk<<20 {
			t.Fatalf("%d bytes were written to a disk of %d MiB", written, disk)
		}
	}
	if written < disk<<20/4 {
		t.Errorf("writes were refused after %d MiB on a disk of %d", written>>20, disk)
	}
	space, _, err := db.Space()
	if err != nil || space.FreeMin <= freeSpaceMin {
		t.Errorf("Space() = %+v, %v; want that more than %d must be free", space, err, freeSpaceMin)
	}
}

// TestEndingsOnAFullDisk: where changes are refused, endings are possible, and then those of
// operators, until the space kept for them is used up. The store still closes and opens on
// such a disk. A SIGBUS would end this process.
//
// Promise (Credentials, memory, connections): endings do not wait for a merge, and use up no more
// space than is kept for them; a server killed then starts again, and commands end things without
// one
func TestEndingsOnAFullDisk(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	const (
		disk   = 420     // MiB
		change = 500_000 // bytes
		ending = 2000
	)
	opts := Options{Dir: filepath.Join(smallDisk(t, disk), "store")}
	db := mustOpen(t, opts)
	random := rand.New(rand.NewPCG(3, 4))
	// until returns how much updates of a class write until they stay refused.
	until := func(c kv.Class, size int) (written int) {
		most := 20
		if c >= kv.Ending {
			most = 1 // each was tried for two seconds
		}
		for refused := 0; refused < most; {
			key := fmt.Sprintf("%08x", random.Uint32())
			err := db.Update(t.Context(), func(tx kv.Txn) error {
				tx.As(c)
				for part := range (size + 1<<16 - 1) >> 16 {
					if err := setAll(tx, fmt.Sprint(key, part), noise(key, min(size, 60<<10))); err != nil {
						return err
					}
				}
				return nil
			})
			switch {
			case err == nil:
				written, refused = written+size, 0
			case errors.Is(err, kv.ErrFull):
				refused++
				time.Sleep(10 * time.Millisecond)
			default:
				t.Fatal(err)
			}
			if written > disk<<20 {
				t.Fatalf("as %s %d bytes were written to a disk of %d MiB", c, written, disk)
			}
		}
		return written
	}
	until(kv.Ordinary, change)
	for _, c := range []kv.Class{kv.AccessOfBusiest, kv.Access, kv.Ending, kv.Ruling} {
		written := until(c, ending)
		t.Logf("as %s %d KiB", c, written>>10)
		if c >= kv.Ending && written < 1<<20 {
			t.Errorf("as %s only %d bytes were written", c, written)
		}
	}
	mustClose(t, db)
	db = mustOpen(t, opts)
	until(kv.Ruling, ending)
	if err := db.View(t.Context(), func(r kv.Reader) error { return nil }); err != nil {
		t.Errorf("View on a full disk = %v", err)
	}
}

// TestNoMoreFiles: where no more files fit, writes are refused, reads go on, and a start
// is refused by name: the engine would try for ever.
func TestNoMoreFiles(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 256)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "nr_inodes=300"); err != nil {
		t.Fatal(err)
	}
	set := func(tx kv.Txn) error { return setAll(tx, "a", "1") }
	db := must.Get(Open(Options{Dir: filepath.Join(dir, "store")}))(t)
	err := db.Update(t.Context(), set)
	for n := 0; err == nil && n < 300; n++ {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600))
		err = db.Update(t.Context(), set)
	}
	if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "more files fit") {
		t.Errorf("Update = %v, want it refused for want of files", err)
	}
	wantValue(t, db, "a", "1")
	must.Do(t, db.Close())
	for n := range 20 { // more than a store has open
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("more", n)), nil, 0o600))
	}
	_, err = Open(Options{Dir: filepath.Join(dir, "store")})
	if full, is := errors.AsType[*DiskError](err); !is || !strings.Contains(full.Reason, "more files fit") || !strings.Contains(full.Remedy, "df -i") {
		t.Errorf("Open = %v, want it refused for want of files", err)
	}
}

// TestTheReserveStaysWhenItCannotGrow: a program that takes the disk while the reserve is
// enlarged does not get what was reserved before.
func TestTheReserveStaysWhenItCannotGrow(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 3*reserveStep>>20)
	db := &DB{opts: Options{Dir: dir, path: dir}}
	db.reserve(2 * reserveStep)
	db.reserve(4 * reserveStep)
	info := must.Get(os.Stat(filepath.Join(dir, reserveName)))(t)
	if held := db.held(); held != 2*reserveStep || info.Size() != 2*reserveStep || allocated(info) != 2*reserveStep {
		t.Errorf("the reserve holds %d bytes by its own count, %d by its size and %d on the disk, want %d", held, info.Size(), allocated(info), 2*reserveStep)
	}
	db.reserve(3 * reserveStep)
	if held := db.held(); held != 3*reserveStep {
		t.Errorf("the reserve holds %d bytes when there is room again, want %d", held, 3*reserveStep)
	}
}

// smallDisk mounts a disk of so many MiB.
func smallDisk(t *testing.T, size int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", size))
	must.Have(t, err == nil, fmt.Sprintf("a machine that mounts a tmpfs: %v", err))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestTheReserveGrowsOnXFS, where a file that is allocated once more in whole needs the
// free space for it.
func TestTheReserveGrowsOnXFS(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	must.Have(t, os.Getuid() == 0, "root, to mount a file system")
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	must.Do(t, os.Mkdir(at, 0o700))
	must.Do(t, os.WriteFile(image, nil, 0o600))
	must.Do(t, os.Truncate(image, 320<<20))
	out, err := exec.Command("mkfs.xfs", "-q", "-f", image).CombinedOutput()
	must.Have(t, err == nil, fmt.Sprintf("mkfs.xfs: %v %s", err, out))
	out, err = exec.Command("mount", "-t", "xfs", "-o", "loop,nosuid,nodev", image, at).CombinedOutput()
	must.Have(t, err == nil, fmt.Sprintf("a kernel that mounts xfs from a loop device: %v %s", err, out))
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	db := &DB{opts: Options{Dir: at, path: at}}
	db.reserve(4 * reserveStep)
	other := must.Get(os.Create(filepath.Join(at, "other")))(t)
	defer other.Close()
	free := must.Get(freeSpace(at))(t)
	must.Do(t, unix.Fallocate(int(other.Fd()), 0, 0, int64(free)-2*reserveStep))
	db.reserve(5 * reserveStep)
	info := must.Get(os.Stat(filepath.Join(at, reserveName)))(t)
	if held := db.held(); held != 5*reserveStep || allocated(info) != 5*reserveStep {
		t.Errorf("the reserve holds %d bytes by its own count and %d on the disk, want %d", held, allocated(info), 5*reserveStep)
	}
}

package badgerkv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

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
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=700", disk))
	must.Have(t, err == nil, fmt.Sprintf("a machine that mounts a tmpfs: %v", err))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	db := mustOpen(t, Options{Dir: dir})
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

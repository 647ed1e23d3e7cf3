package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	fullDisk       = 512 << 20
	fullDiskLong   = 1 << 30   // room for what its rounds write
	fullLeftMin    = 64 << 20  // less than a write needs
	fullLeftMax    = 160 << 20 // more: then the writers themselves fill the disk
	fullRounds     = 2
	fullRoundsLong = 8
)

// TestFullDisk fills the disk under the writers of a ledger, who import and cause merges
// too, and under backups to the same disk. Changes are refused with 503 and Retry-After,
// and everything else goes on. Once there is room again, changes are possible, and nothing
// that was acknowledged is lost. A server that is killed meanwhile starts again then, and
// not before.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	f := newFullDisk(t)
	f.s = f.serve(t, "--public-url", "http://127.0.0.1")
	l, writers := newLedger(t, f.s)
	f.s.createUser("filler", "acct_filler", l.password)
	p, refused, err := l.grant(t.Context(), "password", "username", "filler", "password", l.password)
	if err != nil || p.Access == "" {
		t.Fatalf("password grant: %s, %v", refused, err)
	}
	f.access = p.Access
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	n, kills := 0, 0
	for ; must.More(n, fullRounds, fullRoundsLong) && !t.Failed(); n++ {
		wait := l.writeUntil(t, writers, random)
		f.fill(t, l, random)
		if n%2 == 0 {
			f.free(t, l)
			wait()
		} else {
			f.s.kill()
			wait()
			f.restart(t, l)
			kills++
		}
		l.audit(t, writers)
	}
	f.s.stop()
	must.Figure(t, "times_full", n)
	must.Figure(t, "kills", kills)
	must.Figure(t, "refused", l.busy.Load())
	must.Figure(t, "wrong_answers", f.wrong)
	must.Figure(t, "read_p99_ms", f.slowest.Milliseconds())
	must.Figure(t, "read_p99_times_before", f.slower)
	must.Figure(t, "backups", f.backups)
	must.Figure(t, "recovered_ms", f.recovered.Milliseconds())
	l.report(t)
}

// fullDiskSite is a site on a disk of its own.
type fullDiskSite struct {
	site
	s         *server
	filler    string
	access    string // to an account that the ledger does not read
	backups   int    // tried while the disk was full
	wrong     int
	slowest   time.Duration // p99 of reads while it was full
	slower    float64       // than before
	recovered time.Duration // from room on the disk to the next change
}

func newFullDisk(t *testing.T) *fullDiskSite {
	t.Helper()
	dir, size := t.TempDir(), fullDisk
	if must.Long() {
		size = fullDiskLong
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size))
	must.Have(t, err == nil, fmt.Sprintf("a machine that mounts a tmpfs: %v", err))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	where := []string{"--data", filepath.Join(dir, "data")}
	return &fullDiskSite{site: site{where: where, serving: where}, filler: filepath.Join(dir, "filler")}
}

// writeUntil lets all writers write until the server is dead or wait is called.
func (l *ledger) writeUntil(t *testing.T, writers []writer, random *rand.Rand) (wait func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.each(t, writers, func(w writer, r *rand.Rand) error {
			for ctx.Err() == nil {
				if err := w.write(t.Context(), l, r); errors.Is(err, errLost) {
					return nil
				} else if err != nil {
					return err
				}
			}
			return nil
		}, random)
	}()
	return func() { stop(); <-ended }
}

// fill leaves little room on the disk, and reads while changes are refused.
func (f *fullDiskSite) fill(t *testing.T, l *ledger, random *rand.Rand) {
	t.Helper()
	lasts := 500 * time.Millisecond
	left := uint64(fullLeftMin)
	if must.Long() {
		lasts = 5 * time.Second
		left += random.Uint64N(fullLeftMax - fullLeftMin)
	}
	before := probe(t, l.client, l.reader, lasts)
	f.leave(t, left)
	t.Logf("%d MiB are left", left>>20)
	eventually(t, func() bool {
		a, err := l.call(t.Context(), f.access, http.MethodPut, "/api/resources/customer/cus_1", fmt.Sprintf(`{"notes":"%d"}`, time.Now().UnixNano()))
		if err != nil || a.status/100 != 2 && (a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "") {
			f.wrong++
			t.Errorf("a change on a full disk: %s, %v; want 503 with Retry-After", a, err)
		}
		return a.status/100 != 2
	}, "the disk is full, and changes are not refused")
	during := probe(t, l.client, l.reader, lasts)
	if a, err := l.call(t.Context(), "", http.MethodGet, "/healthz", ""); err != nil || a.status != http.StatusOK {
		f.wrong++
		t.Errorf("/healthz on a full disk: %s, %v", a, err)
	}
	f.slowest, f.slower = max(f.slowest, p99(during)), max(f.slower, float64(p99(during))/float64(p99(before)))
	f.askForRoom(t)
	f.backUp(t)
}

// askForRoom wants an operator's command refused with the space that is missing.
func (f *fullDiskSite) askForRoom(t *testing.T) {
	t.Helper()
	out, err, serves := []byte(nil), error(nil), true
	for tries := 0; serves && tries < 2; tries++ { // the first may find room, as in restart
		if tries > 0 {
			f.leave(t, fullLeftMin)
		}
		name := fmt.Sprintf("acct_%d", time.Now().UnixNano())
		out, err = exec.Command(program(t), append([]string{"account", "create", name}, f.where...)...).CombinedOutput()
		serves = err == nil
	}
	if exitCode(err) != exitIOError || !strings.Contains(string(out), "MiB are free") || !strings.Contains(string(out), "hint: free space there until") {
		t.Errorf("a command on a full disk: %v, want exit code %d, what is free and what to do\n%s", err, exitIOError, out)
	}
}

// leave makes the filler so large that only so much is free.
func (f *fullDiskSite) leave(t *testing.T, bytes uint64) {
	t.Helper()
	const step = 32 << 20 // the server writes meanwhile
	file := must.Get(os.OpenFile(f.filler, os.O_CREATE|os.O_WRONLY, 0o600))(t)
	for {
		var disk syscall.Statfs_t
		must.Do(t, syscall.Statfs(filepath.Dir(f.filler), &disk))
		free := disk.Bavail * uint64(disk.Bsize)
		if free <= bytes {
			break
		}
		has := must.Get(file.Stat())(t).Size()
		must.Do(t, syscall.Fallocate(int(file.Fd()), 0, has, int64(min(free-bytes, step))))
	}
	must.Do(t, file.Close())
}

// backUp wants a whole backup or none.
func (f *fullDiskSite) backUp(t *testing.T) {
	t.Helper()
	f.backups++
	file := filepath.Join(filepath.Dir(f.filler), "backup")
	out, err := exec.Command(program(t), append([]string{"backup", file}, f.where...)...).CombinedOutput()
	_, missing := os.Stat(file)
	switch code := exitCode(err); {
	case code == 0 && missing == nil:
		must.Do(t, os.Remove(file))
	case code == exitIOError && missing != nil:
	default:
		t.Errorf("a backup to a full disk: exit code %d, %v\n%s", code, missing, out)
	}
}

// free makes room, and waits for the next change.
func (f *fullDiskSite) free(t *testing.T, l *ledger) {
	t.Helper()
	must.Do(t, os.Remove(f.filler))
	begun, acks := time.Now(), l.acks.Load()
	eventually(t, func() bool { return l.acks.Load() > acks }, "no change is possible although there is room")
	f.recovered = max(f.recovered, time.Since(begun))
}

// restart wants a killed server refused while there is no room, and started then.
func (f *fullDiskSite) restart(t *testing.T, l *ledger) {
	t.Helper()
	f.s.finish()
	args := append([]string{"serve", "--listen", "127.0.0.1:0"}, f.serving...)
	out, err, serves := []byte(nil), error(nil), true
	for tries := 0; serves && tries < 2; tries++ { // the first may find room: it removes what a merge has left
		f.leave(t, fullLeftMin)
		starting, stop := context.WithTimeout(t.Context(), 10*time.Second)
		cmd := exec.CommandContext(starting, program(t), args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		out, err = cmd.CombinedOutput()
		serves = starting.Err() != nil
		stop()
	}
	if exitCode(err) != exitIOError || !strings.Contains(string(out), "MiB are free") {
		t.Errorf("a start on a full disk: %v, want exit code %d and the reason\n%s", err, exitIOError, out)
	}
	must.Do(t, os.Remove(f.filler))
	f.s = f.serve(t, "--public-url", "http://127.0.0.1")
	l.moveTo(f.s)
}

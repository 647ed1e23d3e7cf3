package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"tollhouse/store/storetest/must"
)

const (
	powerCuts     = 5
	powerCutsLong = 500
	diskSize      = 768 << 20

	// What a file system does when its power is cut: nothing more reaches the disk, its own
	// log included. EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are the same number.
	ioctlShutdown   = 0x8004587d
	shutdownNoFlush = 2
)

// TestPowerCutLedger cuts the power beneath the binary at a random moment under its
// writers: what was written and not synced is gone. After each cut every acknowledged
// token, rotation, code, resource and event is there, and nothing that was spent is taken
// again.
func TestPowerCutLedger(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run("on_"+kind, func(t *testing.T) {
			t.Parallel()
			ledgerThroughPowerCuts(t, newDisk(t, kind))
		})
	}
}

func ledgerThroughPowerCuts(t *testing.T, d *disk) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	serve := func() *server {
		s := startServe(t, filepath.Join(d.at, "data"), "--public-url", "http://127.0.0.1")
		s.power = func() { d.cut(t) }
		return s
	}
	s := serve()
	l, writers := newLedger(t, s)
	l.http.Transport = powerless{d, l.http.Transport}
	var reopened []time.Duration
	cuts := 0
	for ; must.More(cuts, powerCuts, powerCutsLong) && !t.Failed(); cuts++ {
		l.writeUntilKilled(t, s, writers, random)
		s.finish()
		d.replug(t)
		s = serve()
		reopened = append(reopened, s.took)
		l.moveTo(s)
		l.http.Transport = powerless{d, l.http.Transport}
		l.audit(t, writers)
	}
	if t.Failed() {
		t.Fatalf("cut %d, after %d acknowledged changes", cuts, l.acks.Load())
	}
	l.closeBooks(t, writers)
	s.stop()
	must.Figure(t, "power_cuts", cuts)
	l.report(t)
	must.Figure(t, "reopened_worst_ms", slices.Max(reopened).Milliseconds())
}

// TestPowerCutCanLose is the negative control: the same cuts take acknowledged commits from
// a build that answers before its sync, and it refuses to start on what is left. Without
// the stamp it starts, and acknowledged resources are missing.
func TestPowerCutCanLose(t *testing.T) {
	t.Parallel()
	must.OnlyLong(t, "builds a weakened program, and the cuts of other tests on the same disk hide its losses")
	weak := buildWith(t, "store/kv/badgerkv/options.go", "opts.SyncWrites = true", "opts.SyncWrites = false")
	d := newDisk(t, "ext4")
	cuts, lost, missing := 0, 0, 0
	for ; cuts < 20 && lost == 0; cuts++ {
		data := filepath.Join(d.at, fmt.Sprint("data", cuts))
		cmd := exec.Command(weak, "serve", "--data", data, "--listen", "127.0.0.1:0")
		cmd.Env = environ()
		s := startCommand(t, cmd, "serve")
		s.power = func() { d.cut(t) }
		l := openLedger(t, s)
		acknowledged := recordUntilCut(t, l, s)
		d.replug(t)
		out, err := exec.Command(weak, "user", "list", "--data", data).CombinedOutput()
		if found := lostCommits.FindSubmatch(out); found != nil {
			lost = must.Get(strconv.Atoi(string(found[1])))(t)
			missing = l.missingWithoutStamp(t, weak, data, acknowledged)
		} else if err != nil {
			t.Fatalf("user list: %v\n%s", err, out)
		}
	}
	must.Figure(t, "control_cuts", cuts)
	must.Figure(t, "control_lost", lost)
	must.Figure(t, "control_missing", missing)
	if lost == 0 || missing == 0 {
		t.Errorf("%d cuts took %d commits from a build without syncs, and %d resources were missed: the cuts are none", cuts, lost, missing)
	}
}

// missingWithoutStamp removes the stamp, so that the store opens after a cut, and counts the
// acknowledged resources that cannot be read.
func (l *ledger) missingWithoutStamp(t *testing.T, binary, data string, acknowledged []string) (missing int) {
	t.Helper()
	stamps := must.Get(filepath.Glob(filepath.Join(data, "db-*", "STAMP")))(t)
	if len(stamps) != 1 {
		t.Fatalf("stamps: %q, want one", stamps)
	}
	must.Do(t, os.Remove(stamps[0]))
	cmd := exec.Command(binary, "serve", "--data", data, "--listen", "127.0.0.1:0")
	cmd.Env = environ()
	s := startCommand(t, cmd, "serve")
	defer s.kill()
	l.moveTo(s)
	for _, path := range acknowledged {
		if a, err := l.call(t.Context(), l.reader, http.MethodGet, path, ""); err != nil {
			t.Fatalf("%s: %v", path, err)
		} else if a.status != http.StatusOK { // or the reader's token is lost too
			missing++
		}
	}
	return missing
}

var lostCommits = regexp.MustCompile(`the last (\d+) commits are lost`)

// recordUntilCut records resources until the power is cut, and returns those that were
// acknowledged.
func recordUntilCut(t *testing.T, l *ledger, s *server) (acknowledged []string) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range 8 {
		all.Go(func() {
			for n := 0; ; n++ {
				path := fmt.Sprintf("/api/resources/customer/cus_%d_%d", i, n)
				a, err := l.call(t.Context(), l.reader, http.MethodPut, path, `{"notes":"written down"}`)
				if err != nil || a.status/100 != 2 {
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, path)
				mu.Unlock()
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, s.kill)
	all.Wait()
	<-s.ended
	return acknowledged
}

// powerless takes a 500 of a server without power for no answer: it says that the outcome
// is unknown.
type powerless struct {
	d *disk
	http.RoundTripper
}

func (p powerless) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := p.RoundTripper.RoundTrip(r)
	if err == nil && a.StatusCode == http.StatusInternalServerError && p.d.isCut.Load() {
		a.Body.Close()
		return nil, errLost
	}
	return a, err
}

func (p powerless) CloseIdleConnections() { p.RoundTripper.(*http.Transport).CloseIdleConnections() }

// disk is a file system in a file, whose power can be cut.
type disk struct {
	kind, image, at string
	isCut           atomic.Bool
}

// newDisk makes and mounts one.
func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	must.Have(t, os.Getuid() == 0, "root, to mount a file system")
	dir := t.TempDir()
	d := &disk{kind: kind, image: filepath.Join(dir, "image"), at: filepath.Join(dir, "disk")}
	must.Do(t, os.Mkdir(d.at, 0o700))
	must.Do(t, os.WriteFile(d.image, nil, 0o600))
	must.Do(t, os.Truncate(d.image, diskSize))
	force := "-F"
	if kind == "xfs" {
		force = "-f"
	}
	out, err := exec.Command("mkfs."+kind, "-q", force, d.image).CombinedOutput()
	must.Have(t, err == nil, fmt.Sprintf("mkfs.%s: %v %s", kind, err, out))
	out, err = d.mount()
	must.Have(t, err == nil, fmt.Sprintf("a kernel that mounts %s from a loop device: %v %s", kind, err, out))
	t.Cleanup(func() { d.unmount(t) })
	return d
}

func (d *disk) mount() ([]byte, error) {
	return exec.Command("mount", "-t", d.kind, "-o", "loop,nosuid,nodev", d.image, d.at).CombinedOutput()
}

// unmount waits until the kernel has let go of the last file.
func (d *disk) unmount(t *testing.T) {
	t.Helper()
	var out []byte
	var err error
	for begun := time.Now(); time.Since(begun) < readyWait; time.Sleep(10 * time.Millisecond) {
		if out, err = exec.Command("umount", d.at).CombinedOutput(); err == nil {
			return
		}
	}
	t.Errorf("umount %s: %v %s", d.at, err, out)
}

// cut lets nothing more reach the disk.
func (d *disk) cut(t *testing.T) {
	d.isCut.Store(true)
	dir, err := os.Open(d.at)
	if err != nil {
		t.Errorf("cut the power: %v", err)
		return
	}
	defer dir.Close()
	how := uint32(shutdownNoFlush)
	if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&how))); no != 0 {
		t.Errorf("cut the power of %s: %v", d.kind, no)
	}
}

// replug mounts again what reached the disk.
func (d *disk) replug(t *testing.T) {
	t.Helper()
	d.unmount(t)
	if out, err := d.mount(); err != nil {
		t.Fatalf("mount %s again: %v %s", d.kind, err, out)
	}
	d.isCut.Store(false)
}

// buildWith builds the program with one text of a file replaced.
func buildWith(t *testing.T, file, old, replacement string) string {
	t.Helper()
	root := must.Get(filepath.Abs(filepath.Join("..", "..")))(t)
	source := string(must.Get(os.ReadFile(filepath.Join(root, file)))(t))
	if strings.Count(source, old) != 1 {
		t.Fatalf("%s has %q %d times, want once", file, old, strings.Count(source, old))
	}
	dir := t.TempDir()
	weakened, overlay, binary := filepath.Join(dir, "weakened.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tollhouse")
	must.Do(t, os.WriteFile(weakened, []byte(strings.Replace(source, old, replacement, 1)), 0o600))
	places := map[string]map[string]string{"Replace": {filepath.Join(root, file): weakened}}
	must.Do(t, os.WriteFile(overlay, must.Get(json.Marshal(places))(t), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-overlay", overlay, "-o", binary, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// BenchmarkEncryptedBackup makes backups of a directory without a server, in turns plain and
// encrypted for two recipients, each in a process of its own. ratio is the time of an encrypted
// one over that of a plain one; more-KiB is by how much the median of its largest memory is more.
//
//	TOLLHOUSE_LONG=500000 go test ./cli -run '^$' -bench EncryptedBackup -benchtime 5x
func BenchmarkEncryptedBackup(b *testing.B) {
	events := 50_000
	if n, err := strconv.Atoi(os.Getenv("TOLLHOUSE_LONG")); err == nil {
		events = max(n, 1000)
	}
	root := must.ClosedDir(b)
	dir := filepath.Join(root, "data")
	must.Get(datadir.Prepare(dir, term.ExitNotAllowed, quiet))(b)
	path, _, err := datadir.CurrentStore(dir)
	must.Do(b, err)
	opened := must.Get(datadir.Open(b.Context(), datadir.Options{Dir: path, Key: secret.NewKey(nil), Log: quiet}))(b)
	storetest.Fill(b, opened.Store, events)
	must.Do(b, opened.Close())
	to := []string{must.Get(age.GenerateX25519Identity())(b).Recipient().String(), must.Get(age.GenerateX25519Identity())(b).Recipient().String()}
	var plainPeak, encryptedPeak []int64
	backup := func(peaks *[]int64, args ...string) storetest.Work {
		return func() time.Duration {
			file := filepath.Join(root, "file")
			defer os.Remove(file)
			command := exec.Command("tollhouse", append([]string{"backup", file, "--data", dir}, args...)...)
			var ended atomic.Bool
			peak := make(chan int64)
			took := storetest.Timed(func() {
				must.Do(b, command.Start())
				go func() { peak <- peakOf(command.Process.Pid, &ended) }()
				err := command.Wait()
				ended.Store(true)
				must.Do(b, err)
			})()
			*peaks = append(*peaks, <-peak)
			return took
		}
	}
	var pairs storetest.Pairs
	encrypted, plain := backup(&encryptedPeak, "--backup-recipient", to[0], "--backup-recipient", to[1]), backup(&plainPeak)
	for b.Loop() {
		pairs.Take(encrypted, plain)
	}
	pairs.Report(b, "encrypted", "plain")
	slices.Sort(plainPeak)
	slices.Sort(encryptedPeak)
	b.ReportMetric(float64(plainPeak[len(plainPeak)/2]), "plain-KiB")
	b.ReportMetric(float64(encryptedPeak[len(encryptedPeak)/2]-plainPeak[len(plainPeak)/2]), "more-KiB")
}

// peakOf returns the most memory of its own that a process was seen with before it ended, in
// KiB: without the pages of the store's files, which the system keeps as it likes.
func peakOf(pid int, ended *atomic.Bool) (peak int64) {
	for ; !ended.Load(); time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if _, after, found := strings.Cut(string(text), "RssAnon:"); err == nil && found {
			var now int64
			if _, err := fmt.Sscan(after, &now); err == nil && strings.Contains(string(text), "Name:\ttollhouse") {
				peak = max(peak, now)
			}
		}
	}
	return peak
}

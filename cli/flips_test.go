package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const (
	flipsShort = 33
	flipsLong  = 1000
)

// TestFlippedBits flips one bit at a time in every kind of file of a data directory
// whose server was killed, and in a backup. What is flipped is refused when it is opened
// or named when it is read or the tables are checked, or every record is as it was.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	must.SkipUnderRace(t)
	must.SkipInShort(t)
	seed := uint64(1)
	if must.Long() {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	dir, backup := killedDir(t)
	want := must.Get(readFlipped(t, copyDir(t, dir), nil))(t)
	files := flippable(t, dir)
	if backup := must.Get(flipped{path: backup}.examine(t))(t); backup != "" {
		t.Fatalf("the backup before a flip: %s", backup)
	}
	files["backup"] = []string{backup}
	kinds := slices.Sorted(maps.Keys(files))
	outcomes, done := map[string]map[string]int{}, 0
	for ; must.More(done, flipsShort, flipsLong); done++ {
		kind := kinds[done%len(kinds)]
		path := files[kind][rng.IntN(len(files[kind]))]
		f := flipAnywhere(t, rng, path)
		outcome, detail := f.judge(t, dir, want)
		if outcomes[kind] == nil {
			outcomes[kind] = map[string]int{}
		}
		if outcomes[kind][outcome]++; outcome == "silent" {
			t.Errorf("%s of %s: %s", f, path, detail)
		}
		// One doctor for each kind in the short form, where an open takes its time.
		if kind != "backup" && (must.Long() || outcomes[kind][outcome] == 1) {
			f.wantDoctor(t, dir, outcome, detail)
		}
	}
	t.Logf("outcomes by file: %v", outcomes)
	must.Figure(t, "flips", done)
	for _, outcome := range []string{"refused", "named", "late", "harmless", "silent"} {
		n := 0
		for _, kind := range kinds {
			n += outcomes[kind][outcome]
		}
		must.Figure(t, outcome, n)
	}
	for _, kind := range []string{".sst", ".mem", "backup", "KEY", datadir.KeyName, datadir.CurrentName} {
		if outcomes[kind]["refused"]+outcomes[kind]["named"]+outcomes[kind]["late"] == 0 {
			t.Errorf("no flip of %s was noticed: %v", kind, outcomes[kind])
		}
	}
}

// TestFlippedBitsCanFail: a store that lost a record is found, although all that it has
// left is in order.
func TestFlippedBitsCanFail(t *testing.T) {
	t.Parallel()
	dir, _, _ := filledDir(t)
	want := must.Get(readFlipped(t, copyDir(t, dir), nil))(t)
	f := flipped{path: filepath.Join(dir, datadir.GenerationOne, "DISCARD")}
	if outcome, _ := f.judge(t, dir, want); outcome != "harmless" {
		t.Errorf("a flip of what is not read is %s, want harmless", outcome)
	}
	want["a record"] = "that the store does not have"
	if outcome, _ := f.judge(t, dir, want); outcome != "silent" {
		t.Errorf("a lost record is %s, want silent", outcome)
	}
}

// killedDir is a data directory with records in a table and in the log of the engine's
// memory, as a killed server leaves it, and a backup.
func killedDir(t *testing.T) (dir, backup string) {
	t.Helper()
	dir, _, _ = filledDir(t)
	backup = filepath.Join(t.TempDir(), "the.backup")
	if _, stderr, code := run(t, "backup", backup, "--data", dir); code != term.ExitOK {
		t.Fatal(stderr)
	}
	opened := must.Get(openFlipped(dir))(t)
	defer opened.Close()
	storetest.Writers(t, opened.Store, 4, 20, "written last")()
	opened.Store.Flush(t.Context())
	return copyDir(t, dir), backup
}

func openFlipped(dir string) (*datadir.Opened, error) {
	log := slog.New(slog.DiscardHandler)
	path, fresh, err := datadir.CurrentStore(dir)
	if err == nil && fresh {
		err = errors.New("an empty store would begin")
	}
	if err != nil {
		return nil, err
	}
	key, err := datadir.ServerKey(datadir.KeyOptions{Dir: dir, Generation: path, Log: log})
	if err != nil {
		return nil, err
	}
	return datadir.Open(context.Background(), datadir.Options{Dir: path, Key: key, Log: log})
}

// readFlipped opens a data directory, asks for the records that it should have, verifies it
// and returns what it has.
func readFlipped(t *testing.T, dir string, want map[string]string) (records map[string]string, err error) {
	t.Helper()
	opened, err := openFlipped(dir)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	passed := false
	_ = opened.DB.View(t.Context(), func(r kv.Reader) error { // whose errors name the damage
		for key, value := range want {
			got, err := r.Get([]byte(key))
			passed = passed || errors.Is(err, kv.ErrNotFound) || err == nil && string(got) != value
		}
		return nil
	})
	if err := opened.DB.Check(t.Context()); err != nil {
		if passed {
			return nil, lateError{err}
		}
		return nil, namedError{err}
	}
	if passed {
		return nil, nil
	}
	if _, err := opened.Store.CheckAll(t.Context()); err != nil {
		return nil, namedError{err}
	}
	records = map[string]string{}
	err = opened.DB.Snapshot(t.Context(), func(page []kv.Record) error {
		for _, r := range page {
			records[string(r.Key)] = string(r.Value)
		}
		return nil
	})
	if err != nil {
		return nil, namedError{err}
	}
	return records, nil
}

type (
	// namedError is damage that was found after the store had opened.
	namedError struct{ error }
	// lateError is damage that only the check of the tables found: until then a record was
	// missing, or as it was before.
	lateError struct{ error }
)

// flippable returns the files of a data directory by kind.
func flippable(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		kind := filepath.Ext(path)
		if name := d.Name(); kind == "" || name == datadir.KeyName {
			kind = name
		}
		files[kind] = append(files[kind], path)
		return nil
	}))
	for _, kind := range []string{".sst", ".mem", ".vlog", "MANIFEST", "KEYREGISTRY", "DISCARD", "STAMP", "KEY", datadir.KeyName, datadir.CurrentName} {
		if len(files[kind]) == 0 {
			t.Fatalf("the data directory has no file of the kind %s: %v", kind, files)
		}
	}
	return files
}

// flipped is one bit of a file.
type flipped struct {
	path string
	at   int64
	bit  int
}

func (f flipped) String() string { return fmt.Sprintf("bit %d of byte %d", f.bit, f.at) }

// flipAnywhere draws a bit, mostly of the part in use: the engine allocates large files
// that are mostly zeros.
func flipAnywhere(t *testing.T, rng *rand.Rand, path string) flipped {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	size := len(content)
	if used := len(bytes.TrimRight(content, "\x00")); used > 0 && rng.IntN(8) > 0 {
		size = min(size, used+8)
	}
	return flipped{path: path, at: int64(rng.IntN(size)), bit: rng.IntN(8)}
}

// in flips the bit in a copy of the directory, or of the file if that is elsewhere.
func (f flipped) in(t *testing.T, dir string) (path string) {
	t.Helper()
	rest, err := filepath.Rel(dir, f.path)
	must.Do(t, err)
	copied := copyDir(t, dir)
	path = filepath.Join(copied, rest)
	file := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer file.Close()
	var b [1]byte
	_, err = file.ReadAt(b[:], f.at)
	must.Do(t, err)
	b[0] ^= 1 << f.bit
	_, err = file.WriteAt(b[:], f.at)
	must.Do(t, err)
	return copied
}

// judge returns what came of the flip, and the error or the difference.
func (f flipped) judge(t *testing.T, dir string, want map[string]string) (outcome, detail string) {
	t.Helper()
	if !strings.HasPrefix(f.path, dir) {
		refusal := must.Get(f.examine(t))(t)
		if refusal == "" {
			return "silent", "the backup is accepted"
		}
		return "refused", refusal
	}
	copied := f.in(t, dir)
	defer os.RemoveAll(copied)
	got, err := readFlipped(t, copied, want)
	var named namedError
	var late lateError
	switch {
	case errors.As(err, &late):
		return "late", err.Error()
	case errors.As(err, &named):
		return "named", err.Error()
	case err != nil:
		return "refused", err.Error()
	case maps.Equal(got, want):
		return "harmless", ""
	}
	for k, v := range want {
		if got[k] != v {
			return "silent", fmt.Sprintf("%d records in place of %d; of %q is %q, want %q", len(got), len(want), k, got[k], v)
		}
	}
	return "silent", fmt.Sprintf("%d records, want %d", len(got), len(want))
}

// examine reads a flipped backup as verify does.
func (f flipped) examine(t *testing.T) (refusal string, err error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return "", err
	}
	if f.at > 0 || f.bit > 0 {
		content[f.at] ^= 1 << f.bit
	}
	b, err := store.OpenBackup(bytes.NewReader(content))
	if err != nil {
		return err.Error(), nil
	}
	defer b.Close()
	if _, err := b.Check(t.Context()); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// wantDoctor: doctor --deep ends with 1 for every flip that was noticed, and for no other.
func (f flipped) wantDoctor(t *testing.T, dir, outcome, detail string) {
	t.Helper()
	copied := f.in(t, dir)
	defer os.RemoveAll(copied)
	found, code := findings(t, "--deep", "--data", copied)
	if noticed := outcome != "harmless"; noticed != (code == term.ExitFailed) || !noticed && code != term.ExitOK {
		t.Errorf("%s of %s was %s (%s), but doctor --deep exits with %d: %v", f, f.path, outcome, detail, code, found)
	}
}

// copyDir copies a directory, without the blocks that are all zeros.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	copied := filepath.Join(must.Get(os.MkdirTemp(t.TempDir(), "flip"))(t), "data")
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(copied, rest)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		return copySparse(to, path)
	}))
	return copied
}

func copySparse(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := io.ReadFull(in, block)
		if n == 0 {
			return out.Truncate(at)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
}

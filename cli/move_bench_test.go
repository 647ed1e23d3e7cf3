package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// BenchmarkMove moves events into a database, and back into a directory, each in turns
// with a restore of the same data into a directory. ratio is the time of the move over
// that of the restore.
//
//	TOLLHOUSE_LONG=1000000 go test ./cli -run '^$' -bench Move -benchtime 3x -timeout 1h
func BenchmarkMove(b *testing.B) {
	events := 50_000
	if n, err := strconv.Atoi(os.Getenv("TOLLHOUSE_LONG")); err == nil {
		events = max(n, 1000)
	}
	root := must.ClosedDir(b)
	dir, file := filepath.Join(root, "data"), filepath.Join(root, "backup")
	must.Get(datadir.Prepare(dir, term.ExitNotAllowed, quiet))(b)
	path, _, err := datadir.CurrentStore(dir)
	must.Do(b, err)
	opened := must.Get(datadir.Open(context.Background(), datadir.Options{Dir: path, Key: secret.NewKey(nil), Log: slog.New(slog.DiscardHandler)}))(b)
	storetest.Fill(b, opened.Store, events)
	must.Do(b, opened.Close())
	tollhouse := func(args ...string) {
		if out, err := exec.Command("tollhouse", args...).CombinedOutput(); err != nil {
			b.Fatalf("tollhouse %q: %v, %s", args, err, out)
		}
	}
	tollhouse("backup", file, "--data", dir)
	turn := 0
	into := func(args ...string) storetest.Work { // another directory each time
		return func() time.Duration {
			turn++
			to := filepath.Join(root, fmt.Sprint("to", turn))
			defer os.RemoveAll(to)
			return storetest.Timed(func() { tollhouse(append(args, to)...) })()
		}
	}
	full := pgtest.New(b).Database(b)
	tollhouse("move", "--data", dir, full)
	restore := into("restore", file, "--data")
	for name, move := range map[string]storetest.Work{
		"in": func() time.Duration {
			url := pgtest.New(b).Database(b)
			return storetest.Timed(func() { tollhouse("move", "--data", dir, url) })()
		},
		"back": into("move", "--store", full),
	} {
		b.Run(name, func(b *testing.B) {
			var pairs storetest.Pairs
			for b.Loop() {
				pairs.Take(move, restore)
			}
			pairs.Report(b, "move", "restore")
		})
	}
}

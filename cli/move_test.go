package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// tollhouse runs a command that must succeed.
func tollhouse(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, code := run(t, args...)
	if code != term.ExitOK {
		t.Fatalf("tollhouse %q: exit %d, %s", args, code, stderr)
	}
	return stdout
}

// movable returns a data directory with something of everything, with a copy of it.
func movable(t *testing.T) (dir, same string) {
	t.Helper()
	root := must.ClosedDir(t)
	dir, same = filepath.Join(root, "data"), filepath.Join(root, "same")
	for _, made := range []string{dir, same} {
		movableFiles.copyTo(t, made, func(made string) {
			for _, args := range [][]string{
				{"account", "create", "larkspur", "--name", "Larkspur Bookkeeping"}, {"account", "create", "moss"},
				{"user", "create", "mara", "--account", "larkspur", "--code"},
				{"client", "create", "--name", "Books", "--redirect-uri", "https://books.example/callback"},
				{"event", "generate", "--account", "larkspur", "--events", "500", "--seed", "1"},
				{"webhook", "create", "--account", "moss", "--url", "https://hooks.example/in"},
			} {
				tollhouse(t, append(args, "--data", made)...)
			}
		})
	}
	return dir, same
}

var movableFiles madeOnce

// recordsOf returns what a backup of a place contains.
func recordsOf(t *testing.T, place ...string) (records []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup")
	tollhouse(t, append([]string{"backup", file}, place...)...)
	f := must.Get(os.Open(file))(t)
	defer f.Close()
	b := must.Get(backup.NewReader(f))(t)
	defer b.Close()
	for r, err := range b.Records() {
		must.Do(t, err)
		records = append(records, fmt.Sprintf("%q %q %d", r.Key, r.Value, r.ExpiresAt))
	}
	return records
}

// sameRecords compares two backups record by record.
func sameRecords(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s has %d records, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: record %d is %s, want %s", what, i, got[i], want[i])
			return
		}
	}
}

// Promise (Commands and settings): a history in an account ends now, a printed one never changes; a
// key file for a group makes no warning; move takes a store file; a password prompt asks again
func TestMove(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	t.Run("a_move_takes_the_file_that_store_file_takes", func(t *testing.T) {
		t.Parallel()
		dir, same := movable(t)
		file := filepath.Join(t.TempDir(), "store")
		must.Do(t, os.WriteFile(file, []byte(pgtest.Start(t)+"\n"), 0o640))
		if out := tollhouse(t, "move", "--data", dir, file); !strings.Contains(out, "tollhouse serve --store-file "+file+" --key-file "+filepath.Join(dir, datadir.KeyName)) {
			t.Errorf("move says %q, want the command of the server with that file", out)
		}
		sameRecords(t, "the database", recordsOf(t, "--store-file", file), recordsOf(t, "--data", same))
		must.Do(t, os.WriteFile(file, []byte("no URL\n"), 0o640))
		if _, stderr, code := run(t, "move", "--data", dir, file); code != term.ExitUsage || !strings.Contains(stderr, "postgres://USER@HOST/DATABASE") {
			t.Errorf("a file without a URL: exit %d, %s", code, stderr)
		}
	})
	t.Run("there_and_back_everything_is_the_same", func(t *testing.T) {
		t.Parallel()
		dir, same := movable(t)
		url, back := pgtest.Start(t), filepath.Join(must.ClosedDir(t), "data")
		there := tollhouse(t, "move", "--data", dir, url)
		if lines := strings.Split(strings.TrimSpace(there), "\n"); !strings.Contains(lines[len(lines)-1], "the same key file") || !strings.Contains(there, filepath.Join(dir, datadir.KeyName)) {
			t.Errorf("move says %q, want the same key file in its last line", there)
		}
		again := tollhouse(t, "move", "--store", url, back)
		if lines := strings.Split(strings.TrimSpace(again), "\n"); !strings.Contains(lines[len(lines)-1], "the same key file") {
			t.Errorf("move says %q, want the same key file in its last line", again)
		}
		places := map[string][]string{"the database": {"--store", url}, "the directory behind it": {"--data", back}, "the source": {"--data", dir}}
		export := []string{"event", "export", "--account", "larkspur"}
		want := tollhouse(t, append(export, "--data", same)...)
		if strings.Count(want, "\n") != 500 {
			t.Fatalf("the source exports %d lines, want 500", strings.Count(want, "\n"))
		}
		for what, place := range places {
			if got := tollhouse(t, append(export, place...)...); got != want {
				t.Errorf("%s exports something else", what)
			}
		}
		records := recordsOf(t, "--data", same)
		for what, place := range places {
			sameRecords(t, what, recordsOf(t, place...), records)
		}
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		dir, _ := movable(t)
		url := pgtest.Start(t)
		var out moved
		must.Do(t, json.Unmarshal([]byte(tollhouse(t, "move", "--data", dir, url, "--json")), &out))
		if out.From != dir || out.Records == 0 || len(out.Instance) != 32 || len(out.Key) != 16 || out.Generation != "kv_0002" {
			t.Errorf("move --json = %+v", out)
		}
	})
	t.Run("what_an_interrupted_move_left_is_dropped", func(t *testing.T) {
		t.Parallel()
		dir, same := movable(t)
		url, back := pgtest.Start(t), must.ClosedDir(t)
		half := must.Get(pgkv.Open(context.Background(), pgkv.Options{URL: url, Next: true}))(t)
		must.Do(t, half.Load(context.Background(), func(yield func(kv.Record, error) bool) {
			yield(kv.Record{Key: []byte("half"), Value: []byte("built")}, nil)
		}))
		must.Do(t, half.Close())
		must.Do(t, os.Mkdir(filepath.Join(back, datadir.GenerationOne+datadir.NewSuffix), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(back, datadir.GenerationOne+datadir.NewSuffix, "000001.sst"), []byte("half"), 0o600))
		tollhouse(t, "move", "--data", dir, url)
		tollhouse(t, "move", "--store", url, back)
		records := recordsOf(t, "--data", same)
		sameRecords(t, "the database", recordsOf(t, "--store", url), records)
		sameRecords(t, "the directory", recordsOf(t, "--data", back), records)
		sameGenerations(t, "after the move", back, datadir.GenerationOne, datadir.GenerationOne)
	})
}

func TestMoveIsRefused(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir, _ := movable(t)
	full, empty := pgtest.Start(t), pgtest.Start(t)
	tollhouse(t, "move", "--data", dir, full)
	key := filepath.Join(dir, datadir.KeyName)
	for name, c := range map[string]struct {
		args []string
		want complaint
	}{
		"into_a_database_with_data":          {[]string{"--data", dir, full}, complaint{term.ExitConflict, "already has data", "name an empty database"}},
		"into_a_directory_with_data":         {[]string{"--store", full, dir}, complaint{term.ExitConflict, "already has data", "name an empty directory"}},
		"from_an_empty_directory":            {[]string{"--data", must.ClosedDir(t), empty}, complaint{term.ExitNotFound, "has no data to move", "--data"}},
		"from_an_empty_database":             {[]string{"--store", empty, filepath.Join(must.ClosedDir(t), "new")}, complaint{term.ExitNotFound, "has no data to move", "--store"}},
		"into_a_database_that_does_not_run":  {[]string{"--data", dir, "postgres://toll@127.0.0.1:1/toll"}, complaint{term.ExitUnreachable, "cannot use the database on 127.0.0.1:1", "check that the database runs"}},
		"between_two_databases":              {[]string{"--store", full, empty}, complaint{term.ExitUsage, "--store names a database too", "--data"}},
		"between_two_directories":            {[]string{"--data", dir, must.ClosedDir(t)}, complaint{term.ExitUsage, "neither the source nor", "--store"}},
		"with_a_password_on_the_command":     {[]string{"--data", dir, "postgres://toll:hunter2@127.0.0.1/toll"}, complaint{term.ExitUsage, "contains a password", ".pgpass"}},
		"over_a_network_without_certificate": {[]string{"--data", dir, "postgres://toll@db.example/toll"}, complaint{term.ExitConfig, "db.example", "sslmode=verify-full"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := run(t, append([]string{"move"}, c.args...)...)
			c.want.judge(t, name, stderr, code)
		})
	}
	t.Run("while_a_server_lives_on_the_source", func(t *testing.T) {
		must.SkipInShort(t)
		s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		_, stderr, code := run(t, "move", "--data", dir, empty)
		complaint{term.ExitBusy, "is held by process", "stop it first"}.judge(t, "from a directory", stderr, code)
		s.end()
		s = start(t, "serve", "--store", full, "--key-file", key, "--listen", "127.0.0.1:0")
		_, stderr, code = run(t, "move", "--store", full, must.ClosedDir(t))
		complaint{term.ExitBusy, "a server runs on the database", "stop all servers"}.judge(t, "from a database", stderr, code)
		s.end()
		tollhouse(t, "move", "--store", full, filepath.Join(must.ClosedDir(t), "new"))
	})
}

func TestRestoreIntoADatabase(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	dir, same := movable(t)
	url, file := pgtest.Start(t), filepath.Join(t.TempDir(), "backup")
	key := filepath.Join(dir, datadir.KeyName)
	tollhouse(t, "move", "--data", dir, url)
	other := filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(other, secret.NewKey(nil).Text(), 0o600))
	_, stderr, code := run(t, "serve", "--store", url, "--key-file", other, "--listen", "127.0.0.1:0")
	complaint{term.ExitConfig, "the server key has the fingerprint", "--new-key"}.judge(t, "serve with another key than the one that was moved", stderr, code)
	s := start(t, "serve", "--store", url, "--key-file", key, "--listen", "127.0.0.1:0")
	tollhouse(t, "backup", file, "--store", url)
	tollhouse(t, "backup", "verify", file, "--store", url)
	tollhouse(t, "account", "delete", "moss", "--yes", "--store", url)
	_, stderr, code = run(t, "restore", file, "--store", url)
	complaint{term.ExitBusy, "a server runs on the database", "stop all servers"}.judge(t, "restore beside a server", stderr, code)
	s.end()
	out, stderr, code := run(t, "restore", file, "--store", url, "--json")
	var got restored
	must.Do(t, json.Unmarshal([]byte(out), &got))
	if code != term.ExitOK || got.Generation != "kv_0003" || got.Replaced != "kv_0002" || got.SameKey == nil || !*got.SameKey || got.Restart {
		t.Errorf("restore = exit %d, %+v, %s", code, got, stderr)
	}
	if !strings.Contains(stderr, "kv_0002 is kept") {
		t.Errorf("restore says %q, want how to undo it", stderr)
	}
	if accounts := tollhouse(t, "account", "list", "--json", "--store", url); !strings.Contains(accounts, "moss") {
		t.Errorf("the accounts are %s, want those of the backup", accounts)
	}
	if audit := tollhouse(t, "audit", "--json", "--store", url); !strings.Contains(audit, "restored from a backup") {
		t.Error("the restore is not in the audit log")
	}
	_, stderr, code = run(t, "restore", file, "--store", url, "--keep")
	complaint{term.ExitUsage, "--keep is for a data directory", "leave it out"}.judge(t, "restore --keep", stderr, code)
	export := []string{"event", "export", "--account", "larkspur"}
	if tollhouse(t, append(export, "--store", url)...) != tollhouse(t, append(export, "--data", same)...) {
		t.Error("the restored store exports other events")
	}
	again := start(t, "serve", "--store", url, "--key-file", key, "--listen", "127.0.0.1:0")
	if code := again.end(); code != term.ExitOK {
		t.Errorf("a server on the restored store ended with %d: %s", code, again.stderr)
	}
}

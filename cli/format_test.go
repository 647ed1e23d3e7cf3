package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// TestStoreOfAnotherFormat: every command that opens the store refuses it, and the
// store is as it was.
//
// Promise (Backup): a store or a backup of another format is refused, naming both formats, and left
// as it was
func TestStoreOfAnotherFormat(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir, _ := liveDirectory(t)
	for _, format := range []byte{0, 2, 3, 9} {
		t.Run(fmt.Sprintf("format_%d", format), func(t *testing.T) {
			setFormat(t, dir, format)
			for _, args := range [][]string{
				{"account", "list"}, {"account", "create", "acct_b"}, {"backup", filepath.Join(t.TempDir(), "file")}, {"serve", "--listen", "127.0.0.1:0"},
			} {
				_, stderr, code := run(t, append(args, "--data", dir)...)
				next := "use tollhouse 1.12.0 or newer"
				if format < formatNow {
					next = "use the tollhouse that wrote it"
				}
				complaint{term.ExitConfig, fmt.Sprintf("the store has the unknown format %d; this tollhouse reads format 1", format), next}.judge(t, args[0], stderr, code)
			}
			sameGenerations(t, "after the refusals", dir, datadir.GenerationOne, datadir.GenerationOne)
			setFormat(t, dir, formatNow)
			stillThere(t, dir)
		})
	}
}

// setFormat has the store say that it has another format, which 1.12.0 reads.
func setFormat(t *testing.T, dir string, format byte) {
	t.Helper()
	defer withoutStarts()()
	db := must.Get(badgerkv.Open(badgerkv.Options{Dir: filepath.Join(dir, datadir.GenerationOne)}))(t)
	err := db.Update(context.Background(), func(tx kv.Txn) error {
		meta, err := tx.Get([]byte("mstore\x00"))
		if err != nil {
			return err
		}
		meta = append(append([]byte{meta[0], format}, meta[2:2+len(secret.ID{})]...), "\x061.12.0"...)
		return tx.Set([]byte("mstore\x00"), meta, time.Time{})
	})
	must.Do(t, errors.Join(err, db.Close()))
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/secret"
)

// A move is a backup of one place and a restore into the other at the same time, without a
// file between them. The destination is used only when it is complete.

func (p *program) moveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "move DESTINATION",
		Short: "copy all data from a data directory to a database, or back",
		Long: `Copy all data from a data directory into an empty PostgreSQL database, or from a
database into an empty directory. Stop the servers first. Every record is checked, and an
incomplete copy is never used. The source is not changed; do not run servers on both. If
a move is interrupted, run it again.

  tollhouse move --data DIR postgres://USER@HOST/DATABASE
  tollhouse move --data DIR FILE_WITH_THE_URL
  tollhouse move --store postgres://USER@HOST/DATABASE DIR

The server key is not copied. Use the same key file with the destination.`,
		Args: operands("a database, a file with its URL, or a directory"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			datadir.MemoryDefault.Limit(p.environ)
			to := p.store
			switch info, err := os.Stat(args[0]); {
			case isDatabase(args[0]):
				to.URL, to.InFlag = args[0], true
				return p.moveToDatabase(ctx, to, "--store "+term.ShellQuote(args[0]))
			case err == nil && info.Mode().IsRegular(): // a file as --store-file takes it
				if to.URL, err = database.ReadURL("the file", "database", args[0]); err != nil {
					return err
				}
				return p.moveToDatabase(ctx, to, "--store-file "+term.ShellQuote(args[0]))
			}
			return p.moveToDirectory(ctx, args[0])
		}),
	}
}

func isDatabase(operand string) bool {
	return strings.HasPrefix(operand, "postgres://") || strings.HasPrefix(operand, "postgresql://")
}

// nameOf is the address of a database without its parameters.
func nameOf(a *pgkv.Address) string {
	name, _, _ := strings.Cut(a.String(), "?")
	return name
}

// moved is the outcome as --json shows it.
type moved struct {
	From       string `json:"from"`
	To         string `json:"to"`
	Generation string `json:"generation"`
	Records    int64  `json:"records"`
	Instance   string `json:"instance"`
	Key        string `json:"key,omitempty"` // fingerprint of the server key, if known
}

// moveToDatabase moves the data directory into a database. naming is the flag that names it
// to servers.
func (p *program) moveToDatabase(ctx context.Context, to database.Settings, naming string) error {
	if p.store.Given() {
		return term.Usage("name the source with --data, or a directory as the destination", "move copies between a directory and a database, but %s names a database too", p.store.Flag())
	}
	address, err := to.Address()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(datadir.Locate(p.data))
	if err != nil {
		return err
	}
	db, lock, err := p.openAlone(dir)
	if err != nil {
		return err
	}
	defer lock.Release()
	defer db.Close()
	key, err := p.keyOf(dir)
	if err != nil {
		return err
	}
	out := moved{From: dir, To: nameOf(address)}
	replaced, err := database.Replace(ctx, p.databaseOptions(address), func(old, next *pgkv.DB) error {
		switch empty, err := database.IsEmpty(ctx, old); {
		case err != nil:
			return err
		case !empty:
			return term.Fail(term.ExitConflict, "name an empty database", "the database %s already has data", nameOf(address))
		}
		err := p.stream(ctx, db, key, func(b *store.BackupFile) error {
			totals, err := b.Load(ctx, next, time.Now())
			out.Records, out.Instance, out.Key = totals.Records, b.Instance, b.Key
			return err
		})
		if err == nil && key != "" { // before the data is in use: no server may join with another key
			err = database.SetKey(ctx, address, key)
		}
		return err
	})
	if err != nil {
		return err
	}
	out.Generation = database.TableOf(replaced.New)
	keyFile := p.keyFile
	if keyFile == "" {
		keyFile = filepath.Join(dir, datadir.KeyName)
	}
	return p.Done(out, "moved %s from %s into %s\nstart each server with the same key file: tollhouse serve %s --key-file %s",
		term.Count(out.Records, "record", "records"), dir, out.To, naming, term.ShellQuote(keyFile))
}

// keyOf returns the fingerprint of the server key that the data in dir wants, or else of the
// one that is there, or "".
func (p *program) keyOf(dir string) (string, error) {
	generation, err := datadir.CurrentGeneration(dir)
	if err != nil {
		return "", err
	}
	wanted, err := datadir.WantedKey(filepath.Join(dir, generation))
	return cmp.Or(wanted, datadir.Fingerprint(p.knownKey(dir))), err
}

func (p *program) databaseOptions(a *pgkv.Address) database.Options {
	return database.Options{Address: a, Store: datadir.Options{Log: p.QuietLog()}}
}

// openAlone locks a data directory and opens what is in it.
func (p *program) openAlone(dir string) (*badgerkv.DB, *datadir.Lock, error) {
	if err := p.somethingTo("move"); err != nil {
		return nil, nil, err
	}
	if err := datadir.BecomeOwner(dir); err != nil {
		return nil, nil, err
	}
	if _, err := datadir.Prepare(dir, term.ExitNotAllowed, p.QuietLog()); err != nil {
		return nil, nil, err
	}
	switch name, err := datadir.CurrentGeneration(dir); {
	case err != nil:
		return nil, nil, err
	case name == "":
		return nil, nil, term.Fail(term.ExitNotFound, "name the data directory with --data", "%s has no data to move", dir)
	}
	lock, err := datadir.TryLock(dir, "move")
	if errors.Is(err, datadir.ErrLocked) {
		return nil, nil, datadir.HeldError(dir, datadir.ReadHolder(dir))
	}
	if err != nil {
		return nil, nil, err
	}
	path, _, err := datadir.CurrentStore(dir)
	if err == nil {
		var db *badgerkv.DB
		if db, err = badgerkv.Open(badgerkv.Options{Dir: path, Moved: lock.Moved, Log: p.QuietLog()}); err == nil {
			return db, lock, nil
		}
	}
	return nil, nil, errors.Join(err, lock.Release())
}

// stream backs db up while read reads the backup. key is the fingerprint of the server
// key.
func (p *program) stream(ctx context.Context, db kv.DB, key string, read func(*store.BackupFile) error) error {
	// Nothing else of the store runs during the backup, so the source does not change.
	s, err := store.Open(ctx, db, store.Options{Now: time.Now, Hasher: secret.NewHasher(), Lifetimes: store.DefaultLifetimes(), Log: p.QuietLog()})
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Backup(ctx, w, store.BackupNotes{Version: version(), Key: key})
		ended <- errors.Join(err, w.CloseWithError(err))
	}()
	err = func() error {
		m := p.NewMeter("moving", r, 0)
		defer m.Clear()
		b, err := store.OpenBackup(m)
		if err != nil {
			return err
		}
		defer b.Close()
		return read(b)
	}()
	_ = r.CloseWithError(err)
	if source := <-ended; source != nil && (err == nil || !errors.Is(source, err)) {
		return source // and err only follows from it
	}
	return err
}

func (p *program) moveToDirectory(ctx context.Context, dir string) error {
	if !p.store.Given() {
		shown := dir
		if strings.Contains(dir, ":") { // it was meant as a URL
			shown = term.MaskedURL(dir)
		}
		return term.Usage("give postgres://… or a file with that URL as the destination, or name the source with --store", "move copies between a directory and a database, but neither the source nor %s is a database", shown)
	}
	address, err := p.databaseAddress()
	if err != nil {
		return err
	}
	r := restoration{p: p, file: nameOf(address), moved: true}
	if r.dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	switch name, err := datadir.CurrentGeneration(r.dir); {
	case err != nil:
		return err
	case name != "":
		return term.Fail(term.ExitConflict, "name an empty directory, or one that does not exist", "%s already has data", r.dir)
	}
	err = database.Alone(ctx, p.databaseOptions(address), func(db *pgkv.DB, key string, still func() error) error {
		r.still = still
		if empty, err := database.IsEmpty(ctx, db); empty || err != nil {
			return cmp.Or(err, database.ErrEmpty)
		}
		return p.stream(ctx, db, key, func(b *store.BackupFile) error {
			r.header = b.Header
			return r.install(ctx, b, 0)
		})
	})
	if errors.Is(err, database.ErrEmpty) {
		return term.Fail(term.ExitNotFound, "name the database with "+p.store.Flag(), "the database %s has no data to move", nameOf(address))
	}
	if err != nil {
		return err
	}
	out := moved{From: nameOf(address), To: r.dir, Generation: r.name, Records: r.totals.Records, Instance: r.header.Instance, Key: r.header.Key}
	return p.Done(out, "moved %s from %s into %s\nstart the server with the same key file, as %s",
		term.Count(r.totals.Records, "record", "records"), out.From, r.dir, term.ShellQuote(filepath.Join(r.dir, datadir.KeyName)))
}

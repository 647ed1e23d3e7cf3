// Package database opens data in PostgreSQL, as package datadir opens data in a directory.
// It reads the address that an operator gives, lists the servers on the database, and
// checks the settings that all of them must share.
//
// A server or a command gets the address from [Settings.Address]. [Open] opens the store;
// a server also joins the others with [Join], which refuses a server key or settings
// that differ from theirs.
package database

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv"
)

// Settings say which database has the data.
type Settings struct {
	URL      string // of --store, or ""
	InFlag   bool   // the URL came from the command line, which other users can read
	File     string // that contains the URL, or ""
	Schema   string // of the tables
	Insecure bool   // connect over a network without a verified certificate
}

// Given reports whether the data is in a database.
func (s *Settings) Given() bool { return s.URL != "" || s.File != "" }

// Flag returns the flag that names the database.
func (s *Settings) Flag() string {
	if s.URL == "" {
		return "--store-file"
	}
	return "--store"
}

// urlSizeMax bounds the file with a URL, in bytes.
const urlSizeMax = 8 << 10

// Address returns the address of the database. It refuses a password on the command line
// and a connection that others on the network could read. The engine reads the address again
// for each connection, by the same rules.
func (s *Settings) Address() (*pgkv.Address, error) {
	text := s.URL
	switch {
	case text != "" && s.File != "":
		return nil, term.Usage("leave one of them out", "--store and --store-file both name a database")
	case s.File != "":
		read, err := ReadURL("--store-file", "database", s.File)
		if err != nil {
			return nil, err
		}
		text = read
	case s.InFlag && pgkv.HasPassword(text):
		return nil, term.Usage("put it into ~/.pgpass (or PGPASSFILE), or the whole URL into TOLLHOUSE_STORE or a file named by TOLLHOUSE_STORE_FILE",
			"--store contains a password, which other users of this machine can read")
	}
	a, err := pgkv.ParseAddress(text)
	var wrong *pgkv.AddressError
	switch {
	case errors.As(err, &wrong) && wrong.Param == "target_session_attrs":
		return nil, term.Usage("leave "+wrong.Param+" out", "%s %s: %s: %w", s.Flag(), pgkv.Mask(text), wrong.Param, err)
	case errors.As(err, &wrong) && wrong.Param != "":
		return nil, term.Fail(term.ExitConfig, "leave "+wrong.Param+" out of the URL", "%s %s: %s: %w", s.Flag(), pgkv.Mask(text), wrong.Param, err)
	case err != nil:
		return nil, term.Usage("give it as postgres://USER@HOST/DATABASE; escape special characters of a password as in a URL", "%s %s: %w", s.Flag(), pgkv.Mask(text), err)
	}
	if err := a.UseSchema(s.Schema); err != nil {
		return nil, term.Usage("choose a name such as "+pgkv.SchemaDefault, "--store-schema %q: %w", s.Schema, err)
	}
	if host := a.Exposed(); host != "" && !s.Insecure {
		return nil, term.Fail(term.ExitConfig, "add sslmode=verify-full and sslrootcert=FILE to the URL, or --insecure-store",
			"passwords and tokens would go to the database on %s over the network, and the URL does not have its certificate verified", host)
	}
	same := *s
	a.Again = same.Address
	return a, nil
}

// ReadURL reads the file that a flag names and that has the URL of what.
func ReadURL(flag, what, path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", term.Fail(term.UnreadableCode(err), "write the URL of the "+what+" into it", "the file %s of %s %s", path, flag, term.Missing(path))
	}
	if err != nil {
		return "", datadir.NotAllowedOr(term.ExitConfig, path, err)
	}
	defer f.Close()
	text, err := term.ReadText(f, urlSizeMax+1)
	if errors.Is(err, term.ErrUTF16) {
		return "", term.Fail(term.ExitConfig, "save it as UTF-8", "%s %s: %w", flag, path, err)
	}
	if err != nil {
		return "", datadir.NotAllowedOr(term.ExitIO, path, err)
	}
	if len(text) > urlSizeMax {
		return "", term.Fail(term.ExitConfig, "leave out what is not needed", "the file %s of %s has more than %d bytes", path, flag, urlSizeMax)
	}
	return strings.TrimSpace(string(text)), nil
}

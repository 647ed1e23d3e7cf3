package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/store/secret"
)

const keyFileSizeMax = 1 << 10 // bytes; a key has 65

// LostWithKey is what another server key costs.
const LostWithKey = "open consent screens and refreshes in flight fail once, each webhook endpoint needs a new secret, an ACME certificate is requested again, and browsers are no longer recognized; nothing else is lost"

// wantedName is a file of a generation: the fingerprint of the server key that its data was
// written with.
const wantedName = "KEY"

// WantedKey returns the fingerprint of the server key that the data of a generation wants, or
// "" if no server has run on it since builds that record it.
func WantedKey(generation string) (string, error) {
	path := filepath.Join(generation, wantedName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", NotAllowedOr(term.ExitIO, path, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// WantKey records the fingerprint of the server key that the data of a generation wants.
func WantKey(generation, fingerprint string) error {
	path := filepath.Join(generation, wantedName)
	if err := WriteFile(path, []byte(fingerprint+"\n")); err != nil {
		return NotAllowedOr(term.ExitIO, path, err)
	}
	return nil
}

// KeyOptions say which server key a data directory is opened with.
type KeyOptions struct {
	Dir        string // the data directory
	Generation string // in use
	File       string // with the key, or "" for the directory's own
	Fresh      bool   // the generation has just been made
	Replace    bool   // the key may differ from the one that the data wants
	Log        *slog.Logger
}

// ServerKey returns the key in o.File if that is set, else the data directory's own,
// which it creates with a warning if it is missing. It refuses a key other than the one that the
// data wants, and records the first one that is used with the data.
func ServerKey(o KeyOptions) (key secret.Key, err error) {
	wanted, err := WantedKey(o.Generation)
	if err != nil {
		return secret.Key{}, err
	}
	path := o.File
	if path == "" {
		path = filepath.Join(o.Dir, KeyName)
	}
	key, err = ReadKey(path, o.File != "", o.Log)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.File == "":
		return o.makeKey(path, wanted)
	case err != nil && wanted != "":
		f := term.FailureOf(err)
		return secret.Key{}, term.Fail(f.Code, f.Hint+"; the data was written with the key with the fingerprint "+wanted, "%w", f.Err)
	case err != nil || key.Fingerprint() == wanted:
		return key, err
	case wanted == "":
	case !o.Replace:
		return secret.Key{}, term.Fail(term.ExitConfig, "put that key back; if it is lost, start once with --new-key: "+LostWithKey,
			"%s has the fingerprint %s, but the data was written with the server key %s", path, key.Fingerprint(), wanted)
	default:
		o.Log.Warn("server key replaced: "+LostWithKey, "path", path, "fingerprint", key.Fingerprint(), "before", wanted)
	}
	return key, WantKey(o.Generation, key.Fingerprint())
}

// makeKey creates the directory's own key. If it is interrupted, the next start sees either
// no key or one that nothing contradicts.
func (o *KeyOptions) makeKey(path, wanted string) (secret.Key, error) {
	if !o.Fresh {
		o.Log.Warn("server key was missing and a new one was created: "+LostWithKey+"; if you have the old key, stop the server, put the key back and start with --new-key", "path", path, "before", wanted)
	}
	if wanted != "" {
		if err := os.Remove(filepath.Join(o.Generation, wantedName)); err != nil {
			return secret.Key{}, NotAllowedOr(term.ExitIO, o.Generation, err)
		}
	}
	key := secret.NewKey(nil)
	if err := WriteFile(path, key.Text()); err != nil {
		return secret.Key{}, NotAllowedOr(term.ExitCannotCreate, path, err)
	}
	return key, WantKey(o.Generation, key.Fingerprint())
}

// ReadKey reads a key file. A named one may come from a secret store that sets its own
// modes, so a mode open to others is only a warning.
func ReadKey(path string, named bool, log *slog.Logger) (secret.Key, error) {
	if info, err := os.Stat(path); err == nil && !named && !info.Mode().IsRegular() { // a pipe would block
		return secret.Key{}, term.Fail(term.ExitConfig, "put the server key back", "%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if link, _ := term.DanglingLink(path); link != "" && named {
		return secret.Key{}, term.Fail(term.UnreadableCode(err), "mount or create what it points to", "the key file %s %s", path, term.Missing(path))
	}
	if errors.Is(err, fs.ErrNotExist) && named {
		return secret.Key{}, term.Fail(term.UnreadableCode(err), "create one: (umask 077; set -C; openssl rand -hex 32 > "+term.ShellQuote(path)+")", "the key file %s does not exist", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return secret.Key{}, err
	}
	if err != nil {
		return secret.Key{}, NotAllowedOr(term.ExitConfig, path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return secret.Key{}, NotAllowedOr(term.ExitIO, path, err)
	}
	switch mode := info.Mode().Perm(); {
	case !named && mode&0o077 != 0:
		return secret.Key{}, term.Fail(term.ExitConfig, "chmod 600 "+term.ShellQuote(path), "the server key %s is accessible to other users (mode %04o)", path, mode)
	case named && mode&0o027 != 0: // a group may read it, as docs/operations.md has it
		log.Warn("key file is accessible to other users", "path", path, "mode", fmt.Sprintf("%04o", mode), "next", "chmod 640 "+term.ShellQuote(path))
	}
	text, err := term.ReadText(f, keyFileSizeMax)
	if errors.Is(err, term.ErrUTF16) {
		return secret.Key{}, term.Fail(term.ExitConfig, "save it as UTF-8, or put your copy back", "%s: %w", path, err)
	}
	if err != nil {
		return secret.Key{}, NotAllowedOr(term.ExitIO, path, err)
	}
	key, err := secret.ParseKey(text)
	if err != nil {
		hint := "put the right key back; if it is lost, move the file away to continue with a new one: " + LostWithKey
		if named {
			hint = "name the file of the server key with --key-file"
		}
		return secret.Key{}, term.Fail(term.ExitConfig, hint, "%s: %w", path, err)
	}
	return key, nil
}

// Fingerprint names a key, or is "" for the zero key.
func Fingerprint(key secret.Key) string {
	if key == (secret.Key{}) {
		return ""
	}
	return key.Fingerprint()
}

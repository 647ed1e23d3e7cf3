package datadir

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"tollhouse/cli/term"
	"tollhouse/store/secret"
)

const keyFileSizeMax = 1 << 10 // bytes; a key has 65

// ServerKey returns the key in keyFile if that is set, else the data directory's own,
// which it creates if missing. An old store under a new key loses only consent screens,
// refreshes in flight and the ACME certificate, so the server starts with a warning.
func ServerKey(dir, keyFile string, fresh bool, log *slog.Logger) (secret.Key, error) {
	if keyFile != "" {
		return ReadKey(keyFile, true, log)
	}
	path := filepath.Join(dir, KeyName)
	key, err := ReadKey(path, false, log)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if !fresh {
		log.Warn("server key was missing and a new one was created: consent screens and refreshes in flight will fail once, and an ACME certificate is requested again; if you have the old key, stop, put it back and start again", "path", path)
	}
	key = secret.NewKey(nil)
	if err := WriteFile(path, key.Text()); err != nil {
		return secret.Key{}, NotAllowedOr(term.ExitCannotCreate, path, err)
	}
	return key, nil
}

// ReadKey reads a key file. A named one may come from a secret store that sets its own
// modes, so a mode open to others is only a warning.
func ReadKey(path string, named bool, log *slog.Logger) (secret.Key, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && named {
		return secret.Key{}, term.Fail(term.ExitConfig, "create one: (umask 077; openssl rand -hex 32 > "+term.ShellQuote(path)+")", "the key file %s does not exist", path)
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
	if info.Mode().Perm()&0o077 != 0 {
		if !named {
			return secret.Key{}, term.Fail(term.ExitConfig, "chmod 600 "+term.ShellQuote(path), "the server key %s is open to other users (mode %04o)", path, info.Mode().Perm())
		}
		log.Warn("key file is open to other users", "path", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, keyFileSizeMax))
	if err != nil {
		return secret.Key{}, NotAllowedOr(term.ExitIO, path, err)
	}
	key, err := secret.ParseKey(text)
	if err != nil {
		return secret.Key{}, term.Fail(term.ExitConfig, "put the right key back, or remove the file to continue with a new one: only refreshes in flight, open consent screens and an ACME certificate are lost", "%s: %w", path, err)
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

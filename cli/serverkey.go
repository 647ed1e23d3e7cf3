package cli

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"tollhouse/store/secret"
)

const keyFileSizeMax = 1 << 10 // bytes; a key has 65

// serverKey returns the server key: that of keyFile if one is named, else the
// data directory's own, which is made when there is none. A store that lives on
// under a new key loses consent screens, refreshes in flight and what was fetched
// by ACME, and nothing else; so it is told, and the server starts.
func serverKey(dir, keyFile string, fresh bool, log *slog.Logger) (secret.Key, error) {
	if keyFile != "" {
		return readKey(keyFile, true, log)
	}
	path := filepath.Join(dir, keyName)
	key, err := readKey(path, false, log)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if !fresh {
		log.Warn("server key was missing and a new one was made: consent screens and refreshes in flight will fail once, and a certificate by ACME is fetched anew; if you have the old one, stop, put it back and start again", "path", path)
	}
	key = secret.NewKey()
	if err := writeFile(path, key.Text()); err != nil {
		return secret.Key{}, notAllowedOr(exitCannotCreate, path, err)
	}
	return key, nil
}

// readKey reads a key file. One that is named may be the work of a secret store
// that sets its own modes, so one that others may read is only warned of.
func readKey(path string, named bool, log *slog.Logger) (secret.Key, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && named {
		return secret.Key{}, fail(exitConfig, "make one: (umask 077; openssl rand -hex 32 > "+quoteForShell(path)+")", "there is no key file %s", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return secret.Key{}, err
	}
	if err != nil {
		return secret.Key{}, notAllowedOr(exitConfig, path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return secret.Key{}, notAllowedOr(exitIO, path, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if !named {
			return secret.Key{}, fail(exitConfig, "chmod 600 "+quoteForShell(path), "the server key %s is open to other users (mode %04o)", path, info.Mode().Perm())
		}
		log.Warn("key file is open to other users", "path", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, keyFileSizeMax))
	if err != nil {
		return secret.Key{}, notAllowedOr(exitIO, path, err)
	}
	key, err := secret.ParseKey(text)
	if err != nil {
		return secret.Key{}, fail(exitConfig, "put the right key back; to go on with a new one, remove the file: refreshes in flight, open consent screens and a certificate by ACME are lost, nothing else", "%s: %w", path, err)
	}
	return key, nil
}

// knownKey returns the server key of a data directory, or the zero key when it
// cannot be read: only a server needs it.
func (p *program) knownKey(dir string) secret.Key {
	path := p.keyFile
	if path == "" {
		path = filepath.Join(dir, keyName)
	}
	key, err := readKey(path, p.keyFile != "", slog.New(slog.DiscardHandler))
	if err != nil {
		return secret.Key{}
	}
	return key
}

// fingerprint names a key, or is "" for the zero key.
func fingerprint(key secret.Key) string {
	if key == (secret.Key{}) {
		return ""
	}
	return key.Fingerprint()
}

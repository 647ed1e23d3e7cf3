package datadir

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// TestAnotherServerKeyIsRefused: one flipped digit makes another valid key, with which refresh
// retries, webhook secrets and the certificate would break one by one.
//
// Promise (One data directory, one owner): a lost server key is recreated; another, or one open to
// others, is refused; a socket's path may be long
func TestAnotherServerKeyIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	generation := filepath.Join(dir, GenerationOne)
	must.Do(t, os.Mkdir(generation, 0o700))
	var log strings.Builder
	o := KeyOptions{Dir: dir, Generation: generation, Fresh: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	first := must.Get(ServerKey(o))(t)
	o.Fresh = false
	wants := func(what, fingerprint string) {
		t.Helper()
		if wanted := must.Get(WantedKey(generation))(t); wanted != fingerprint {
			t.Errorf("%s: the data wants %q, want %q", what, wanted, fingerprint)
		}
	}
	wants("a fresh store", first.Fingerprint())
	if again, err := ServerKey(o); err != nil || again != first || log.Len() > 0 {
		t.Errorf("ServerKey() = %v of the same key, log %q, want nil and nothing", err, &log)
	}

	path := filepath.Join(dir, KeyName)
	flipped := []byte(string(first.Text()))
	if flipped[7]++; flipped[7] == '9'+1 || flipped[7] == 'g' {
		flipped[7] = 'a'
	}
	must.Do(t, os.WriteFile(path, flipped, 0o600))
	_, err := ServerKey(o)
	f := term.FailureOf(err)
	if f == nil || f.Code != term.ExitConfig || !strings.Contains(f.Error(), first.Fingerprint()) || !strings.Contains(f.Hint, "--new-key") || !strings.Contains(f.Hint, LostWithKey) {
		t.Fatalf("ServerKey() = %v, want exit code %d, the fingerprint %s and what would be lost", err, term.ExitConfig, first.Fingerprint())
	}
	wants("after the refusal", first.Fingerprint())
	o.Replace = true
	second := must.Get(ServerKey(o))(t)
	o.Replace = false
	if second == first || !strings.Contains(log.String(), "server key replaced") {
		t.Errorf("--new-key took the key %s, log %q", second.Fingerprint(), &log)
	}
	wants("after --new-key", second.Fingerprint())

	must.Do(t, os.Remove(path))
	log.Reset()
	third := must.Get(ServerKey(o))(t)
	if third == second || !strings.Contains(log.String(), "server key was missing") || !strings.Contains(log.String(), second.Fingerprint()) {
		t.Errorf("a missing key was made again as %s, log %q, want a warning with the former fingerprint", third.Fingerprint(), &log)
	}
	wants("a missing key", third.Fingerprint())

	must.Do(t, os.Remove(filepath.Join(generation, wantedName)))
	must.Do(t, os.WriteFile(path, first.Text(), 0o600))
	must.Get(ServerKey(o))(t)
	wants("a store of a build that recorded none", first.Fingerprint())
}

// TestADamagedServerKeySaysWhatIsLostWithIt: who removes it for a new one loses the secrets
// of webhook endpoints too, and must be able to change their mind.
//
// Promise (One data directory, one owner): a lost server key is recreated; another, or one open to
// others, is refused; a socket's path may be long
func TestADamagedServerKeySaysWhatIsLostWithIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	generation := filepath.Join(dir, GenerationOne)
	must.Do(t, os.Mkdir(generation, 0o700))
	o := KeyOptions{Dir: dir, Generation: generation, Fresh: true, Log: slog.New(slog.DiscardHandler)}
	key := must.Get(ServerKey(o))(t)
	for name, text := range map[string][]byte{"empty": nil, "truncated": key.Text()[:40], "binary": make([]byte, 65)} {
		must.Do(t, os.WriteFile(filepath.Join(dir, KeyName), text, 0o600))
		_, err := ServerKey(o)
		f := term.FailureOf(err)
		if f == nil || f.Code != term.ExitConfig || !strings.Contains(f.Hint, LostWithKey) || !strings.Contains(f.Hint, key.Fingerprint()) || strings.Contains(f.Hint, "remove") {
			t.Errorf("%s: ServerKey() = %v, want exit code %d, what would be lost, the fingerprint, and nothing removed", name, err, term.ExitConfig)
		}
	}
}

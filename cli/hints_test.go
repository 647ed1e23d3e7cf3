package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

// changes matches a command that changes files or ends processes.
var changes = regexp.MustCompile(`\b(chmod|chown|chgrp|rm|mv|kill|echo|remove)\b`)

// TestHintsLeaveTheMachineAlone: people type --data / or similar by mistake. Whoever pastes
// the hint must not lock everybody out of a directory that is not ours.
//
// Promise (Commands and settings): without data each command makes a store and says so, or fails
// (3); a refused one leaves none; hints change only what is ours; shown commands name their store
func TestHintsLeaveTheMachineAlone(t *testing.T) {
	t.Parallel()
	must.Have(t, os.Geteuid() == 0, "only root is told to change what belongs to others")
	home := func(t *testing.T, mode os.FileMode, owner int) string {
		dir := filepath.Join(t.TempDir(), "place")
		must.Do(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "bashrc"), nil, 0o600), os.Chmod(dir, mode), os.Chown(dir, owner, owner)))
		return dir
	}
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--data"}
	backups := func(t *testing.T, dir string) []string {
		return append(serve, filepath.Join(t.TempDir(), "data"), "--backup-every", "24h", "--backup-dir", dir)
	}
	for name, args := range map[string]func(t *testing.T) []string{
		"data_is_the_root":                   func(*testing.T) []string { return append(serve, "/") },
		"doctor_of_the_root":                 func(*testing.T) []string { return []string{"doctor", "--data", "/"} },
		"data_is_a_directory_open_to_others": func(t *testing.T) []string { return append(serve, home(t, 0o755, 0)) },
		"data_is_a_home":                     func(t *testing.T) []string { return append(serve, home(t, 0o700, 65534)) },
		"command_on_a_home":                  func(t *testing.T) []string { return []string{"user", "list", "--data", home(t, 0o750, 65534)} },
		"data_is_an_empty_tmp": func(t *testing.T) []string {
			dir := t.TempDir()
			must.Do(t, os.Chmod(dir, 0o777|os.ModeSticky))
			return append(serve, dir)
		},
		"data_is_another_store": func(t *testing.T) []string {
			dir := home(t, 0o755, 0)
			must.Do(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIFEST-000005\n"), 0o600))
			return append(serve, dir)
		},
		"backups_in_a_tmp": func(t *testing.T) []string {
			dir := t.TempDir()
			must.Do(t, os.Chmod(dir, 0o777|os.ModeSticky))
			return backups(t, dir)
		},
		"backups_in_a_home":          func(t *testing.T) []string { return backups(t, home(t, 0o755, 65534)) },
		"backups_in_a_shared_folder": func(t *testing.T) []string { return backups(t, home(t, 0o775, 0)) },
		"socket_is_a_file": func(t *testing.T) []string {
			return append(serve, filepath.Join(t.TempDir(), "data"), "--admin-socket", filepath.Join(home(t, 0o700, 0), "bashrc"))
		},
		"key_is_another_file": func(t *testing.T) []string {
			return append(serve, filepath.Join(t.TempDir(), "data"), "--key-file", filepath.Join(home(t, 0o700, 0), "bashrc"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := args(t)
			_, stderr, code := run(t, args...)
			_, hint, found := strings.Cut(stderr, "tollhouse: hint: ")
			if code == term.ExitOK || !found || changes.MatchString(hint) {
				t.Errorf("%s: exit %d, %s; want a hint without commands that change something", strings.Join(args, " "), code, stderr)
			}
		})
	}
}

// TestOurDataInADirectoryOfAllStaysOurs: some volumes have mode 1777 at every mount, and
// what is ours is not foreign then.
func TestOurDataInADirectoryOfAllStaysOurs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	_, stderr, code := run(t, "account", "create", "acct_1", "--data", dir)
	must.Have(t, code == term.ExitOK, "a store: "+stderr)
	must.Do(t, os.Chmod(dir, 0o700|os.ModeSticky))
	if _, stderr, code := run(t, "account", "list", "--data", dir); code != term.ExitOK {
		t.Errorf("exit %d, %s; want the data to be used", code, stderr)
	}
}

// TestKillIsOnlyForAProcessThatHoldsTheLock: the number in LOCK may be that of a process in
// another container, and here of any other.
func TestKillIsOnlyForAProcessThatHoldsTheLock(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := must.ClosedDir(t)
	lock := must.Get(datadir.TryLock(dir, "serve"))(t)
	t.Cleanup(func() { _ = lock.Release() })
	if _, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0"); code != term.ExitBusy || !strings.Contains(stderr, "(kill ") {
		t.Errorf("exit %d, %s; want %d and how to stop the holder", code, stderr, term.ExitBusy)
	}
	lock.PID = 1
	text := must.Get(json.Marshal(lock.Holder))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, datadir.LockName), text, 0o600))
	if _, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0"); code != term.ExitBusy || strings.Contains(stderr, "kill") {
		t.Errorf("exit %d, %s; want %d and no kill", code, stderr, term.ExitBusy)
	}
}

// TestALinkToNothingIsNamed: ls shows the link, so "does not exist" alone misleads. The disk
// may be mounted later, and then the unit must have gone on trying.
//
// Promise (Commands and settings): without data each command makes a store and says so, or fails
// (3); a refused one leaves none; hints change only what is ours; shown commands name their store
func TestALinkToNothingIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string // LINK is the link
	}{
		"data":            {[]string{"serve", "--listen", "127.0.0.1:0", "--data", "LINK"}},
		"data_below_it":   {[]string{"serve", "--listen", "127.0.0.1:0", "--data", "LINK/data"}},
		"data_of_command": {[]string{"user", "list", "--data", "LINK"}},
		"data_of_health":  {[]string{"health", "--data", "LINK"}},
		"data_of_status":  {[]string{"status", "--data", "LINK"}},
		"data_to_restore": {[]string{"backup", "--data", "LINK"}},
		"certificate":     {[]string{"serve", "--public-url", "https://127.0.0.1", "--tls", "files", "--tls-cert", "LINK", "--tls-key", "LINK"}},
		"ca":              {[]string{"serve", "--webhook-ca", "LINK"}},
		"key":             {[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", "LINK"}},
		"logo":            {[]string{"dev", "--logo", "LINK"}},
		"seed":            {[]string{"dev", "--seed-file", "LINK"}},
		"password":        {[]string{"user", "create", "alice", "--password-file", "LINK"}},
		"database":        {[]string{"user", "list", "--store-file", "LINK"}},
		"import":          {[]string{"event", "import", "LINK"}},
		"backup":          {[]string{"restore", "LINK"}},
		"backups":         {[]string{"serve", "--listen", "127.0.0.1:0", "--backup-every", "24h", "--backup-dir", "LINK"}},
		"socket":          {[]string{"serve", "--listen", "127.0.0.1:0", "--admin-socket", "LINK/socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			link, target := filepath.Join(dir, "link"), filepath.Join(dir, "not-mounted")
			must.Do(t, os.Symlink(target, link))
			args := strings.Split(strings.ReplaceAll(strings.Join(c.args, "\n"), "LINK", link), "\n")
			stderr, code := runIn(t, dir, nil, args...)
			if code == term.ExitOK || !strings.Contains(stderr, link+" is a symbolic link to "+target) {
				t.Errorf("exit %d, %s; want the link and its target", code, stderr)
			}
			if args[0] == "serve" && code != term.ExitBusy {
				t.Errorf("exit %d, want %d", code, term.ExitBusy)
			}
			if _, err := os.Lstat(target); err == nil {
				t.Error("the target was made")
			}
		})
	}
}

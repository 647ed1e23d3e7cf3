package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// sealing is a data directory, with keys for its backups.
type sealing struct {
	root, dir           string
	public, secret      string
	key, otherKey, file string
	plain               string // a plain backup
	t                   *testing.T
}

func newSealing(t *testing.T) *sealing {
	t.Helper()
	root := t.TempDir()
	own, other := must.Get(age.GenerateX25519Identity())(t), must.Get(age.GenerateX25519Identity())(t)
	s := &sealing{t: t, root: root, dir: filepath.Join(root, "data"), public: own.Recipient().String(), secret: own.String(),
		key: filepath.Join(root, "key"), otherKey: filepath.Join(root, "other"), file: filepath.Join(root, "file"), plain: filepath.Join(root, "plain")}
	must.Do(t, os.WriteFile(s.key, []byte("# of a test\n"+own.String()+"\n"), 0o600))
	must.Do(t, os.WriteFile(s.otherKey, []byte(other.String()+"\n"), 0o600))
	s.tollhouse(term.ExitOK, "account", "create", "acct_sealed", "--data", s.dir)
	s.tollhouse(term.ExitOK, "backup", s.file, "--data", s.dir, "--backup-recipient", s.public, "--backup-recipient", other.Recipient().String())
	s.tollhouse(term.ExitOK, "backup", s.plain, "--data", s.dir)
	return s
}

// tollhouse runs a command, which is to end with that code.
func (s *sealing) tollhouse(code int, args ...string) (out, stderr string) {
	s.t.Helper()
	out, stderr, got := run(s.t, args...)
	if got != code {
		s.t.Errorf("tollhouse %v: exit %d, %s; want %d", args, got, stderr, code)
	}
	if s.secret != "" && strings.Contains(strings.ToUpper(out+stderr), s.secret[20:40]) {
		s.t.Errorf("tollhouse %v repeats the secret key:\n%s%s", args, out, stderr)
	}
	return out, stderr
}

// path is a file below root with that content.
func (s *sealing) path(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	must.Do(s.t, os.WriteFile(path, content, 0o600))
	return path
}

// Promise (Guard §10): verify and restore decrypt with --identity; a wrong one is 5, none is 2, and what was
// tampered with, cut, appended to or has a passphrase is 65, with the live directory unchanged
func TestVerifyAndRestoreEncrypted(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	whole := must.Get(os.ReadFile(s.file))(t)
	var phrase bytes.Buffer
	scrypt := must.Get(age.NewScryptRecipient("larkspur"))(t)
	scrypt.SetWorkFactor(5)
	w := must.Get(age.Encrypt(&phrase, scrypt))(t)
	must.Get(w.Write(must.Get(os.ReadFile(s.plain))(t)))(t)
	must.Do(t, w.Close())
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-20] ^= 1
	live := filepath.Join(s.root, "live")
	s.tollhouse(term.ExitOK, "account", "create", "acct_live", "--data", live)
	before := contentOf(t, live)
	for name, c := range map[string]struct {
		file  string
		with  []string
		code  int
		wants string
	}{
		"wrong identity":    {s.file, []string{"--identity", s.path("third", []byte(must.Get(age.GenerateX25519Identity())(t).String()))}, term.ExitNotAllowed, "none of the identities can decrypt"},
		"no identity":       {s.file, nil, term.ExitUsage, "--identity FILE with the secret key of a recipient; tollhouse backup verify --sealed"},
		"flipped":           {s.path("flipped", flipped), []string{"--identity", s.key}, term.ExitBadData, "damaged"},
		"cut at a chunk":    {s.path("cut", whole[:len(whole)/2]), []string{"--identity", s.key}, term.ExitBadData, "damaged"},
		"cut in the header": {s.path("short", whole[:30]), []string{"--identity", s.key}, term.ExitBadData, "damaged"},
		"cut in the magic":  {s.path("magic", whole[:5]), []string{"--identity", s.key}, term.ExitBadData, "damaged"},
		"empty":             {s.path("empty", nil), []string{"--identity", s.key}, term.ExitBadData, "empty"},
		"appended":          {s.path("long", append(bytes.Clone(whole), 'x')), []string{"--identity", s.key}, term.ExitBadData, "damaged"},
		"passphrase":        {s.path("phrase", phrase.Bytes()), []string{"--identity", s.key}, term.ExitBadData, "passphrase"},
		"a secret key":      {s.file, []string{"--identity", s.secret}, term.ExitUsage, "--identity was given a secret key"},
		"a key as the file": {s.secret, []string{"--identity", s.key}, term.ExitUsage, "in place of a backup file"},
		"a missing key":     {s.file, []string{"--identity", filepath.Join(s.root, "none")}, term.ExitNotFound, "does not exist"},
		"a public key":      {s.file, []string{"--identity", s.path("public", []byte(s.public))}, term.ExitUsage, "line 1 of"},
	} {
		for _, command := range [][]string{{"backup", "verify", c.file}, {"restore", c.file, "--data", live, "--yes"}} {
			if _, stderr := s.tollhouse(c.code, append(command, c.with...)...); !strings.Contains(stderr, c.wants) {
				t.Errorf("%s: %s, want %q", name, stderr, c.wants)
			}
		}
		sameContent(t, "a restore, "+name, live, before)
	}
	for cut := range len(whole) { // as from a pipe, which is read once
		if cut%97 != 0 {
			continue
		}
		command := exec.Command("tollhouse", "restore", "-", "--data", live, "--yes", "--identity", s.key)
		command.Stdin = bytes.NewReader(whole[:cut])
		if out, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != term.ExitBadData {
			t.Errorf("from a pipe, cut at byte %d: exit %d, %s; want 65", cut, command.ProcessState.ExitCode(), out)
		}
	}
	if changed := must.Unlike(before, contentOf(t, live)); len(changed) > 0 {
		t.Errorf("restores from a pipe have changed %v", changed)
	}
	plain, _ := s.tollhouse(term.ExitOK, "backup", "verify", s.plain, "--json")
	sealed, _ := s.tollhouse(term.ExitOK, "backup", "verify", s.file, "--json", "--identity", s.key)
	var p, e datadir.CheckedBackup
	must.Do(t, json.Unmarshal([]byte(plain), &p))
	must.Do(t, json.Unmarshal([]byte(sealed), &e))
	if e.Instance != p.Instance || e.Kinds["accounts"] != 1 || !e.Encrypted || p.Encrypted {
		t.Errorf("verified: %s and %s", plain, sealed)
	}
	if _, stderr := s.tollhouse(term.ExitOK, "backup", "verify", s.plain, "--identity", s.key); !strings.Contains(stderr, "not encrypted, so --identity was not used") {
		t.Errorf("an identity for a plain backup: %s", stderr)
	}
	must.Do(t, os.Chmod(s.otherKey, 0o644))
	for i, args := range [][]string{{s.file, "--identity", s.key}, {s.file, "--identity", s.otherKey}, {s.plain, "--identity", s.key}} {
		to := filepath.Join(s.root, fmt.Sprint("restored", i))
		_, stderr := s.tollhouse(term.ExitOK, append([]string{"restore", "--data", to}, args...)...)
		if strings.Contains(stderr, "other users may read the secret key") != (i == 1) {
			t.Errorf("restore %v says %s", args, stderr)
		}
		if out, _ := s.tollhouse(term.ExitOK, "account", "list", "--data", to); !strings.Contains(out, "acct_sealed") {
			t.Errorf("restore %v brought %s", args, out)
		}
	}
	command := exec.Command("tollhouse", "backup", "verify", s.file, "--identity", "-")
	command.Stdin = strings.NewReader(s.secret)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("the identity from standard input: %v, %s", err, out)
	}
	if _, stderr := s.tollhouse(term.ExitUsage, "backup", "verify", "-", "--identity", "-"); !strings.Contains(stderr, "only once") {
		t.Errorf("both from standard input: %s", stderr)
	}
}

// Promise (Guard §10): verify --sealed exits 0 for what was written, 65 for anything else, 1 without a note; a
// file is told by its content, whatever its name
func TestVerifySealed(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	whole := must.Get(os.ReadFile(s.file))(t)
	out, _ := s.tollhouse(term.ExitOK, "backup", "verify", "--sealed", s.file, "--json")
	if want := fmt.Sprintf(`{"file":%q,"encrypted":true,"sealed":true,"recipients":2,"bytes":%d}`, s.file, len(whole)); strings.TrimSpace(out) != want {
		t.Errorf("verify --sealed --json = %s, want %s", out, want)
	}
	alone := s.path("tollhouse-20260102T030405Z.backup", whole)
	if _, stderr := s.tollhouse(term.ExitFailed, "backup", "verify", "--sealed", alone); !strings.Contains(stderr, "so it cannot be checked") {
		t.Errorf("without a note: %s", stderr)
	}
	s.tollhouse(term.ExitOK, "backup", "verify", alone, "--identity", s.key)
	named := s.path("tollhouse-20260102T030405Z.backup.age", must.Get(os.ReadFile(s.plain))(t))
	s.tollhouse(term.ExitOK, "backup", "verify", named)
	s.tollhouse(term.ExitUsage, "backup", "verify", "--sealed", named)
	s.tollhouse(term.ExitUsage, "backup", "verify", "--sealed", s.file, "--identity", s.key)
	s.path("file", whole[:len(whole)-1])
	if _, stderr := s.tollhouse(term.ExitBadData, "backup", "verify", "--sealed", s.file); !strings.Contains(stderr, "differs from its note") {
		t.Errorf("cut: %s", stderr)
	}
}

// Promise (Guard §10): backup takes its own recipients, else those of the running server; --plain writes
// none, and bad recipients end it with 2 before anything is written
func TestBackupRecipients(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	server := start(t, "serve", "--data", s.dir, "--listen", "127.0.0.1:0", "--backup-recipient", s.public)
	backup := func(code int, args ...string) (content []byte, stderr string) {
		t.Helper()
		path := filepath.Join(s.root, "made")
		_ = os.Remove(path)
		_, stderr = s.tollhouse(code, append([]string{"backup", path, "--data", s.dir}, args...)...)
		content, _ = os.ReadFile(path)
		return content, stderr
	}
	other := must.Get(age.GenerateX25519Identity())(t)
	list := s.path("recipients", []byte("# the safe\n"+other.Recipient().String()+"  \n\n"))
	for name, c := range map[string]struct {
		args  []string
		lines int // recipients; 0 is plain
	}{
		"the server's":   {nil, 1},
		"plain":          {[]string{"--plain"}, 0},
		"its own":        {[]string{"--backup-recipient", other.Recipient().String()}, 1},
		"both of its":    {[]string{"--backup-recipient", s.public, "--backup-recipient-file", list}, 2},
		"of a file only": {[]string{"--backup-recipient-file", list}, 1},
	} {
		if content, _ := backup(term.ExitOK, c.args...); bytes.Count(content, []byte("\n-> X25519 ")) != c.lines || bytes.HasPrefix(content, []byte("tollbak\n")) != (c.lines == 0) {
			t.Errorf("%s: a backup that begins %.60q, want %d recipients", name, content, c.lines)
		}
	}
	out, _ := s.tollhouse(term.ExitOK, "status", "--data", s.dir, "--json")
	if !strings.Contains(out, `"scheduled":false,"encrypted":`) {
		t.Errorf("status --json = %s", out)
	}
	command := exec.Command("tollhouse", "backup", "--data", s.dir)
	command.Dir = t.TempDir()
	must.Get(command.Output())(t)
	files := must.Get(filepath.Glob(filepath.Join(command.Dir, "tollhouse-*Z.backup.age*")))(t)
	if len(files) != 2 || files[1] != files[0]+".checked" {
		t.Errorf("without a name: %q, want a backup and its note", files)
	}
	command = exec.Command("tollhouse", "backup", "-", "--data", s.dir)
	sent := must.Get(command.Output())(t)
	if _, stderr := s.tollhouse(term.ExitOK, "backup", "verify", s.path("sent", sent), "--identity", s.key); bytes.HasPrefix(sent, []byte("tollbak")) {
		t.Errorf("to a pipe: %.30q, %s", sent, stderr)
	}
	if code := server.end(); code != term.ExitOK {
		t.Errorf("the server ended with %d", code)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"checksum":      {[]string{"--backup-recipient", storetest.Bent(s.public)}, "checksum"},
		"plugin":        {[]string{"--backup-recipient", "age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"}, "plugin"},
		"unknown":       {[]string{"--backup-recipient", "larkspur"}, "unknown kind"},
		"secret":        {[]string{"--backup-recipient", s.secret}, "secret key"},
		"secret file":   {[]string{"--backup-recipient-file", s.key}, "line 2 of " + s.key},
		"secret as one": {[]string{"--backup-recipient-file", s.secret}, "secret key"},
		"empty file":    {[]string{"--backup-recipient-file", s.path("nobody", []byte("# none\n"))}, "has no recipient"},
		"mixed":         {[]string{"--backup-recipient", s.public, "--backup-recipient", must.Get(age.GenerateHybridIdentity())(t).Recipient().String()}, "mixed"},
		"too many":      {strings.Fields(strings.Repeat("--backup-recipient "+s.public+" ", 21)), "21 recipients"},
	} {
		content, stderr := backup(term.ExitUsage, c.args...)
		if content != nil || !strings.Contains(stderr, c.says) {
			t.Errorf("backup, %s: %s, want %q and no file", name, stderr, c.says)
		}
		fresh := filepath.Join(s.root, "fresh")
		if _, stderr := s.tollhouse(term.ExitUsage, append([]string{"serve", "--data", fresh, "--listen", "127.0.0.1:0"}, c.args...)...); !strings.Contains(stderr, c.says) {
			t.Errorf("serve, %s: %s, want %q", name, stderr, c.says)
		}
		if _, err := os.Lstat(fresh); err == nil {
			t.Errorf("serve, %s: it has made the data directory", name)
		}
	}
	if content, stderr := backup(term.ExitUsage, "--plain", "--backup-recipient", s.public); content != nil || !strings.Contains(stderr, "--plain cannot be combined") {
		t.Errorf("--plain with a recipient: %s", stderr)
	}
	command = exec.Command("tollhouse", "config", "serve")
	command.Env = append(os.Environ(), "TOLLHOUSE_BACKUP_RECIPIENT="+s.secret)
	if out, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != term.ExitUsage || strings.Contains(string(out), s.secret) {
		t.Errorf("config with a secret key: %s", out)
	}
	command = exec.Command("tollhouse", "backup", "-", "--data", s.dir)
	command.Env = append(os.Environ(), "TOLLHOUSE_BACKUP_RECIPIENT="+s.public+"\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN")
	if sent := must.Get(command.Output())(t); !bytes.Contains(sent[:400], []byte("-> ssh-ed25519 ")) {
		t.Errorf("recipients in the variable: %.300q", sent)
	}
}

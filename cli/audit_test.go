package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// TestAuditOfARareKind: pages without a line are passed, and the command ends.
func TestAuditOfARareKind(t *testing.T) {
	t.Parallel()
	dir := dirFilled(t, time.Now, func(s *store.Store) {
		for range store.AuditSearchedMax / 1000 {
			for range 1000 {
				s.Audit(store.AuditLine{What: store.AuditLogin})
			}
			s.Flush(t.Context())
		}
		s.Audit(store.AuditLine{What: store.AuditLoginRefused, Reason: "rare"})
		s.Flush(t.Context())
	})
	if out, stderr, code := run(t, "audit", "--what", "login_refused", "--json", "--data", dir); code != term.ExitOK || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"rare"`) {
		t.Errorf("exit %d, %s%s; want the rare line", code, out, stderr)
	}
}

// A follower of the audit record shows each line once, also those of later polls.
func TestAuditFollow(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	password := filepath.Join(t.TempDir(), "password")
	must.Do(t, os.WriteFile(password, []byte("correct horse battery staple"), 0o600))
	start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	f := startFollower(t, "audit", "--follow", "--json", "--data", dir)
	for n, name := range []string{"bob", "eve", "odile"} {
		if _, stderr, code := run(t, "user", "create", name, "--data", dir, "--password-file", password, "--quiet"); code != term.ExitOK {
			t.Fatalf("user create: exit %d, %s", code, stderr)
		}
		f.until(t, "out", "the creation of "+name, func(text string) bool { return strings.Count(text, `"user created"`) > n })
	}
	_ = f.cmd.Process.Signal(os.Interrupt)
	_ = f.cmd.Wait()
	if code := f.cmd.ProcessState.ExitCode(); code != term.ExitInterrupted {
		t.Errorf("exit %d, want %d", code, term.ExitInterrupted)
	}
	listed, stderr, code := run(t, "audit", "--json", "--data", dir)
	if shown := f.text(t, "out"); code != term.ExitOK || shown != listed {
		t.Errorf("it showed\n%s\nwant\n%s%s", shown, listed, stderr)
	}
}

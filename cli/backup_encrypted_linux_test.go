package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestNoPlainByteIsWritten traces what the commands write, temporary files included: nothing
// begins as a plain backup does. The trace of a plain backup does, so that the test can fail.
//
// Promise (Guard §10): no plain byte of an encrypted backup is written to a disk, by backup, verify or
// restore
func TestNoPlainByteIsWritten(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	strace, err := exec.LookPath("strace")
	must.Have(t, err == nil, "strace")
	out, err := exec.Command(strace, "-qq", "-f", "-e", "trace=none", "true").CombinedOutput()
	must.Have(t, err == nil, fmt.Sprintf("a kernel that lets strace trace: %v %s", err, out))
	s := newSealing(t)
	for name, c := range map[string]struct {
		args  []string
		plain bool
	}{
		"plain":   {[]string{"backup", filepath.Join(s.root, "a"), "--data", s.dir}, true},
		"backup":  {[]string{"backup", filepath.Join(s.root, "b"), "--data", s.dir, "--backup-recipient", s.public}, false},
		"output":  {[]string{"backup", "-", "--data", s.dir, "--backup-recipient", s.public}, false},
		"verify":  {[]string{"backup", "verify", s.file, "--identity", s.key}, false},
		"restore": {[]string{"restore", s.file, "--identity", s.key, "--data", filepath.Join(s.root, "restored")}, false},
	} {
		trace := filepath.Join(s.root, "trace-"+name)
		command := exec.Command(strace, append([]string{"-qq", "-f", "-o", trace, "-e", "trace=write,pwrite64,writev,pwritev,sendfile,copy_file_range", "tollhouse"}, c.args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %.500s", name, err, out)
		}
		text := string(must.Get(os.ReadFile(trace))(t))
		if got := strings.Contains(text, "tollbak"); got != c.plain {
			t.Errorf("%s: a plain backup is written: %t, want %t", name, got, c.plain)
		}
	}
}

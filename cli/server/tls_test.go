package server

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/server/certtest"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// certified is a certificate signed by its own key, as PEM.
type certified struct{ cert, key []byte }

// certify makes a certificate for names and addresses, valid from an hour ago until
// valid from now.
func certify(t testing.TB, valid time.Duration, names ...string) certified {
	t.Helper()
	cert, key, err := certtest.Make(time.Now().Add(-time.Hour), time.Now().Add(valid), names...)
	if err != nil {
		t.Fatal(err)
	}
	return certified{cert, key}
}

// testLog records a log.
type testLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *testLog) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *testLog) count(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.text.String(), text)
}

// testFiles is a certificate in files.
type testFiles struct {
	t         testing.TB
	cert, key string
	log       *testLog
	*certificateFiles
}

func openTestFiles(t testing.TB, c certified, host string) *testFiles {
	t.Helper()
	dir := t.TempDir()
	l := &testFiles{t: t, cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), log: &testLog{}}
	l.put(l.cert, c.cert)
	l.put(l.key, c.key)
	var err error
	if l.certificateFiles, err = openCertificateFiles(l.cert, l.key, host, slog.New(slog.NewTextHandler(l.log, nil))); err != nil {
		t.Fatal(err)
	}
	return l
}

// put replaces a file atomically, as ACME clients do.
func (l *testFiles) put(path string, text []byte) {
	l.t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		l.t.Fatal(err)
	}
}

// shown returns the certificate of the next handshake that checks the files.
func (l *testFiles) shown() string {
	l.mu.Lock()
	l.looked = time.Time{} // a second has passed
	l.mu.Unlock()
	if _, err := l.config().GetCertificate(&tls.ClientHelloInfo{ServerName: "pay.example"}); err != nil {
		l.t.Fatal(err)
	}
	return l.shownNow()
}

// shownNow returns the certificate in use.
func (l *testFiles) shownNow() string {
	cert := l.used.Load()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
}

// Promise (TLS and proxies): a certificate from files, reloaded when both change; a broken new pair
// leaves the old in use
func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	const names, month = "pay.example", 30 * 24 * time.Hour
	t.Run("tls_files_are_reloaded_when_they_change", func(t *testing.T) {
		t.Parallel()
		first, second := certify(t, month, names), certify(t, 2*month, names)
		l := openTestFiles(t, first, names)
		if l.shown() != string(first.cert) {
			t.Fatal("the certificate is not the one of the files")
		}
		// While only one file is new, the pair does not match and the old one stays in use.
		l.put(l.cert, second.cert)
		for range 3 {
			if l.shown() != string(first.cert) {
				t.Fatal("a certificate without its key is in use")
			}
		}
		if n := l.log.count("do not match"); n != 1 {
			t.Errorf("the log has the broken pair %d times, want once", n)
		}
		if got := l.status(); !strings.Contains(got.Problem, "do not match") {
			t.Errorf("status = %+v, want the problem in it", got)
		}
		l.put(l.key, second.key)
		if l.shown() != string(second.cert) {
			t.Error("the new pair is not in use")
		}
		if got := l.status(); got.Problem != "" || time.Until(time.Unix(got.Expires, 0)) < month {
			t.Errorf("status = %+v, want the new expiry and no problem", got)
		}
		if l.log.count("certificate reloaded") != 1 {
			t.Error("the log does not have the reload once")
		}
	})
	t.Run("tls_a_broken_new_pair_leaves_the_old_in_use", func(t *testing.T) {
		t.Parallel()
		first, later := certify(t, month, names), certify(t, 3*month, names)
		for name, broken := range map[string]certified{
			"an expired one":          certify(t, -time.Minute, names),
			"one of another name":     certify(t, month, "bank.example"),
			"half of one":             {later.cert[:len(later.cert)/2], later.key},
			"none":                    {nil, nil},
			"a key that is none":      {later.cert, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")},
			"another's certificate":   {certify(t, month, names).cert, later.key},
			"the files of a stranger": {[]byte("hunter2"), []byte("hunter2")},
		} {
			l := openTestFiles(t, first, names)
			l.put(l.cert, broken.cert)
			l.put(l.key, broken.key)
			for range 3 {
				if l.shown() != string(first.cert) {
					t.Errorf("%s is in use", name)
				}
			}
			if n := l.log.count("level=WARN"); n != 1 {
				t.Errorf("%s: %d warnings, want one", name, n)
			}
			if l.log.count("hunter2")+l.log.count("BEGIN") > 0 {
				t.Errorf("%s: the log holds what was in the files", name)
			}
			l.put(l.cert, later.cert)
			l.put(l.key, later.key)
			if l.shown() != string(later.cert) {
				t.Errorf("after %s a valid pair is not in use", name)
			}
		}
	})
	t.Run("tls_files_that_disappear_and_come_back", func(t *testing.T) {
		t.Parallel()
		first := certify(t, month, names)
		l := openTestFiles(t, first, names)
		must.Do(t, os.Rename(l.key, l.key+".away"))
		for range 2 {
			if l.shown() != string(first.cert) {
				t.Error("the certificate in use went with its file")
			}
		}
		if n := l.log.count("level=WARN"); n != 1 {
			t.Errorf("%d warnings, want one", n)
		}
		must.Do(t, os.Rename(l.key+".away", l.key))
		if l.shown(); l.status().Problem != "" {
			t.Errorf("status = %+v, want no problem", l.status())
		}
	})
	t.Run("tls_a_refused_pair_is_read_again", func(t *testing.T) {
		t.Parallel()
		first, second := certify(t, month, names), certify(t, 2*month, names)
		l := openTestFiles(t, first, names)
		l.put(l.cert, second.cert)
		l.put(l.key, second.key)
		l.look(time.Now().Add(-48 * time.Hour)) // by a slow clock the certificate is not valid yet
		if l.shownNow() != string(first.cert) || l.problem.Load() == nil {
			t.Fatal("a pair that is not valid yet is in use")
		}
		must.Do(t, os.Chmod(l.key, 0o644))
		l.look(time.Now())
		if l.shownNow() != string(second.cert) || l.problem.Load() != nil {
			t.Error("a pair that was refused before is not in use although it is valid now")
		}
		if l.log.count("accessible to other users") != 1 {
			t.Error("the log does not warn that other users can read the new key")
		}
	})
	t.Run("tls_sighup_reads_them_although_they_were_just_checked", func(t *testing.T) {
		t.Parallel()
		first, second := certify(t, month, names), certify(t, 2*month, names)
		l := openTestFiles(t, first, names)
		l.put(l.cert, second.cert)
		l.put(l.key, second.key)
		if l.current(); l.shownNow() != string(first.cert) {
			t.Fatal("the files are checked within a second of the last check")
		}
		if l.reload(); l.shownNow() != string(second.cert) {
			t.Error("the new pair is not in use")
		}
	})
	t.Run("checks_once_a_second_and_no_handshake_waits", func(t *testing.T) {
		t.Parallel()
		first, second := certify(t, month, names), certify(t, month, names)
		l := openTestFiles(t, first, names)
		l.put(l.cert, second.cert)
		l.put(l.key, second.key)
		l.mu.Lock()
		l.looked = time.Now().Add(time.Hour) // as if the files had just been checked
		l.mu.Unlock()
		if c := l.current(); !bytes.Contains(first.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})) {
			t.Error("the files were read again within a second")
		}
		l.mu.Lock() // a check that hangs
		l.looked = time.Time{}
		done := make(chan *tls.Certificate, 1)
		go func() { done <- l.current() }()
		select {
		case <-done:
		case <-time.After(startMax):
			t.Error("a handshake waits for another one that checks the files")
		}
		l.mu.Unlock()
	})
	t.Run("tls_a_key_that_others_can_read_gives_a_warning", func(t *testing.T) {
		t.Parallel()
		for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1, 0o604: 1} {
			made := certify(t, month, names)
			l := openTestFiles(t, made, names)
			must.Do(t, os.Chmod(l.key, mode))
			if _, err := openCertificateFiles(l.cert, l.key, "", slog.New(slog.NewTextHandler(l.log, nil))); err != nil {
				t.Fatal(err)
			}
			if n := l.log.count("accessible to other users"); n != want {
				t.Errorf("mode %04o: %d warnings, want %d", mode, n, want)
			}
		}
	})
}

// Promise (TLS and proxies): an unusable pair is refused at start, with reason and next step
func TestCertificateThatWeMayNotRead(t *testing.T) {
	t.Parallel()
	f := term.FailureOf(fileError("/etc/letsencrypt/live/pay.example/privkey.pem", &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}))
	if f.Code != term.ExitConfig || f.Error() != "cannot read /etc/letsencrypt/live/pay.example/privkey.pem: permission denied" || !strings.Contains(f.Hint, datadir.UserNamed(os.Geteuid())) {
		t.Errorf("fault = %d %q, hint %q; want 78, the reason, and who may not", f.Code, f, f.Hint)
	}
}

func TestCertificateStatus(t *testing.T) {
	t.Parallel()
	now := time.Unix(1773070200, 0)
	for _, c := range []struct {
		name string
		s    admin.CertificateStatus
		want string
	}{
		{"files", admin.CertificateStatus{Source: tlsFiles, Names: []string{"pay.example", "192.0.2.7"}, NotBefore: now.Unix(), Expires: now.Add(49 * time.Hour).Unix()},
			"pay.example, 192.0.2.7, until 2026-03-11T16:30:00Z (2 days), from files"},
		{"none_yet", admin.CertificateStatus{Source: sourceACME, Names: []string{"pay.example"}, Problem: "dial tcp: connection refused"},
			"none yet for pay.example, from ACME: dial tcp: connection refused"},
		{"expired", admin.CertificateStatus{Source: tlsFiles, Names: []string{"pay.example"}, NotBefore: now.Unix() - 9, Expires: now.Unix() - 1}, "pay.example, until 2026-03-09T15:29:59Z (expired), from files"},
		{"last_day", admin.CertificateStatus{Source: sourceACME, Names: []string{"pay.example"}, NotBefore: now.Unix() - 9, Expires: now.Unix() + 1}, "pay.example, until 2026-03-09T15:30:01Z (less than a day), from ACME: it should have been renewed"},
		{"day", admin.CertificateStatus{Source: sourceACME, Names: []string{"pay.example"}, NotBefore: now.Unix() - 9, Expires: now.Add(25 * time.Hour).Unix()}, "pay.example, until 2026-03-10T16:30:00Z (1 day), from ACME"},
		// RFC 5280 §4.1.2.5: the date of a certificate that never expires.
		{"for_ever", admin.CertificateStatus{Source: tlsFiles, Names: []string{"pay.example"}, NotBefore: now.Unix() - 9, Expires: 253402300799}, "pay.example, until 9999-12-31T23:59:59Z (2912375 days), from files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := describeCertificate(c.s, now); got != c.want {
				t.Errorf("describe = %q, want %q", got, c.want)
			}
			s := admin.ServerStatus{Certificate: &c.s}
			if rows := StatusRows(s, now); !slices.Contains(rows, term.Row{"certificate", c.want}) {
				t.Errorf("rows = %q, want the certificate among them", rows)
			}
		})
	}
}

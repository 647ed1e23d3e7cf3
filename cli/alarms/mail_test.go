package alarms

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/cli/server/certtest"
	"tollhouse/store/storetest/must"
)

// mailServer speaks SMTP as far as a test needs it.
type mailServer struct {
	t          *testing.T
	tls        *tls.Config
	isImplicit bool
	offers     string // extensions, separated by blanks
	refuses    string // the command that gets 550
	mu         sync.Mutex
	lines      []string // of commands, "TLS " before those over TLS
	text       string
}

func (s *mailServer) serve(conn net.Conn) {
	secure := false
	if s.isImplicit {
		conn, secure = tls.Server(conn, s.tls), true
	}
	r := bufio.NewReader(conn)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(conn, format+"\r\n", args...) }
	say("220 mail.example canary ESMTP")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		mark := ""
		if secure {
			mark = "TLS "
		}
		s.mu.Lock()
		s.lines = append(s.lines, mark+line)
		s.mu.Unlock()
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		switch {
		case verb == s.refuses:
			say("550 canary no")
		case verb == "EHLO":
			say("250-mail.example")
			for _, x := range strings.Split(s.offers, ",") {
				if x != "" && (x != "STARTTLS" || !secure) {
					say("250-%s", x)
				}
			}
			say("250 OK")
		case verb == "STARTTLS":
			say("220 go")
			conn, secure = tls.Server(conn, s.tls), true
			r = bufio.NewReader(conn)
		case line == "AUTH LOGIN":
			for _, ask := range []string{"VXNlcm5hbWU6", "UGFzc3dvcmQ6"} {
				say("334 %s", ask)
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
				s.mu.Lock()
				s.lines = append(s.lines, mark+strings.TrimSpace(line))
				s.mu.Unlock()
			}
			say("235 in")
		case verb == "AUTH":
			say("235 in")
		case verb == "DATA":
			say("354 go")
			var text strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			s.mu.Lock()
			s.text = text.String()
			s.mu.Unlock()
			say("250 queued")
		default:
			say("250 OK")
		}
	}
}

func (s *mailServer) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// certifiedFor returns a certificate and the pool that trusts it.
func certifiedFor(t *testing.T, names ...string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	cert, key, err := certtest.Make(time.Now().Add(-time.Hour), time.Now().Add(time.Hour), names...)
	must.Do(t, err)
	pair := must.Get(tls.X509KeyPair(cert, key))(t)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		t.Fatal("no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, roots
}

// Promise (Guard §7, §8, §9): mail goes over TLS where it can; a password goes over TLS or to this machine
// only; names in a mail inject no header
func TestMail(t *testing.T) {
	t.Parallel()
	config, roots := certifiedFor(t, "127.0.0.1", "localhost")
	wrong, wrongRoots := certifiedFor(t, "other.example")
	c := newClient("1", roots)
	const to, password = "/?from=alarms@pay.example&to=a@b.example,c@d.example", "AGNhbmFyeTEAY2FuYXJ5Mg=="
	send := func(s *mailServer, user, query string) Result {
		t.Helper()
		s.t = t
		target := targetOf(t, "smtp://"+user+badServer(t, s.serve)+to+query)
		return c.send(t.Context(), target, aMessage(Begun, Warning))
	}
	s := &mailServer{tls: config, offers: "STARTTLS,AUTH PLAIN LOGIN"}
	if r := send(s, "canary1:canary2@", ""); !r.Delivered || strings.Count(s.said(), "RCPT TO:") != 2 || strings.Count(s.said(), "DATA") != 1 || !strings.Contains(s.said(), "\nTLS AUTH PLAIN "+password+"\n") {
		t.Errorf("with STARTTLS: %+v\n%s", r, s.said())
	}
	s = &mailServer{tls: config, offers: "STARTTLS,AUTH LOGIN"}
	if r := send(s, "canary1:canary2@", ""); !r.Delivered || !strings.Contains(s.said(), "TLS AUTH LOGIN\nTLS Y2FuYXJ5MQ==\nTLS Y2FuYXJ5Mg==\n") {
		t.Errorf("with LOGIN alone: %+v\n%s", r, s.said())
	}
	s = &mailServer{tls: config, offers: "STARTTLS,AUTH PLAIN"}
	if r := send(s, "", "&encryption=none"); !r.Delivered || strings.Contains(s.said(), "TLS") {
		t.Errorf("without encryption: %+v\n%s", r, s.said())
	}
	s = &mailServer{offers: "AUTH PLAIN"}
	if r := send(s, "canary1:canary2@", ""); !r.Delivered || !strings.Contains(s.said(), "AUTH PLAIN "+password) {
		t.Errorf("a password to this machine: %+v\n%s", r, s.said())
	}
	for _, query := range []string{"", "&encryption=none"} {
		s = &mailServer{offers: "AUTH PLAIN", t: t}
		elsewhere := targetOf(t, "smtp://canary1:canary2@mail.example"+to+query)
		conn, err := net.Dial("tcp", badServer(t, s.serve))
		must.Do(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), attemptMax)
		a := &attempt{c: c, ctx: ctx}
		if err := a.talk(conn, elsewhere, config, false, aMessage(Begun, Warning)); err == nil || reason(ctx, err, true) != errNoTLS.Error() || strings.Contains(s.said(), "AUTH") {
			t.Errorf("a password to another machine without TLS: %v\n%s", err, s.said())
		}
		cancel()
		_ = conn.Close()
	}
	if r := newClient("1", wrongRoots).send(t.Context(), targetOf(t, "smtp://"+badServer(t, (&mailServer{tls: wrong, offers: "STARTTLS", t: t}).serve)+to), aMessage(Begun, Warning)); r.Delivered || r.Reason != "the certificate is for another name" {
		t.Errorf("a certificate of another name: %+v", r)
	}
	for _, verb := range []string{"MAIL", "RCPT", "DATA", "AUTH"} {
		if r := send(&mailServer{tls: config, offers: "STARTTLS,AUTH PLAIN", refuses: verb}, "canary1:canary2@", ""); r.Delivered || r.Reason != "the mail server answered 550" {
			t.Errorf("%s refused: %+v", verb, r)
		}
	}
	t.Run("the_text", func(t *testing.T) {
		for _, name := range []string{"Larkspur Payments", hostile, strings.Repeat("ü", 60)} {
			s := &mailServer{tls: config, offers: "STARTTLS", t: t}
			m := aMessage(Ended, Problem)
			m.Instance = name
			m.Text += "\n.\nü . " + name
			target := targetOf(t, "smtp://"+badServer(t, s.serve)+to)
			if r := c.send(t.Context(), target, m); !r.Delivered {
				t.Fatalf("%+v", r)
			}
			got, err := mail.ReadMessage(strings.NewReader(s.text))
			must.Do(t, err)
			subject := must.Get(new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject")))(t)
			body := must.Get(io.ReadAll(quotedprintable.NewReader(got.Body)))(t)
			if subject != m.heading() || !strings.HasPrefix(subject, "[") || got.Header.Get("X-Evil") != "" || got.Header.Get("Auto-Submitted") != "auto-generated" || got.Header.Get("Message-ID") != "<alm_1@pay.example>" ||
				got.Header.Get("To") != "<a@b.example>, <c@d.example>" || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("headers %v", got.Header)
			}
			if at, err := got.Header.Date(); err != nil || time.Since(at).Abs() > time.Hour {
				t.Errorf("sent at %v, %v", at, err)
			}
			if want := strings.ReplaceAll(m.body(), "\r\n", "\n") + "\n"; strings.ReplaceAll(string(body), "\r\n", "\n") != want {
				t.Errorf("body %q, want %q", body, want)
			}
		}
	})
	t.Run("a_server_that_never_ends_its_answer", func(t *testing.T) {
		line := "250-" + strings.Repeat("canary ", 100) + "\r\n"
		host := badServer(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, "220 x\r\n")
			for range 1 << 20 {
				if _, err := io.WriteString(conn, line); err != nil {
					return
				}
			}
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := c.send(t.Context(), targetOf(t, "smtp://"+host+to), aMessage(Begun, Warning))
		runtime.ReadMemStats(&after)
		if r.Delivered || r.Reason != "the receiver closed the connection" {
			t.Errorf("%+v", r)
		}
		if more := after.TotalAlloc - before.TotalAlloc; more > 16<<20 {
			t.Errorf("it took %d bytes of memory", more)
		}
	})
	t.Run("a_server_that_hangs", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		host := badServer(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
		if r := c.send(ctx, targetOf(t, "smtp://"+host+to), aMessage(Begun, Warning)); r.Delivered || r.Reason != "no answer in time" || r.Took > 5*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

// TestMailOfDebian sends through a real mail server, in plain and through TLS from the first byte.
//
// Promise (Guard §7, §8, §9): a real mail server takes the mails; port 465 speaks TLS at once
func TestMailOfDebian(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	program, err := exec.LookPath("smtpd")
	must.Have(t, err == nil, "smtpd, which is in Debian's package opensmtpd")
	must.Have(t, os.Geteuid() == 0, "only root can start a mail server and use port 465")
	dir := must.ClosedDir(t)
	box := must.Get(os.MkdirTemp("", "mail"))(t) // where another user, who delivers, can reach it
	t.Cleanup(func() { _ = os.RemoveAll(box) })
	must.Do(t, os.Chmod(box, 0o777))
	_, port, _ := net.SplitHostPort(must.FreeAddress(t))
	hash := must.Get(exec.Command("smtpctl", "encrypt", "sesam").Output())(t)
	file := filepath.Join(dir, "smtpd.conf")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `table creds { ops = "%s" }
listen on 127.0.0.1 port %s hostname localhost
action "keep" mda "/bin/cat >> %s/%%{rcpt.user}" virtual { "@" = nobody }
match from any for any action "keep"
`, bytes.TrimSpace(hash), port, box), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-d", "-f", file)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 10*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	must.Do(t, cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	for tries := 0; ; tries++ {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			break
		}
		if tries > 500 {
			t.Fatalf("the mail server does not start: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	config, roots := certifiedFor(t, "127.0.0.2")
	front := must.Listen(t, "127.0.0.2:465")
	defer front.Close()
	go func() {
		for {
			conn, err := front.Accept()
			if err != nil {
				return
			}
			go func() {
				in := tls.Server(conn, config)
				defer in.Close()
				out, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	c := newClient("1", roots)
	for i, host := range []string{"127.0.0.1:" + port, "127.0.0.2:465"} {
		m := aMessage(Begun, Problem)
		m.ID, m.Instance = fmt.Sprint("alm_", i), "Lärkspur"
		if r := c.send(t.Context(), targetOf(t, "smtp://"+host+"/?from=alarms@pay.example&to=ops@b.example,dev@d.example"), m); !r.Delivered {
			t.Fatalf("%s: %+v", host, r)
		}
	}
	for _, user := range []string{"ops", "dev"} {
		var text string
		for range 6000 { // it delivers when it gets to it
			b, _ := os.ReadFile(filepath.Join(box, user))
			if text = string(b); strings.Count(text, "Next: look") == 2 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, want := range []string{"<alm_0@pay.example>", "<alm_1@pay.example>", "Subject: =?utf-8?q?[L=C3=A4rkspur]_Webhook_endpoint_disabled?=", "Auto-Submitted: auto-generated", "Next: look"} {
			if !strings.Contains(text, want) {
				t.Errorf("the mail of %s lacks %q:\n%s", user, want, text)
			}
		}
	}
}

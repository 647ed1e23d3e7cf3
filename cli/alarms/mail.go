package alarms

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"os"
	"strings"
	"time"
	"unicode"
)

// portTLS is the port on which a mail server speaks TLS from the first byte (RFC 8314 §3.3).
const portTLS = "465"

// replyError is a refusal of a mail server, by its code.
type replyError struct{ code int }

func (e *replyError) Error() string { return fmt.Sprintf("the mail server answered %d", e.code) }

// mail sends one mail to all recipients.
func (a *attempt) mail(t *Target, m Message) error {
	conn, err := (&net.Dialer{}).DialContext(a.ctx, "tcp", net.JoinHostPort(t.host, t.port))
	if err != nil {
		return err
	}
	defer conn.Close()
	end, _ := a.ctx.Deadline()
	if err := conn.SetDeadline(end); err != nil {
		return err
	}
	defer stopOn(a, conn)()
	conn = &boundedConn{Conn: conn, left: 2 * answerMax}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.host, RootCAs: a.c.roots}
	secure := t.port == portTLS && !t.plain
	if secure {
		conn = tls.Client(conn, config)
	}
	err = a.talk(conn, t, config, secure, m)
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return &replyError{reply.Code}
	}
	return err
}

// stopOn closes the connection when the attempt is cut. The caller calls what it returns.
func stopOn(a *attempt, conn net.Conn) func() {
	done := make(chan struct{})
	go func() {
		select {
		case <-a.ctx.Done():
			_ = conn.Close()
		case <-done:
		}
	}()
	return func() { close(done) }
}

func (a *attempt) talk(conn net.Conn, t *Target, config *tls.Config, secure bool, m Message) error {
	a.isConnected.Store(true)
	c, err := smtp.NewClient(conn, t.host)
	if err != nil {
		return err
	}
	if err := c.Hello(ownName()); err != nil {
		return err
	}
	if offered, _ := c.Extension("STARTTLS"); offered && !secure && !t.plain {
		if err := c.StartTLS(config); err != nil {
			return err
		}
		secure = true
	}
	if t.user != "" {
		if !secure && !t.isLoopback() {
			return errNoTLS
		}
		if err := c.Auth(&login{user: t.user, password: t.password}); err != nil {
			return err
		}
	}
	if err := c.Mail(t.from.Address); err != nil {
		return err
	}
	for _, to := range t.to {
		if err := c.Rcpt(to.Address); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(t.mailText(m, time.Now())); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the server has the mail
	return nil
}

// ownName is what the server calls itself.
func ownName() string {
	name, err := os.Hostname()
	if err != nil || name == "" || strings.ContainsFunc(name, func(c rune) bool { return c > unicode.MaxASCII || c <= ' ' }) {
		return "localhost"
	}
	return name
}

// mailText is a mail with its headers.
func (t *Target) mailText(m Message, now time.Time) []byte {
	var to []string
	for _, address := range t.to {
		to = append(to, address.String())
	}
	_, domain, _ := strings.Cut(t.from.Address, "@")
	body, encoding := []byte(m.body()+"\n"), "7bit"
	if !isASCII(m.body()) {
		var b bytes.Buffer
		w := quotedprintable.NewWriter(&b)
		_, _ = w.Write(body) // to memory
		_ = w.Close()
		body, encoding = b.Bytes(), "quoted-printable"
	}
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", t.from.String()},
		{"To", strings.Join(to, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", m.heading())},
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", "<" + m.ID + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", encoding},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII })
}

// login is AUTH PLAIN (RFC 4616), or LOGIN where a server has nothing else. The caller has made
// sure that the connection may carry a password.
type login struct {
	user, password string
	asked          int
}

func (l *login) Start(server *smtp.ServerInfo) (string, []byte, error) {
	for _, mechanism := range server.Auth {
		if strings.EqualFold(mechanism, "PLAIN") {
			return "PLAIN", []byte("\x00" + l.user + "\x00" + l.password), nil
		}
	}
	l.asked = 1
	return "LOGIN", nil, nil
}

func (l *login) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	switch l.asked++; l.asked {
	case 2:
		return []byte(l.user), nil
	case 3:
		return []byte(l.password), nil
	}
	return nil, errRefused
}

// boundedConn reads only so much, whatever a server sends.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

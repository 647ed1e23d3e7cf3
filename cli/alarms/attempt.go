package alarms

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The limits of an attempt.
const (
	attemptMax    = 15 * time.Second
	answerMax     = 64 << 10 // bytes, of an answer and of its headers
	answerWait    = time.Second
	retryAfterMax = time.Hour
)

// Result is how an attempt ended.
type Result struct {
	Delivered bool
	Status    int    // of HTTP; 0 without an answer
	Reason    string // why it was not delivered, in words of ours
	Took      time.Duration

	retryAfter time.Duration
}

// client makes attempts. It follows no redirect and takes no proxy from the environment.
type client struct {
	transport *http.Transport
	roots     *x509.CertPool // nil means the system's
	version   string
}

func newClient(version string, roots *x509.CertPool) *client {
	return &client{version: version, roots: roots, transport: &http.Transport{
		Proxy:                  nil,
		DisableKeepAlives:      true, // alarms are rare
		DisableCompression:     true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		MaxResponseHeaderBytes: answerMax,
	}}
}

var (
	errRefused = errors.New("the service refused it")
	errNoTLS   = errors.New("the mail server offers no TLS, so the password was not sent")
)

// statusError is an answer other than 2xx.
type statusError struct{ status int }

func (e statusError) Error() string {
	text := "status " + strconv.Itoa(e.status)
	if e.status >= 300 && e.status <= 399 {
		text += ", a redirect, which is not followed"
	}
	return text
}

// attempt is one attempt at a message.
type attempt struct {
	c          *client
	ctx        context.Context
	status     int
	retryAfter time.Duration

	isConnected atomic.Bool
}

// send makes one attempt.
func (c *client) send(ctx context.Context, t *Target, m Message) (r Result) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, attemptMax)
	defer cancel()
	a := &attempt{c: c, ctx: ctx}
	err := a.run(t, m)
	r = Result{Delivered: err == nil, Status: a.status, Took: time.Since(begun), retryAfter: a.retryAfter}
	if err != nil {
		r.Reason = reason(ctx, err, a.isConnected.Load())
	}
	return r
}

func (a *attempt) run(t *Target, m Message) error {
	switch {
	case t.to != nil:
		return a.mail(t, m)
	case t.service == nil:
		return a.matrix(t, m)
	}
	for _, s := range t.service(t, m) {
		if err := a.do(s); err != nil {
			return err
		}
	}
	return nil
}

// do makes one request.
func (a *attempt) do(s step) error {
	connected := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.isConnected.Store(true) }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(a.ctx, connected), s.method, s.url, bytes.NewReader(s.body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	r.Header = s.header
	r.Header.Set("User-Agent", "tollhouse-alarms/"+a.c.version)
	if s.contentType != "" {
		r.Header.Set("Content-Type", s.contentType)
	}
	answer, err := a.c.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	a.status = answer.StatusCode
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		a.retryAfter = retryAfter(answer.Header.Get("Retry-After"), time.Now())
		return statusError{answer.StatusCode}
	}
	body := readAnswer(answer.Body)
	if s.then != nil {
		return s.then(body)
	}
	return nil
}

// readAnswer reads the beginning of an answer. The status has already decided, so an answer that
// is cut off or too slow is no failure.
func readAnswer(body io.ReadCloser) []byte {
	slow := time.AfterFunc(answerWait, func() { _ = body.Close() })
	defer slow.Stop()
	text, _ := io.ReadAll(io.LimitReader(body, answerMax))
	return text
}

// retryAfter reads the header: seconds or a date (RFC 9110 §10.2.3).
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, retryAfterMax)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), retryAfterMax)
}

// reason says why an attempt failed. It repeats nothing of the URL or of the answer.
func reason(ctx context.Context, err error, isConnected bool) string {
	var status statusError
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var reply *replyError
	var timeout net.Error
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &reply):
		return reply.Error()
	case errors.Is(err, errRefused), errors.Is(err, errNoTLS):
		return err.Error()
	case errors.As(err, &dns):
		return "the host name does not resolve"
	case errors.As(err, &name):
		return "the certificate is for another name"
	case errors.As(err, &unknown):
		return "the certificate is not trusted"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "the certificate is not valid"
	case errors.As(err, &record):
		return "the receiver does not speak TLS"
	case errors.As(err, &alert):
		return "the receiver refused the TLS handshake"
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), strings.Contains(err.Error(), "server closed idle connection"):
		return "the receiver closed the connection"
	case isConnected:
		return "the answer is not valid"
	}
	return "no connection"
}

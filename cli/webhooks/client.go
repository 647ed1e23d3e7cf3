package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"tollhouse/store/webhook/target"
)

// Outcome says how an attempt ended.
type Outcome string

// Outcomes are all of them.
var Outcomes = []Outcome{Accepted, Refused, DNS, Connect, TLS, Timeout, AddressNotAllowed, Response, Reset}

// The outcomes. All but the first two mean that there was no answer.
const (
	Accepted Outcome = "accepted" // a status from 200 to 299
	Refused  Outcome = "refused"  // another status

	DNS               Outcome = "dns"
	Connect           Outcome = "connect"
	TLS               Outcome = "tls"
	Timeout           Outcome = "timeout"
	AddressNotAllowed Outcome = "address_not_allowed"
	Response          Outcome = "response" // that is not HTTP, or too large
	Reset             Outcome = "reset"    // of the connection, before an answer
)

// Answer is the result of an attempt.
type Answer struct {
	Outcome    Outcome
	Detail     string        // why there is no answer, or ""
	Status     int           // 0 without an answer
	Redirect   string        // what to do about a redirect, or ""
	Body       string        // the beginning of a failed answer as printable text
	RetryAfter time.Duration // 0 if the receiver asked for none
	Took       time.Duration
}

// Silent reports whether the failure is the receiver's and says nothing about the event:
// no answer, or one that asks to try again later.
func (a Answer) Silent() bool {
	switch a.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return a.Outcome != Accepted && a.Outcome != Refused
}

// ClientOptions configure a [Client].
type ClientOptions struct {
	Rules    *target.Rules
	Timeout  time.Duration // of a whole attempt
	Proxy    *url.URL      // through which all requests go, or nil
	Roots    *x509.CertPool
	Resolver Resolver // nil means that of the system
	// ShowAllowed also shows the answers of hosts that only the rules allow.
	ShowAllowed bool
	Version     string
}

// Client sends messages. It follows no redirect, keeps no cookie, and takes no proxy from
// the environment.
type Client struct {
	o ClientOptions
}

// NewClient returns a Client.
func NewClient(o ClientOptions) *Client {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return &Client{o: o}
}

// The limits of the connections to one endpoint and of an answer.
const (
	idleConnections = 2
	idleMax         = 90 * time.Second
	headerBytesMax  = 64 << 10
	bodyBytesMax    = 64 << 10
	bodyShownMax    = 256         // bytes
	bodyReadMax     = time.Second // for a body after the headers of an answer
)

// NewConnections returns the connections of one endpoint. The caller closes them with
// CloseIdleConnections.
func (c *Client) NewConnections() *http.Transport {
	t := &http.Transport{
		Proxy:                  nil,
		DialContext:            (&guard{rules: c.o.Rules, resolver: c.o.Resolver}).dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.o.Roots},
		TLSHandshakeTimeout:    c.o.Timeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleMax,
		MaxResponseHeaderBytes: headerBytesMax,
	}
	if c.o.Proxy != nil {
		t.Proxy = http.ProxyURL(c.o.Proxy)
		t.DialContext = dialProxy
		t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
			if answer.StatusCode != http.StatusOK {
				return &dialError{outcome: Connect, detail: "the proxy answered " + strconv.Itoa(answer.StatusCode)}
			}
			return nil
		}
	}
	return t
}

// dialProxy connects to the proxy, whose address is the operator's choice.
func dialProxy(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := withAttempt(ctx)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, &dialError{outcome: Connect, detail: cmp.Or(reason(err), lookupReason(err)), err: err}
	}
	return conn, nil
}

// Send makes one attempt. It returns an error only when ctx is done before the attempt is;
// then it is unknown whether the receiver has the message.
func (c *Client) Send(ctx context.Context, over *http.Transport, m *Message) (a Answer, err error) {
	begun := time.Now()
	defer func() { a.Took = time.Since(begun) }()
	// The rules may have changed since the URL was stored, and a proxy sees only the name.
	if _, err := c.o.Rules.ParseURL(m.URL); err != nil {
		return Answer{Outcome: AddressNotAllowed}, nil
	}
	m.Version = c.o.Version
	attempt, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	var p progress
	r, err := m.Request(context.WithValue(httptrace.WithClientTrace(attempt, p.trace()), attemptKey{}, attempt))
	if err != nil {
		return Answer{Outcome: Response}, nil
	}
	answer, err := over.RoundTrip(r)
	if err != nil {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if attempt.Err() != nil {
			return Answer{Outcome: Timeout, Detail: p.missing()}, nil
		}
		return p.judge(err, c.o.Proxy != nil), nil
	}
	a.Status = answer.StatusCode
	if a.Status >= 200 && a.Status <= 299 {
		a.Outcome = Accepted
		readBody(answer, cancel, nil)
		return a, nil
	}
	a.Outcome = Refused
	a.RetryAfter = retryAfter(answer.Header.Get("Retry-After"), time.Now())
	shown := c.o.ShowAllowed || !c.o.Rules.LetsIn(r.URL.Hostname(), c.address(r.URL.Hostname(), &p))
	if a.Status >= 300 && a.Status <= 399 {
		a.Redirect = redirectText(answer, shown)
	}
	var body strings.Builder
	readBody(answer, cancel, &body)
	if shown {
		a.Body = printable(body.String())
	}
	return a, nil
}

// address returns the address that answered, or that of a literal behind a proxy.
func (c *Client) address(host string, p *progress) netip.Addr {
	if remote := p.remote.Load(); c.o.Proxy == nil && remote != nil {
		return *remote
	}
	a, _ := netip.ParseAddr(host)
	return a
}

// progress says how far an attempt got. The transport may report from other goroutines.
type progress struct {
	handshake, connected atomic.Bool
	remote               atomic.Pointer[netip.Addr]
}

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		TLSHandshakeStart: func() { p.handshake.Store(true) },
		GotConn: func(i httptrace.GotConnInfo) {
			p.connected.Store(true)
			if remote, ok := i.Conn.RemoteAddr().(*net.TCPAddr); ok {
				a := remote.AddrPort().Addr()
				p.remote.Store(&a)
			}
		},
	}
}

// missing says what an attempt that took too long waited for.
func (p *progress) missing() string {
	switch {
	case p.connected.Load():
		return "no answer"
	case p.handshake.Load():
		return "no TLS handshake"
	}
	return "no connection"
}

// judge returns the result of an attempt that ended with err instead of an answer.
func (p *progress) judge(err error, proxied bool) Answer {
	a := Answer{Outcome: p.outcome(err)}
	var dial *dialError
	switch {
	case errors.As(err, &dial):
		a.Detail = dial.detail
	case a.Outcome == TLS:
		a.Detail = handshakeReason(err)
	case a.Outcome == Connect && proxied:
		a.Detail = "no answer from the proxy"
	case a.Outcome == Timeout:
		a.Detail = p.missing()
	}
	if isOfProxy(err) {
		a.Detail = strings.TrimSuffix("to the proxy: "+a.Detail, ": ")
	}
	return a
}

func (p *progress) outcome(err error) Outcome {
	var dial *dialError
	var timeout net.Error
	switch {
	case errors.As(err, &dial):
		return dial.outcome
	case errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case alert(err) != "", !p.connected.Load() && p.handshake.Load():
		return TLS
	case !p.connected.Load():
		return Connect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return Reset
	}
	return Response
}

// readBody reads the body, so that the connection can be reused, and copies its beginning
// to shown. The connection of a body that is too long or too slow is closed.
func readBody(answer *http.Response, cancel func(), shown *strings.Builder) {
	defer func() { _ = answer.Body.Close() }()
	if answer.Body == http.NoBody || answer.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	slow := time.AfterFunc(bodyReadMax, cancel)
	defer slow.Stop()
	if shown != nil {
		if _, err := io.CopyN(shown, answer.Body, bodyShownMax); err != nil {
			return
		}
	}
	_, _ = io.CopyN(io.Discard, answer.Body, bodyBytesMax-bodyShownMax)
}

// redirectText says where a redirect leads. Nothing follows it.
func redirectText(answer *http.Response, shown bool) string {
	location, err := answer.Location()
	if err != nil || !shown {
		return "redirects; update the URL"
	}
	return "redirects to " + printable(location.Host[:min(len(location.Host), bodyShownMax)]) + "; update the URL"
}

// printable returns text without what a terminal or a page might interpret.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "")))
}

// The bounds of Retry-After.
const (
	retryAfterMin = time.Second
	retryAfterMax = 24 * time.Hour
)

// retryAfter parses the header, seconds or a date (RFC 9110 §10.2.3), and returns the
// pause within its bounds, or 0 if there is none.
func retryAfter(text string, now time.Time) time.Duration {
	pause := retryAfterMax
	seconds, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
	case err == nil:
		pause = time.Duration(min(seconds, uint64(retryAfterMax/time.Second))) * time.Second
	default:
		at, err := http.ParseTime(text)
		if err != nil {
			return 0
		}
		pause = at.Sub(now)
	}
	return min(max(pause, retryAfterMin), retryAfterMax)
}

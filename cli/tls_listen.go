package cli

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tollhouse/handlers"
)

// newTLSConfig spells out what an attacker would like to have otherwise: nothing
// below TLS 1.2 (RFC 9325 §3.1.1), whatever GODEBUG says. The cipher suites are
// Go's, which follow what is known; its defaults have no RC4 and no 3DES.
func newTLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: get,
		NextProtos:     append([]string{"h2", "http/1.1"}, protocols...),
	}
}

// The limits of HTTP/2, where one connection carries many requests. Each has
// still its own deadlines, which the handlers move as they do over HTTP/1.1.
const (
	streamsMax        = 100       // at once; the least that RFC 9113 §6.5.2 recommends
	connectionReceive = 256 << 10 // bytes of bodies that nobody has read yet
	streamReceive     = 64 << 10  // of one request; as large as a token request may be
	silenceMax        = 30 * time.Second
	pingWait          = 15 * time.Second
)

// newSecureServer is a server of TLS.
func newSecureServer(h http.Handler, c *tls.Config, log *slog.Logger) *http.Server {
	s := handlers.NewHTTPServer(h, log)
	s.TLSConfig = c
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          streamsMax,
		MaxReceiveBufferPerConnection: connectionReceive,
		MaxReceiveBufferPerStream:     streamReceive,
		// A reader of a stream who is gone without a word, and one who takes
		// nothing, give their connection back.
		SendPingTimeout:  silenceMax,
		PingTimeout:      pingWait,
		WriteByteTimeout: silenceMax,
	}
	return s
}

// publicListeners are the listeners with all that stands before their requests.
func (r *running) publicListeners() []net.Listener {
	var config *tls.Config
	if r.certificates != nil {
		config = r.certificates.config()
	}
	listeners := make([]net.Listener, len(r.listeners))
	for i, l := range r.listeners {
		if listeners[i] = r.visitors.through(l); config != nil {
			listeners[i] = tls.NewListener(listeners[i], config)
		}
	}
	return listeners
}

// publicServers are the servers of the public listeners and of that of plain http.
// Without TLS nothing listens for the second.
func (r *running) publicServers() (public, plain *http.Server) {
	if r.certificates == nil {
		return handlers.NewHTTPServer(r.server.Public(), r.log), handlers.NewHTTPServer(r.server.Plain(), r.log)
	}
	public = newSecureServer(r.server.Secure(), r.certificates.config(), r.log)
	if r.plain == nil {
		// Nor is the issuer told of a challenge that nobody would answer there.
		return public, handlers.NewHTTPServer(r.server.Plain(), r.log)
	}
	return public, handlers.NewHTTPServer(r.server.Challenged(r.certificates.plain), r.log)
}

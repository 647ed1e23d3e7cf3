package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tollhouse/cli/datadir"
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
	streamsMax        = 250                         // at once, however large --memory is; a Go server takes as many
	streamShare       = datadir.MemoryDefault / 100 // of --memory for each: 100 by default, as RFC 9113 §6.5.2 recommends
	connectionReceive = 64 << 10                    // bytes of bodies that nobody has read yet; the least that there can be
	streamReceive     = 16 << 10                    // of one request; most are far smaller
	silenceMax        = 30 * time.Second
	pingWait          = 15 * time.Second
)

// newTLSServer is a server of TLS.
func newTLSServer(h http.Handler, c *tls.Config, m datadir.Memory, log *slog.Logger) *http.Server {
	s := handlers.NewHTTPServer(h, log)
	s.TLSConfig = c
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          int(min(m/streamShare, streamsMax)),
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
		if listeners[i] = r.visitors.listener(l); config != nil {
			listeners[i] = tls.NewListener(listeners[i], config)
		}
	}
	return listeners
}

// publicServers are the servers of the public listeners and of that of plain http.
// Without TLS nothing listens for the second.
func (r *running) publicServers() (public, plain *http.Server) {
	plain = trackConnections(handlers.NewHTTPServer(r.server.Plain(), r.log))
	if r.certificates == nil {
		return trackConnections(handlers.NewHTTPServer(r.server.Public(), r.log)), plain
	}
	public = trackConnections(newTLSServer(r.server.Secure(), r.certificates.config(), r.memory, r.log))
	if r.plain == nil {
		// Nor is the issuer told of a challenge that nobody would answer there.
		return public, plain
	}
	plain.Handler = r.server.Challenged(r.certificates.plain)
	return public, plain
}

package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/handlers"
	"tollhouse/handlers/web"
)

// newTLSConfig sets TLS 1.2 as the minimum (RFC 9325 §3.1.1), whatever GODEBUG says. The
// cipher suites are Go's defaults, which have no RC4 and no 3DES.
func newTLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: get,
		NextProtos:     append([]string{"h2", "http/1.1"}, protocols...),
	}
}

// The limits of HTTP/2, where one connection carries many requests. Each request has its
// own deadlines, as over HTTP/1.1.
const (
	streamsMax        = 250                         // whatever --memory is; Go's own default
	streamShare       = datadir.MemoryDefault / 100 // of --memory for each: 100 by default, as RFC 9113 §6.5.2 recommends
	connectionReceive = 64 << 10                    // bytes of bodies not read yet; the least that HTTP/2 allows
	streamReceive     = 16 << 10                    // per request; most are far smaller
	silenceMax        = 30 * time.Second
	pingWait          = 15 * time.Second
)

// newTLSServer returns a server for TLS connections.
func newTLSServer(h http.Handler, c *tls.Config, m datadir.Memory, log *slog.Logger) *http.Server {
	s := web.NewHTTPServer(h, log)
	s.TLSConfig = c
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          int(min(m/streamShare, streamsMax)),
		MaxReceiveBufferPerConnection: connectionReceive,
		MaxReceiveBufferPerStream:     streamReceive,
		// Close the connections of peers that vanished or stopped reading.
		SendPingTimeout:  silenceMax,
		PingTimeout:      pingWait,
		WriteByteTimeout: silenceMax,
	}
	return s
}

// publicListeners returns the public listeners with the connection limit and TLS.
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

// publicServers returns the servers of the public listeners and of the plain http
// listener, which exists only with TLS.
func (r *running) publicServers() (public, plain *http.Server) {
	plain = trackConnections(web.NewHTTPServer(r.server().Site.Plain(), r.log))
	if r.certificates == nil {
		return trackConnections(web.NewHTTPServer(r.handler((*handlers.Server).Public), r.log)), plain
	}
	public = trackConnections(newTLSServer(r.server().Secure(), r.certificates.config(), r.memory, r.log))
	if r.plain == nil {
		// Without that listener, http-01 challenges must not be offered to the issuer.
		return public, plain
	}
	plain.Handler = r.server().Site.Challenged(r.certificates.plain)
	return public, plain
}

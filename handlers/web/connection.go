package web

import (
	"context"
	"net/netip"
)

// Connection is a request's connection. The listener may close one that waits for
// its peer, but not one that the server works for. Its methods may be called
// concurrently: HTTP/2 has several requests on one connection.
type Connection interface {
	Work() // a request came, or its peer has sent or taken data
	Rest() // the request is done, or waits for its peer
}

// WithConnection adds the connection to a context, for http.Server.ConnContext.
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey, c)
}

// NoConnection is for listeners that do not count.
type noConnection struct{}

func (noConnection) Work() {}

func (noConnection) Rest() {}

func connectionFrom(ctx context.Context) Connection {
	if c, ok := ctx.Value(connectionKey).(Connection); ok {
		return c
	}
	return noConnection{}
}

// TrustsProxy reports whether addr is a trusted proxy, which stands for many sources.
func (s *Site) TrustsProxy(addr netip.Addr) bool { return s.Proxies.IsTrusted(addr) }

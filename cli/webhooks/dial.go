package webhooks

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"tollhouse/store/webhook/target"
)

// Resolver looks up the addresses of a name, as [net.Resolver] does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// guard opens the connections to receivers. A name can lead to a public address when it is
// checked and to a private one when it is used, so each name is resolved once, and the
// connection goes to the very address that was checked. The check is repeated between
// creating the socket and connecting it, in case the code above errs.
type guard struct {
	rules    *target.Rules
	resolver Resolver
}

// dialError is the failure of an attempt before it had a connection.
type dialError struct {
	outcome Outcome
	detail  string // for people, or ""
	err     error
}

func (e *dialError) Error() string { return string(e.outcome) + ": " + e.detail }
func (e *dialError) Unwrap() error { return e.err }

// dialAddressMin is the time for each of several addresses of a name.
const dialAddressMin = 2 * time.Second

// dial connects to an address of the form host:port.
func (g *guard) dial(ctx context.Context, _, hostPort string) (net.Conn, error) {
	ctx, cancel := withAttempt(ctx)
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, &dialError{outcome: Connect, err: err}
	}
	addresses, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	hook := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return g.check(host, address)
	}}
	for i, a := range addresses {
		var conn net.Conn
		if conn, err = dialBefore(ctx, &hook, net.JoinHostPort(a.String(), port), len(addresses)-i); err == nil {
			return conn, nil
		}
	}
	var refused *target.Error
	var timeout net.Error
	switch {
	case errors.As(err, &refused):
		return nil, &dialError{outcome: AddressNotAllowed, err: err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, &dialError{outcome: Timeout, detail: "no connection", err: err}
	}
	return nil, &dialError{outcome: Connect, detail: reason(err), err: err}
}

// resolve returns the addresses of a host if all of them are allowed. If only one of them
// is refused, none is used: the owner of a name could otherwise try them all.
func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addresses := make([]netip.Addr, 1)
	var err error
	if addresses[0], err = netip.ParseAddr(host); err != nil {
		if addresses, err = g.resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, &dialError{outcome: DNS, detail: lookupReason(err), err: err}
		}
	}
	if len(addresses) == 0 {
		return nil, &dialError{outcome: DNS, detail: "no address"}
	}
	for _, a := range addresses {
		if err := g.rules.CheckAddress(host, a); err != nil {
			return nil, &dialError{outcome: AddressNotAllowed, err: err}
		}
	}
	return addresses, nil
}

// check checks the address of a socket that is about to connect.
func (g *guard) check(host, address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return &target.Error{Code: target.AddressNotAllowed, Reason: "the address of the socket is unknown"}
	}
	return g.rules.CheckAddress(host, a.Addr())
}

// dialBefore connects within a fair share of the time that ctx leaves for that many addresses.
func dialBefore(ctx context.Context, d *net.Dialer, address string, left int) (net.Conn, error) {
	if end, found := ctx.Deadline(); found && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(end)/time.Duration(left), dialAddressMin))
		defer cancel()
	}
	return d.DialContext(ctx, "tcp", address)
}

// attemptKey carries the context of an attempt in that of its request. The transport
// dials independently of the request, so that another request may use the connection; but
// the dialling of an attempt that is cut must stop with it.
type attemptKey struct{}

func withAttempt(ctx context.Context) (context.Context, context.CancelFunc) {
	attempt, ok := ctx.Value(attemptKey{}).(context.Context)
	if !ok {
		attempt = ctx
	}
	return context.WithCancel(attempt)
}

// OwnAddresses returns the addresses of this machine's interfaces.
func OwnAddresses() ([]netip.Addr, error) {
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, n := range networks {
		if n, ok := n.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, a.Unmap())
			}
		}
	}
	return own, nil
}

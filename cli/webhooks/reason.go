package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Why there was no answer, in our own words: the text of an error may contain addresses, the name
// of a proxy or its password.

var reasons = []struct {
	err  error
	text string
}{
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.EHOSTUNREACH, "no route to the host"},
	{syscall.ENETUNREACH, "network unreachable"},
	{syscall.ECONNRESET, "connection reset"},
	{syscall.ETIMEDOUT, "no connection in time"},
	{context.DeadlineExceeded, "no connection in time"},
	{io.EOF, "connection closed"},
	{io.ErrUnexpectedEOF, "connection closed"},
}

// reason says why no connection could be opened, or "".
func reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return ""
}

// lookupReason says why a name has no address.
func lookupReason(err error) string {
	var failed *net.DNSError
	switch {
	case !errors.As(err, &failed):
		return ""
	case failed.IsNotFound:
		return "no such host"
	case failed.IsTimeout:
		return "no answer from the name server"
	}
	return "the name server failed"
}

// handshakeReason says why a TLS handshake failed, or "".
func handshakeReason(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		other   x509.HostnameError
		invalid x509.CertificateInvalidError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "certificate signed by an unknown authority"
	case errors.As(err, &other):
		return "certificate for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "certificate expired or not yet valid"
	case errors.As(err, &invalid):
		return "certificate not valid"
	case errors.As(err, &plain):
		return "the server does not speak TLS"
	}
	return cmp.Or(alert(err), reason(err))
}

// alert returns the alert with which the receiver closed a connection (RFC 8446 §6), or "".
// One may arrive after the handshake: that a certificate of the client is missing.
func alert(err error) string {
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return strings.TrimPrefix(remote.Err.Error(), "tls: ")
	}
	return ""
}

// isOfProxy reports whether the connection to the proxy failed, not the one through it.
func isOfProxy(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "proxyconnect"
}

package pgtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"

	"github.com/jackc/pgx/v5"
)

// Authority issues certificates for tests.
type Authority struct {
	PEM  []byte // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority that nobody trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: must.Get(ecdsa.GenerateKey(elliptic.P256(), nil))(t)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "an authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(nil, a.cert, a.cert, a.key.Public(), a.key))(t)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Issue returns a certificate and its key, in PEM, for a host or a role.
func (a *Authority) Issue(t testing.TB, name string) (cert, key []byte) {
	t.Helper()
	own := must.Get(ecdsa.GenerateKey(elliptic.P256(), nil))(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{name}
	}
	der := must.Get(x509.CreateCertificate(nil, c, a.cert, own.Public(), a.key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(own))(t)})
}

// NewTLS starts a server that also listens on TCP at 127.0.0.1, with a certificate of a.
func NewTLS(t testing.TB, a *Authority, settings ...string) *Server {
	t.Helper()
	_, port, _ := net.SplitHostPort(must.FreeAddress(t))
	s := start(t, port, append([]string{"listen_addresses = '127.0.0.1'"}, settings...)...)
	s.UseAuthority(t, a, "127.0.0.1")
	return s
}

// UseAuthority gives the server a certificate of a for a host, and makes it trust the client
// certificates of a.
func (s *Server) UseAuthority(t testing.TB, a *Authority, host string) {
	t.Helper()
	cert, key := a.Issue(t, host)
	s.write(t, "server.crt", cert)
	s.write(t, "server.key", key)
	s.write(t, "root.crt", a.PEM)
	s.Exec(t, s.DSN("postgres"), "alter system set ssl_ca_file = 'root.crt'")
	s.Exec(t, s.DSN("postgres"), "alter system set ssl = on")
	s.reload(t)
}

// Access puts lines before those of pg_hba.conf, which trust everyone at the socket and on
// this machine.
func (s *Server) Access(t testing.TB, lines ...string) {
	t.Helper()
	rest := must.Get(os.ReadFile(filepath.Join(s.data(), "pg_hba.conf")))(t)
	s.write(t, "pg_hba.conf", []byte(strings.Join(lines, "\n")+"\n"+string(rest)))
	s.reload(t)
}

// Address returns the host and the port of a server of [NewTLS].
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", s.port) }

// write writes a file of the data directory as the server's user.
func (s *Server) write(t testing.TB, name string, text []byte) {
	t.Helper()
	path := filepath.Join(s.data(), name)
	must.Do(t, os.WriteFile(path, text, 0o600))
	if s.asUser != nil {
		must.Do(t, os.Chown(path, int(s.asUser.Uid), int(s.asUser.Gid)))
	}
}

// reload makes the server read its files, and waits until new connections are judged by them.
func (s *Server) reload(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var before, after time.Time
	loaded := func(at *time.Time, also string) {
		conn := must.Get(pgx.Connect(ctx, s.DSN("postgres")))(t)
		defer conn.Close(ctx)
		must.Do(t, conn.QueryRow(ctx, "select pg_conf_load_time()"+also).Scan(at))
	}
	loaded(&before, " from pg_reload_conf()")
	for loaded(&after, ""); !after.After(before); loaded(&after, "") {
		time.Sleep(5 * time.Millisecond)
	}
}

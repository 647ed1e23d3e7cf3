package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// serve terminates TLS with a certificate from files, which it reloads when they change,
// or with one that it gets and renews by ACME. This file has the settings of both and
// the certificate's status; the listeners are in tls_listen.go. A plain http listener
// may redirect to https.

// tlsFlags are the TLS settings of serve.
type tlsFlags struct {
	mode, cert, key string
	directory, ca   string
	redirect        string
}

const (
	tlsOff   = "off"
	tlsAuto  = "auto"
	tlsFiles = "files"
)

func (f *tlsFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.mode, "tls", tlsOff, "off, auto (a certificate by ACME) or files; the default is files if --tls-cert or --tls-key is given")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM `file` with the certificate and its chain; reloaded when it changes")
	flags.StringVar(&f.key, "tls-key", "", "PEM `file` with the private key of the certificate")
	flags.StringVar(&f.directory, "acme-directory", autocert.DefaultACMEDirectory, "`URL` of the ACME directory that issues the certificate; by using it you agree to its terms")
	flags.StringVar(&f.ca, "acme-ca", "", "PEM `file` with the CAs to trust for the ACME directory (default: those of the system)")
	flags.StringVar(&f.redirect, "http-redirect", "", "`address` of a plain http listener that redirects to https and answers ACME challenges")
}

// inferMode returns the TLS mode: files if files are given without a mode.
// Our choice: --tls off overrides all other TLS settings, so that one flag is enough to
// start without TLS in an environment that configures it.
func inferMode(flags *pflag.FlagSet) (mode string) {
	named := flags.Lookup("tls-cert").Value.String() + flags.Lookup("tls-key").Value.String()
	f := flags.Lookup("tls")
	if !f.Changed && named != "" {
		_ = f.Value.Set(tlsFiles) // a string takes every value
	}
	return f.Value.String()
}

func (f *tlsFlags) on() bool { return f.mode != tlsOff }

// check refuses settings that contradict each other. It returns the host that the
// certificate must be valid for, or "" if any will do.
func (f *tlsFlags) check(flags *pflag.FlagSet, c serverConfig) (host string, err error) {
	switch f.mode {
	case tlsOff:
		if flags.Changed("tls") {
			f.redirect = ""
			return "", nil
		}
	case tlsFiles:
		if f.cert == "" || f.key == "" {
			return "", term.Usage("give the certificate with --tls-cert and its private key with --tls-key", "--tls files needs two files")
		}
	case tlsAuto:
		if f.cert != "" || f.key != "" {
			return "", term.Usage("leave them out, or use --tls files", "--tls auto gets its certificate by ACME and cannot use --tls-cert or --tls-key")
		}
	default:
		return "", term.Usage("give off, auto or files", "--tls %q is not valid", f.mode)
	}
	for _, name := range []string{"acme-directory", "acme-ca"} {
		if f.mode != tlsAuto && flags.Changed(name) {
			return "", term.Usage("add --tls auto, or leave it out", "--%s needs --tls auto", name)
		}
	}
	if err := f.checkRedirect(c); err != nil || !f.on() {
		return "", err
	}
	if c.publicURL != nil && c.publicURL.Scheme != "https" {
		return "", term.Fail(term.ExitConfig, "write it as https://"+c.publicURL.Host+c.publicURL.Path+", or use --tls off", "--public-url %s is plain http, but --tls %s serves https", c.publicURL, f.mode)
	}
	return f.host(c)
}

// host returns the host that the certificate must be valid for, or "" if any will do.
func (f *tlsFlags) host(c serverConfig) (string, error) {
	switch {
	case f.mode == tlsAuto:
		return acmeHost(c)
	case !f.on(), c.publicURL == nil, len(c.proxies) > 0: // a proxy may connect by another name than its clients use
		return "", nil
	}
	return c.publicURL.Hostname(), nil
}

// open returns the source of the certificate, or nil without TLS.
func (f *tlsFlags) open(host, version string, log *slog.Logger) (certificates, error) {
	switch f.mode {
	case tlsFiles:
		return openCertificateFiles(f.cert, f.key, host, log)
	case tlsAuto:
		return newACMECertificates(*f, host, version, log)
	}
	return nil, nil
}

func (f *tlsFlags) checkRedirect(c serverConfig) error {
	if f.redirect == "" {
		return nil
	}
	if !f.on() {
		return term.Usage("add --tls auto or --tls files; behind a TLS proxy, let the proxy redirect", "--http-redirect needs --tls, because this server does not serve https")
	}
	if err := checkAddress("http-redirect", f.redirect); err != nil {
		return err
	}
	if _, port, _ := net.SplitHostPort(f.redirect); port != "0" && slices.Contains(c.listen, f.redirect) {
		return term.Usage("give each a port of its own, such as 443 and 80", "--http-redirect %s is also the https listener", f.redirect)
	}
	return nil
}

// acmeHost returns the host name for the ACME certificate.
func acmeHost(c serverConfig) (string, error) {
	if c.publicURL == nil {
		return "", term.Fail(term.ExitConfig, "add --public-url https://…, the address that clients use", "--tls auto needs --public-url, which names the certificate's host")
	}
	given := c.publicURL.Hostname()
	host, err := idna.Lookup.ToASCII(given)
	if _, isAddress := netip.ParseAddr(given); err != nil || isAddress == nil || !strings.Contains(strings.Trim(host, "."), ".") {
		return "", term.Fail(term.ExitConfig, "give a full DNS name of this machine in --public-url, or use your own certificate with --tls files", "ACME cannot issue a certificate for %s", given)
	}
	return strings.TrimSuffix(host, "."), nil
}

// certificates is the source of the TLS certificate.
type certificates interface {
	config() *tls.Config
	status() admin.CertificateStatus
	// plain returns the handler of the plain http listener: the one given, or one that
	// also answers challenges.
	plain(http.Handler) http.Handler
	// reload reads the certificate again, if it comes from files.
	reload()
	// rename says that the certificate must be valid for another host, or with "" for any.
	rename(host string)
	// run keeps the certificate current until ctx is done.
	run(ctx context.Context)
}

// fillCertificate sets the fields of s that come from the certificate.
func fillCertificate(s *admin.CertificateStatus, leaf *x509.Certificate) {
	s.Names, s.NotBefore, s.Expires = namesOf(leaf), leaf.NotBefore.Unix(), leaf.NotAfter.Unix()
}

// A certificate is late for renewal when less than a quarter of its lifetime and less
// than these days are left, as in docs/alerts.yml. ACME clients usually renew when a
// third is left, whether the lifetime is a year or six days.
const (
	certificateSoonPart = 4
	certificateSoonMost = 14 * 24 * time.Hour
)

// isCertificateLate reports whether the certificate should have been renewed by now.
func isCertificateLate(s admin.CertificateStatus, now time.Time) bool {
	// In seconds: a certificate until the year 9999 exceeds a Duration.
	lives, left := s.Expires-s.NotBefore, s.Expires-now.Unix()
	return left < min(lives/certificateSoonPart, int64(certificateSoonMost.Seconds()))
}

func describeCertificate(s admin.CertificateStatus, now time.Time) string {
	names := strings.Join(s.Names, ", ")
	text := "none yet for " + names
	if s.Expires != 0 {
		text = fmt.Sprintf("%s, until %s (%s)", names, term.ShowTime(s.Expires), showDays(s.Expires-now.Unix()))
	}
	text += ", from " + map[string]string{tlsFiles: "files", sourceACME: "ACME"}[s.Source]
	switch {
	case s.Problem != "":
		text += ": " + s.Problem
	case s.Expires > now.Unix() && isCertificateLate(s, now):
		text += ": it should have been renewed"
	}
	return text
}

func showDays(leftSeconds int64) string {
	switch days := leftSeconds / (24 * 60 * 60); {
	case leftSeconds < 0:
		return "expired"
	case days == 0:
		return "less than a day"
	case days == 1:
		return "1 day"
	default:
		return fmt.Sprintf("%d days", days)
	}
}

const namesShown = 8

// namesOf returns the names and addresses of a certificate.
func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = []string{"no name"}
	}
	return names[:min(len(names), namesShown)]
}

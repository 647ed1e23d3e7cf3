package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

const publicTimeout = 3 * time.Second // for an answer from the public address

// CheckAddress sends requests to the server's public address and reports whether this
// server answers there, as far as this machine can see.
func CheckAddress(ctx context.Context, address string) admin.Finding {
	const check = "address"
	ctx, cancel := context.WithTimeout(ctx, publicTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy from the environment
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var metadata struct {
		Issuer string `json:"issuer"`
	}
	// Health is answered under any Host; the metadata only under the right one.
	for _, path := range []string{"/healthz", "/.well-known/oauth-authorization-server"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			return problemOf(check, "correct --public-url", "%s is not a URL: %v", address, err)
		}
		answer, err := client.Do(req)
		if err != nil {
			return unreachable(check, address, err)
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || err != nil {
			return wrongAnswer(check, address+path, answer)
		}
		_ = json.Unmarshal(text, &metadata) // invalid JSON leaves the issuer empty
	}
	if metadata.Issuer != address {
		return problemOf(check, "check where the name and the proxy lead: curl -i "+term.ShellQuote(address+"/healthz"),
			"%s is another server: its issuer is %q", address, metadata.Issuer)
	}
	return allRight(check, "%s reaches this server", address)
}

// unreachable is the finding if the public address does not answer. That is only a
// warning: not every machine can reach itself by its public name.
func unreachable(check, address string, err error) admin.Finding {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	if errors.As(err, &unknown) {
		return warningOf(check, "if it comes from your own CA, make sure that clients trust it; otherwise get a certificate that they trust", "%s answers, but this machine does not trust its certificate: %v", address, err)
	}
	if errors.As(err, &wrongName) || errors.As(err, &invalid) || errors.As(err, &record) {
		return problemOf(check, "give the server or its proxy a certificate that clients trust", "%s answers, but clients will not trust its certificate: %v", address, err)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		err = errors.New("its name does not resolve here")
	}
	return warningOf(check, "try it from another machine: curl -i "+term.ShellQuote(address+"/healthz"), "%s does not answer from this machine: %v", address, term.SystemReason(err))
}

// wrongAnswer is the finding if the answer at the public address is not this server's.
func wrongAnswer(check, address string, answer *http.Response) admin.Finding {
	next := "check the proxy's configuration and log"
	switch {
	case answer.StatusCode == http.StatusMisdirectedRequest:
		next = "make the proxy pass on the Host header (nginx: proxy_set_header Host $http_host)"
	case answer.StatusCode == http.StatusNotFound:
		next = "make the proxy pass on the path unchanged, including the sub-path of --public-url"
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return problemOf(check, "set --public-url to the final address, or remove the redirect", "%s redirects to %s", address, answer.Header.Get("Location"))
	}
	return problemOf(check, next, "%s answers with status %d", address, answer.StatusCode)
}

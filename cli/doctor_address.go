package cli

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
)

const publicTimeout = 3 * time.Second // for an answer from the public address

// checkPublic asks the server by the address by which others reach it, as far as
// that can be done from here.
func checkPublic(ctx context.Context, address string) finding {
	const check = "address"
	ctx, cancel := context.WithTimeout(ctx, publicTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy of the environment's
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var metadata struct {
		Issuer string `json:"issuer"`
	}
	// Health is answered under any Host; the metadata only under the right one.
	for _, path := range []string{"/healthz", "/.well-known/oauth-authorization-server"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			return problemOf(check, "correct --public-url", "%s is no address: %v", address, err)
		}
		answer, err := client.Do(req)
		if err != nil {
			return unreachable(check, address, err)
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || err != nil {
			return misled(check, address+path, answer)
		}
		_ = json.Unmarshal(text, &metadata) // what is none has no issuer
	}
	if metadata.Issuer != address {
		return problemOf(check, "look where the name and the proxy lead: curl -i "+quoteForShell(address+"/healthz"),
			"at %s another server answers: its issuer is %q", address, metadata.Issuer)
	}
	return allRight(check, "%s leads here", address)
}

// unreachable is the finding when nothing answers at the public address. That is
// no problem by itself: not every machine reaches itself by its own public name.
func unreachable(check, address string, err error) finding {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	if errors.As(err, &unknown) {
		return warningOf(check, "if its issuer is your own, see that clients trust it; else get a certificate that they trust", "%s answers, and this machine does not trust it: %v", address, err)
	}
	if errors.As(err, &wrongName) || errors.As(err, &invalid) || errors.As(err, &record) {
		return problemOf(check, "give the server or its proxy a certificate that clients trust", "%s answers, and clients will not trust it: %v", address, err)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		err = errors.New("its name is not known here")
	}
	return warningOf(check, "ask from another machine: curl -i "+quoteForShell(address+"/healthz"), "%s does not answer when asked from here: %v", address, systemReason(err))
}

// misled is the finding when the public address answers otherwise than the server
// would.
func misled(check, address string, answer *http.Response) finding {
	next := "look at the proxy's configuration and log"
	switch {
	case answer.StatusCode == http.StatusMisdirectedRequest:
		next = "have the proxy pass the Host header on (nginx: proxy_set_header Host $host)"
	case answer.StatusCode == http.StatusNotFound:
		next = "have the proxy pass the path on as it came, the sub-path of --public-url too"
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return problemOf(check, "name the address itself with --public-url, or take the redirect away", "%s redirects to %s", address, answer.Header.Get("Location"))
	}
	return problemOf(check, next, "%s answers with status %d", address, answer.StatusCode)
}

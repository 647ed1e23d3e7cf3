package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"tollhouse/handlers"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// newTestACME returns an ACME client without a store, so an order for a certificate
// panics.
func newTestACME(t *testing.T) *acmeCertificates {
	t.Helper()
	a, err := newACMECertificates(tlsFlags{directory: "https://127.0.0.1:1/dir"}, "pay.example", "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Promise (TLS and proxies): ACME by tls-alpn-01 and http-01: fetched and renewed for one name,
// never on a stranger's handshake
func TestACMEHandshake(t *testing.T) {
	t.Parallel()
	t.Run("acme_a_handshake_for_another_name_starts_no_order", func(t *testing.T) {
		t.Parallel()
		a := newTestACME(t)
		close(a.first)
		for name, want := range map[string]error{
			"pay.example": errNoCertificate, "PAY.example.": errNoCertificate,
			"": errForeignName, "bank.example": errForeignName, "www.pay.example": errForeignName, "pay.example.bank.example": errForeignName,
		} {
			hello := &tls.ClientHelloInfo{ServerName: name, SupportedProtos: []string{"h2", "http/1.1"}}
			if cert, err := a.certificate(hello); cert != nil || !errors.Is(err, want) {
				t.Errorf("certificate for %q = %v, want %v", name, err, want)
			}
		}
		if s := a.status(); s.Expires != 0 || s.Names[0] != "pay.example" {
			t.Errorf("status = %+v, want none for pay.example", s)
		}
	})
	t.Run("challenges_are_answered_for_our_name_on_any_port", func(t *testing.T) {
		t.Parallel()
		a := newTestACME(t)
		for host, want := range map[string]bool{"pay.example": true, "pay.example:5002": true, "Pay.Example": true, "bank.example": false, "bank.example:80": false, "": false, "[::1]:80": false} {
			if err := a.policy(t.Context(), host); (err == nil) != want {
				t.Errorf("policy(%q) = %v, want one that allows: %v", host, err, want)
			}
		}
	})
	t.Run("acme_the_answer_to_a_challenge_has_a_request_id_and_a_line_in_the_log", func(t *testing.T) {
		t.Parallel()
		f, log := storetest.New(t), &testLog{}
		a := newTestACME(t)
		a.useStore(f.Store)
		a.cache.log = slog.New(slog.NewTextHandler(log, nil))
		const path = "/.well-known/acme-challenge/asked"
		if err := a.cache.Put(t.Context(), "asked+http-01", []byte("for")); err != nil { // as autocert keeps it
			t.Fatal(err)
		}
		public := &url.URL{Scheme: "https", Host: "pay.example"}
		server := handlers.New(handlers.Config{Store: f.Store, Key: f.Key, PublicURL: public, Log: a.cache.log, Version: "test"})
		plain := server.Site.Challenged(a.plain)
		for _, c := range []struct {
			path, host, body string
			want             int
		}{
			{path, "pay.example", "for", http.StatusOK},
			{"/.well-known/acme-challenge/other", "pay.example", "", http.StatusNotFound},
			{path, "bank.example", "", http.StatusForbidden},
			{"/login", "bank.example", "", http.StatusPermanentRedirect},
		} {
			w, q := httptest.NewRecorder(), httptest.NewRequest("GET", c.path, nil)
			q.Host = c.host
			plain.ServeHTTP(w, q)
			id := w.Header().Get("X-Request-Id")
			if w.Code != c.want || c.body != "" && w.Body.String() != c.body || id == "" {
				t.Errorf("GET %s of %s = %d %q with request id %q, want %d %q with one", c.path, c.host, w.Code, w.Body, id, c.want, c.body)
			}
			if line := fmt.Sprintf("request_id=%s method=GET status=%d ", id, c.want); log.count(line) != 1 {
				t.Errorf("the log has no line %q, or more than one:\n%s", line, &log.text)
			}
		}
		if log.count("route=(challenge) ") != 3 || log.count(`route="(plain http)" `) != 1 || log.count("route=") != 4 {
			t.Errorf("the routes are not those of three challenges and one other:\n%s", &log.text)
		}
		if log.count("asked") > 0 {
			t.Errorf("the log has the path as the caller sent it: %s", &log.text)
		}
		for _, name := range []string{"asked+http-01", "asked"} {
			if _, err := f.FindCertificate(t.Context(), name); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("the store has a challenge under %q: %v", name, err)
			}
		}
	})
	t.Run("acme_a_certificate_that_the_store_refuses_is_used_anyway", func(t *testing.T) {
		t.Parallel()
		log := &testLog{}
		r := onDisk(t)
		c := &certificateCache{store: r.data().Store, log: slog.New(slog.NewTextHandler(log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // as good a reason to refuse as a full disk
		if err := c.Put(ctx, "pay.example", []byte("one")); err != nil || log.count("certificate not stored") != 1 {
			t.Errorf("Put() = %v with %d warnings, want none and one", err, log.count("certificate not stored"))
		}
		if got, err := c.Get(t.Context(), "pay.example"); string(got) != "one" {
			t.Errorf("Get() = %q, %v, want what was not kept", got, err)
		}
		must.Do(t, c.Put(t.Context(), "pay.example", []byte("two")))
		if got, err := c.Get(t.Context(), "pay.example"); string(got) != "two" {
			t.Errorf("Get() = %q, %v, want what was kept later", got, err)
		}
	})
	t.Run("a_stopped_server_orders_nothing_because_its_store_is_closed", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		c := &certificateCache{store: f.Store, log: slog.New(slog.DiscardHandler)}
		must.Do(t, f.DB.Close())
		if _, err := c.Get(t.Context(), "pay.example"); err == nil || errors.Is(err, autocert.ErrCacheMiss) {
			t.Errorf("Get() over a closed store = %v, want an error other than a cache miss", err)
		}
		if _, err := c.Get(t.Context(), "asked+http-01"); !errors.Is(err, autocert.ErrCacheMiss) {
			t.Errorf("Get() of an unknown challenge = %v, want a cache miss", err)
		}
	})
}

func TestACMEReasons(t *testing.T) {
	t.Parallel()
	const long = `{"status":"invalid","challenges":[{"type":"http-01","status":"pending"},{"type":"tls-alpn-01","error":{"type":"urn:ietf:params:acme:error:connection","detail":"nobody at 192.0.2.7:443"}}]}`
	for answer, want := range map[string]string{
		long:                                  "tls-alpn-01: nobody at 192.0.2.7:443",
		`{"status":"valid","challenges":[]}`:  "",
		`{"challenges":[{"type":"http-01"}]}`: "",
		`[]`:                                  "",
		`{`:                                   "",
		`{"challenges":[{"type":"dns-01","error":{"detail":"` + strings.Repeat("ä", 1000) + `"}}]}`: "dns-01: " + strings.Repeat("ä", acmeReasonMax-len("dns-01: ")),
	} {
		if got := failedChallenge([]byte(answer)); got != want {
			t.Errorf("failedChallenge(%.60s) = %q, want %q", answer, got, want)
		}
	}
	t.Run("the_response_is_passed_on_unchanged", func(t *testing.T) {
		t.Parallel()
		large := long + strings.Repeat(" ", acmeAnswerMax)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, large)
		}))
		t.Cleanup(s.Close)
		a := &acmeReasons{next: s.Client().Transport}
		answer := must.Get((&http.Client{Transport: a}).Get(s.URL))(t)
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != large {
			t.Errorf("%d bytes arrived, %v; want all %d", len(text), err, len(large))
		}
	})
	t.Run("the_last_reasons_are_kept_without_repeats", func(t *testing.T) {
		t.Parallel()
		a := &acmeReasons{}
		for _, reason := range []string{"old", "tls-alpn-01: a", "http-01: b", "http-01: b"} {
			a.note(reason)
		}
		if got := a.last(); got != "tls-alpn-01: a; http-01: b" {
			t.Errorf("reasons = %q, want the last two", got)
		}
		if a.forget(); a.last() != "" {
			t.Errorf("reasons = %q, want none", a.last())
		}
	})
}

func TestCertificateIsOverdue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1773070200, 0)
	leaf := &x509.Certificate{NotBefore: now, NotAfter: now.AddDate(0, 0, 90)}
	for days, want := range map[int]bool{0: false, 61: false, 67: false, 68: true, 89: true, 91: true} {
		if got := isOverdue(leaf, now.AddDate(0, 0, days)); got != want {
			t.Errorf("after %d of 90 days isOverdue = %v, want %v", days, got, want)
		}
	}
	// Of a year autocert renews when 30 days are left.
	year := &x509.Certificate{NotBefore: now, NotAfter: now.AddDate(1, 0, 0)}
	for left, want := range map[int]bool{31: false, 24: false, 22: true} {
		if got := isOverdue(year, year.NotAfter.AddDate(0, 0, -left)); got != want {
			t.Errorf("%d days before the end of a year isOverdue = %v, want %v", left, got, want)
		}
	}
}

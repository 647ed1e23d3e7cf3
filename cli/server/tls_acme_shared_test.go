package server

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"tollhouse/cli/server/certtest"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Any server may be asked for the answer to a challenge, and one of them orders.
func TestSharedCertificate(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	shared := func() *certificateCache {
		return &certificateCache{store: f.Store, shared: true, log: slog.New(slog.DiscardHandler)}
	}
	t.Run("a_challenge_is_known_to_all_servers_until_it_is_over", func(t *testing.T) {
		orders, other := shared(), shared()
		must.Do(t, orders.Put(t.Context(), "asked+http-01", []byte("for")))
		if got, err := other.Get(t.Context(), "asked+http-01"); string(got) != "for" {
			t.Errorf("Get() at another server = %q, %v, want the challenge", got, err)
		}
		must.Do(t, orders.Delete(t.Context(), "asked+http-01"))
		if got, err := other.Get(t.Context(), "asked+http-01"); !errors.Is(err, autocert.ErrCacheMiss) {
			t.Errorf("Get() at another server = %q, %v after it is over, want a cache miss", got, err)
		}
	})
	t.Run("a_server_without_the_job_waits_for_the_certificate", func(t *testing.T) {
		a := newTestACME(t) // its directory answers nothing
		a.useStore(f.Store)
		asked := make(chan bool, 1)
		a.share(func() bool {
			select {
			case asked <- true:
			default:
			}
			return false
		})
		go a.run(t.Context())
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Fatal("a server does not ask whether it may order")
		}
		if a.problem.Load() != nil {
			t.Error("a server without the job ordered a certificate")
		}
		now := time.Now()
		cert, key, err := certtest.Make(now.Add(-time.Hour), now.Add(80*24*time.Hour), "pay.example")
		must.Do(t, err)
		must.Do(t, shared().Put(t.Context(), "pay.example", append(key, cert...)))
		select {
		case <-a.first:
		case <-time.After(time.Minute):
			t.Fatal("the stored certificate is not used")
		}
		if _, err := a.current(); err != nil {
			t.Errorf("current() = %v, want the stored certificate", err)
		}
	})
	t.Run("one_that_has_expired_is_as_none", func(t *testing.T) {
		now := time.Now()
		cert, key, err := certtest.Make(now.Add(-2*time.Hour), now.Add(-time.Hour), "old.example")
		must.Do(t, err)
		must.Do(t, shared().Put(t.Context(), "old.example", append(key, cert...)))
		if shared().has(t.Context(), "old.example") {
			t.Error("has() = true for a certificate that has expired")
		}
	})
}

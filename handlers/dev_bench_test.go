package handlers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
)

// BenchmarkJournal reads events over HTTP with and without dev's journal. The client's
// work is part of both.
func BenchmarkJournal(b *testing.B) {
	for _, name := range []string{"serve", "dev"} {
		b.Run(name, func(b *testing.B) {
			h := newHouse(b, func(c *handlers.Config) {
				if name == "dev" {
					c.Dev = &dev.Controls{Clock: dev.NewClock(dev.ClockState{Own: true}), Faults: dev.NewFaults(), Journal: dev.NewJournal()}
				}
			})
			p := wantPair(b, h.token(b, h.passwordForm()))
			server := httptest.NewServer(h.public)
			defer server.Close()
			r, _ := http.NewRequestWithContext(b.Context(), "GET", server.URL+apiPath, nil)
			r.Host = "pay.example"
			r.Header.Set("Authorization", "Bearer "+p.AccessToken)
			b.ReportAllocs()
			for b.Loop() {
				res, err := server.Client().Do(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
}

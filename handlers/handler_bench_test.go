package handlers

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// BenchmarkHandler measures the whole public handler without a connection, including the
// log line, alternating with its two calls of the store: the excess over them is our own
// cost. It reports allocations too. BenchmarkEvents has the floors of a server.
//
//	go test -run xxx -bench Handler ./handlers
func BenchmarkHandler(b *testing.B) {
	a := serveAPI(b, storetest.OnDisk(b))
	a.server.Site.Log = slog.New(slog.NewJSONHandler(io.Discard, nil))
	const n = 10_000
	token := a.benchEvents(b, n)
	filter := eventlog.Filter{Types: []string{"customer.created"}, From: benchFirst + n/12, To: benchFirst + n/4, Limit: 100}
	list := fmt.Sprintf("/api/events?type=customer.created&limit=100&createdAt[between]=%d..%d", filter.From, filter.To)
	one := decodePage(b, a.get(list, token).Body.Bytes()).Data[0].ID

	ctx := context.Background()
	principal := func() {
		parsed, _ := secret.Parse(secret.AccessToken, token)
		must.Get(a.FindPrincipal(ctx, parsed))(b)
	}
	room := make([]byte, 0, 256<<10)
	for _, bench := range []struct {
		name, target string
		store        func() error
	}{
		{"PageByType", list, func() error { _, err := a.Events.ListEvents(ctx, "acct_bench", filter, room); return err }},
		{"Retrieve", "/api/events/" + one, func() error { _, err := a.Events.FindEvent(ctx, "acct_bench", one, room); return err }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ours := called(a.server.Public(), bench.target, token)
			alone := func() {
				principal()
				must.Do(b, bench.store())
			}
			var p storetest.Pairs
			for b.Loop() {
				p.Take(repeated(ours), repeated(alone))
			}
			p.Report(b, "requests", "store")
			b.ReportMetric(testing.AllocsPerRun(handlerTimed, ours), "allocs/request")
			b.ReportMetric(testing.AllocsPerRun(handlerTimed, alone), "allocs/store")
		})
	}
}

// handlerTimed is how many requests one piece of work serves.
const handlerTimed = 100

func repeated(call func()) storetest.Work {
	return storetest.Timed(func() {
		for range handlerTimed {
			call()
		}
	})
}

// called returns a call of the handler as from a loopback connection.
func called(h http.Handler, target, token string) func() {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40123"
	r.Header.Set("Authorization", "Bearer "+token)
	w := discarded{http.Header{}}
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// discarded is an answer without a reader.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header         { return d.header }
func (d discarded) WriteHeader(int)             {}
func (d discarded) Write(b []byte) (int, error) { return len(b), nil }

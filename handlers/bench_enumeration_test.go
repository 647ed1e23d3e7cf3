package handlers_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store/storetest"
)

// The least number of pairs: enough for the ratio of the medians to stay well within the
// permitted 5 %.
const (
	hashPairsMin = 200
	pairsMin     = 4000
)

// BenchmarkEnumeration times the requests of [TestEnumeration], but for those about tokens,
// through the whole router over a store on disk: for something unknown and for something
// foreign, alternating. The ratio of their medians must be within 5 % of one.
//
//	go test ./handlers -run '^$' -bench Enumeration -benchtime 1x
func BenchmarkEnumeration(b *testing.B) {
	for i, like := range populate(b, houseOnDisk(b)).timed() {
		b.Run(like.name, func(b *testing.B) {
			for j, ask := range like.asks[1:] {
				b.Run(ask.about, func(b *testing.B) {
					n := populate(b, houseOnDisk(b)) // with a clock and revocations of its own
					like := n.timed()[i]
					n.compare(b, like, like.asks[j+1])
				})
			}
		})
	}
}

// houseOnDisk is a house as in production: every commit synced, every request logged.
func houseOnDisk(t testing.TB) *house {
	t.Helper()
	h := &house{Fixture: storetest.OnDisk(t, storetest.FullHashes), account: "acct_larkspur"}
	h.open(h.Store, func(c *handlers.Config) { c.Log = slog.New(slog.NewJSONHandler(io.Discard, nil)) })
	h.client, h.secret = h.Client(t)
	h.user = h.User(t, "mara", h.account)
	return h
}

func (n *neighbourhood) compare(b *testing.B, like lookalike, known ask) {
	b.Helper()
	timed := func(a ask) storetest.Work {
		return func() time.Duration {
			r, w := a.send(b), httptest.NewRecorder()
			began := time.Now()
			n.public.ServeHTTP(w, r)
			took := time.Since(began)
			if w.Code != like.status {
				b.Fatalf("about %s: status = %d %.200s, want %d", a.about, w.Code, w.Body, like.status)
			}
			return took
		}
	}
	atLeast := pairsMin
	if like.hashes {
		atLeast = hashPairsMin
	}
	var pairs storetest.Pairs
	for b.Loop() {
		for range atLeast / 2 {
			if like.guesses {
				n.Clock.Advance(throttleForgets)
			}
			pairs.Take(timed(known), timed(like.asks[0]))
		}
	}
	pairs.Report(b, "known", "unknown")
}

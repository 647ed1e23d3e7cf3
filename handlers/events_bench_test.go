package handlers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The benchmarks of the events API over loopback, against two floors of the same server: a
// constant page of the same bytes, and an empty answer. Both figures of a ratio include
// the client's work.
//
//	go test -run xxx -bench Events ./handlers
func BenchmarkEvents(b *testing.B) {
	sizes := []int{10_000}
	if must.Long() {
		sizes = append(sizes, 1_000_000)
	}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) { benchEvents(b, n) })
	}
}

const benchEvent = `{"resource":"cus_%07d","type":"%s","eventData":{"object":{"id":"cus_%07d","object":"customer","customerRef":"LTR-%07d","displayName":"Larkspur Tea Room","company":"Larkspur Tea Room","firstName":"Odile","lastName":"Marchbanks","displayAs":"contact","address1":"18 Quarry Lane","address2":"","city":"Dunmere","state":"VT","zip":"05091","country":"US","phone":"8025550143","phoneExt":"","email":"odile@larkspurtea.example","dateAdded":"2026-03-09","notes":"asked to be reminded by telephone, never by letter, before each invoice","active":"1"},"previousAttributes":{"address1":"4 Mill Street","phone":"8025550107"}},"createdAt":%d}`

func benchEvents(b *testing.B, n int) {
	a := serveAPI(b, storetest.OnDisk(b))
	token := a.benchEvents(b, n)
	server := benchServer(b, a.server.Public())
	list := fmt.Sprintf("/api/events?type=customer.created&limit=100&createdAt[between]=%d..%d", benchFirst+n/12, benchFirst+n/4)
	page := fetch(b, server, list, token)
	one := decodePage(b, page).Data[0].ID

	router := httprouter.New()
	router.HandlerFunc(http.MethodGet, "/page", func(w http.ResponseWriter, _ *http.Request) {
		web.WriteBody(w, http.StatusOK, "application/json", page)
	})
	router.HandlerFunc(http.MethodGet, "/empty", func(http.ResponseWriter, *http.Request) {})
	floor := benchServer(b, router)
	constant, empty := timed(b, floor, "/page"), timed(b, floor, "/empty")

	for _, bench := range []struct {
		name, target string
		floor        time.Duration
	}{
		{"PageByType", list, constant},
		{"PageByTime", fmt.Sprintf("/api/events?limit=100&createdAt[lte]=%d", benchFirst+n/4), constant},
		{"PageByThreeTypes", list + "&type=customer.updated,customer.merged", constant},
		{"Retrieve", "/api/events/" + one, empty},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				fetch(b, server, bench.target, token)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(bench.floor), "×floor")
		})
	}
}

// benchFirst is the second of the first event.
const benchFirst = 1_770_000_000

// benchEvents records n events, cycling through four types, and returns a token that can
// read them.
func (a *apiHouse) benchEvents(b testing.TB, n int) (token string) {
	b.Helper()
	im := must.Get(a.Events.NewImporter("acct_bench", eventlog.ImportOptions{}))(b)
	ctx := context.Background()
	types := []string{"customer.created", "customer.updated", "customer.merged", "customer.activated"}
	for i := range n {
		if refused, err := im.Add(ctx, fmt.Appendf(nil, benchEvent, i%5000, types[i%4], i%5000, i, benchFirst+i/3), 0); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	return a.token(b, "harriet.voss", "acct_bench", store.ScopeUnstated)
}

func benchServer(b testing.TB, h http.Handler) *httptest.Server {
	b.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = web.NewHTTPServer(h, slog.New(slog.DiscardHandler))
	server.Start()
	b.Cleanup(server.Close)
	return server
}

func fetch(b testing.TB, server *httptest.Server, target, token string) []byte {
	b.Helper()
	r := must.Get(http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+target, nil))(b)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept-Encoding", "identity") // otherwise Go's client asks for gzip
	answer := must.Get(server.Client().Do(r))(b)
	defer answer.Body.Close()
	body := bytes.NewBuffer(make([]byte, 0, max(answer.ContentLength, 0)))
	if _, err := io.Copy(body, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatal(answer.StatusCode, body, err)
	}
	return body.Bytes()
}

// timed returns the time of one answer of a floor.
func timed(b *testing.B, server *httptest.Server, target string) time.Duration {
	b.Helper()
	fetch(b, server, target, "x")
	const rounds = 3000
	started := time.Now()
	for range rounds {
		fetch(b, server, target, "x")
	}
	took := time.Since(started) / rounds
	b.Logf("floor %s: %v", target, took)
	return took
}

func decodePage(b testing.TB, body []byte) eventPage {
	b.Helper()
	w := httptest.NewRecorder()
	_, _ = w.Write(body)
	return answer{w}.page(b)
}

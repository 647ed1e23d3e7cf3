package webhooks_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/cli/webhooks"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// The sender beside its floor, a bare loop of signed requests over one kept connection, in
// one run:
//
//	go test ./cli/webhooks -run '^$' -bench . -benchtime 20000x

// counter is a receiver that accepts everything and signals after n requests.
type counter struct {
	*receiver
	left atomic.Int64
	done chan struct{}
	seen func(id string)
}

func newCounter(t testing.TB) *counter {
	c := &counter{done: make(chan struct{}, 1), seen: func(string) {}}
	c.receiver = newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		c.seen(r.Header.Get("Webhook-Id"))
		w.WriteHeader(http.StatusNoContent)
		if c.left.Add(-1) == 0 {
			c.done <- struct{}{}
		}
	})
	return c
}

func sample(i int) eventlog.NewEvent {
	return eventlog.NewEvent{
		Owner: "acct_a", Type: "customer.updated", Resource: fmt.Sprintf("cus_%d", i%100), Source: "bench", Location: "api",
		Object: snapshot.ObjectOf(snapshot.Member{Name: "name", Value: snapshot.Text("Ada Lovelace")}, snapshot.Member{Name: "city", Value: snapshot.Text("London")}),
	}
}

// recordFast records n events by several writers, which share commits.
func recordFast(b testing.TB, s *storetest.Fixture, n int) {
	b.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				must.Get(s.Events.RecordEvent(context.Background(), sample(i)))(b)
			}
		})
	}
	all.Wait()
}

func onDisk(b testing.TB) *storetest.Fixture {
	return storetest.Open(b, storetest.EmptyOnDisk(b), storetest.NewClock())
}

func createFor(b testing.TB, s *storetest.Fixture, url string, set webhook.Settings) webhook.Endpoint {
	b.Helper()
	set.URL = url
	e, _, err := s.Webhooks.Create(b.Context(), webhook.System, "acct_a", set)
	must.Do(b, err)
	return e
}

func BenchmarkDelivery(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		c := newCounter(b)
		key := secret.NewWebhookSecret(nil)
		_, body, err := storetest.New(b).Events.Unrecorded(sample(1))
		must.Do(b, err)
		client := &http.Client{}
		b.ResetTimer()
		for range b.N {
			m := webhooks.Message{URL: c.URL, ID: "evt_01kk9kgb60000q39gc0zvtw0et", Body: body, Time: time.Now(), Secrets: []secret.Token{key}, Attempt: 1}
			r := must.Get(m.Request(context.Background()))(b)
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := must.Get(client.Do(r))(b)
			_ = answer.Body.Close()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	})
	for _, endpoints := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d_strict", endpoints), func(b *testing.B) {
			s, c := onDisk(b), newCounter(b)
			for i := range endpoints {
				createFor(b, s, fmt.Sprintf("%s/%d", c.URL, i), webhook.Settings{Types: []string{"customer.updated"}})
			}
			each := max(b.N/endpoints, 1)
			recordFast(b, s, each)
			c.left.Store(int64(each * endpoints))
			b.ResetTimer()
			_, stop := runStored(b, s)
			<-c.done
			b.StopTimer()
			stop()
			b.ReportMetric(float64(each*endpoints)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}

// BenchmarkLatency measures the time from the acknowledgement of an event to its arrival,
// at 50 events a second.
func BenchmarkLatency(b *testing.B) {
	s, c := onDisk(b), newCounter(b)
	createFor(b, s, c.URL, webhook.Settings{Types: []string{"customer.updated"}})
	var arrived sync.Map
	c.seen = func(id string) { arrived.Store(id, time.Now()) }
	runStored(b, s)
	c.left.Store(int64(b.N))
	acknowledged := map[string]time.Time{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	b.ResetTimer()
	for i := range b.N {
		<-tick.C
		id, _ := must.Get(snapshot.Parse(must.Get(s.Events.RecordEvent(b.Context(), sample(i)))(b), 8))(b).Member("id")
		acknowledged[id.Text()] = time.Now()
	}
	<-c.done
	var took []time.Duration
	for id, at := range acknowledged {
		when, _ := arrived.Load(id)
		took = append(took, when.(time.Time).Sub(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkWrites(b *testing.B) {
	for _, endpoints := range []int{0, 10} {
		b.Run(fmt.Sprintf("beside_%d_endpoints", endpoints), func(b *testing.B) {
			s, c := onDisk(b), newCounter(b)
			for i := range endpoints {
				createFor(b, s, fmt.Sprintf("%s/%d", c.URL, i), webhook.Settings{Types: []string{"customer.updated"}})
			}
			runStored(b, s)
			b.ResetTimer()
			recordFast(b, s, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkHanging measures an endpoint alone and beside 100 whose receivers hang.
func BenchmarkHanging(b *testing.B) {
	for _, hanging := range []int{0, 100} {
		b.Run(fmt.Sprintf("beside_%d", hanging), func(b *testing.B) {
			s, c := onDisk(b), newCounter(b)
			stuck := newReceiver(b, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			// They hang in accounts of their own, as an account has at most 50.
			for i := range hanging {
				_, _, err := s.Webhooks.Create(b.Context(), webhook.System, fmt.Sprintf("acct_%d", i/25), webhook.Settings{URL: fmt.Sprintf("%s/%d", stuck.URL, i)})
				must.Do(b, err)
			}
			createFor(b, s, c.URL, webhook.Settings{Types: []string{"customer.updated"}})
			_, stop := runWith(b, s, 64, 2*time.Second)
			for i := range 4 {
				e := sample(i)
				e.Owner = fmt.Sprintf("acct_%d", i)
				must.Get(s.Events.RecordEvent(b.Context(), e))(b)
			}
			time.Sleep(3 * time.Second) // they have failed once
			var took []time.Duration
			b.ResetTimer()
			for i := range b.N {
				c.left.Store(1)
				must.Get(s.Events.RecordEvent(b.Context(), sample(i)))(b)
				at := time.Now()
				<-c.done
				took = append(took, time.Since(at))
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			stop()
		})
	}
}

// BenchmarkIdle measures the memory of 10,000 endpoints without work.
func BenchmarkIdle(b *testing.B) {
	const endpoints = 10_000
	for range b.N {
		d := newDesk(answerAlways(accepted))
		for i := range endpoints {
			d.add(webhook.Strict, fmt.Sprintf("wep_%026d", i))
		}
		before := storetest.Heap()
		goroutines := runtime.NumGoroutine()
		_, stop := d.run(b)
		d.record(1)
		for d.answered() < endpoints {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3 * time.Second) // until the cursors are written
		b.ReportMetric(float64(storetest.Heap()-before)/endpoints, "B/endpoint")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		stop()
	}
}

func (d *desk) answered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.arrived)
}

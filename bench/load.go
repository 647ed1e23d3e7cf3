package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// scenario is one kind of request to one server, and what was measured of it.
type scenario struct {
	name       string
	server     *server
	durability string // what an answer promises to have kept
	floor      *scenario
	clients    int // 0 for the run's
	// client returns what one client does over and over. It is called once a
	// client and round; the function it returns makes one request.
	client func(hc *http.Client) (func() error, error)

	rounds []measured
}

type measured struct {
	perSecond float64
	p50, p99  time.Duration
	cpu       time.Duration // of the server, a request
}

// measure runs the scenario for one round.
func (sc *scenario) measure(s settings) error {
	clients := s.clients
	if sc.clients > 0 {
		clients = sc.clients
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer hc.CloseIdleConnections()
	steps := make([]func() error, clients)
	for i := range steps {
		step, err := sc.client(hc)
		if err != nil {
			return err
		}
		steps[i] = step
	}
	cpuBefore, err := sc.server.cpu()
	if err != nil {
		return err
	}
	started := time.Now()
	latencies, err := runClients(steps, started.Add(s.length))
	if err != nil {
		return err
	}
	took := time.Since(started)
	cpuAfter, err := sc.server.cpu()
	if err != nil {
		return err
	}
	if len(latencies) == 0 {
		return fmt.Errorf("no request was answered in %s", s.length)
	}
	slices.Sort(latencies)
	sc.rounds = append(sc.rounds, measured{
		perSecond: float64(len(latencies)) / took.Seconds(),
		p50:       latencies[len(latencies)/2],
		p99:       latencies[len(latencies)*99/100],
		cpu:       (cpuAfter - cpuBefore) / time.Duration(len(latencies)),
	})
	return nil
}

func runClients(steps []func() error, until time.Time) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	for _, step := range steps {
		wg.Go(func() {
			var mine []time.Duration
			var err error
			for err == nil {
				started := time.Now()
				if started.After(until) {
					break
				}
				err = step()
				mine = append(mine, time.Since(started))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if failed == nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return all, failed
}

// get returns a step that reads url and checks the status and the size.
func get(url, bearer string, sizeMin int64) func(*http.Client) (func() error, error) {
	return func(hc *http.Client) (func() error, error) {
		return func() error {
			r, err := http.NewRequest("GET", url, nil)
			if err != nil {
				return err
			}
			if bearer != "" {
				r.Header.Set("Authorization", "Bearer "+bearer)
			}
			size, err := send(hc, r)
			if err == nil && size < sizeMin {
				err = fmt.Errorf("an answer of %d bytes, at least %d expected", size, sizeMin)
			}
			return err
		}, nil
	}
}

func send(hc *http.Client, r *http.Request) (int64, error) {
	answer, err := hc.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	size, err := io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return size, err
}

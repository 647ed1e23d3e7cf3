package webhooks

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// While many events are recorded, deliveries leave most of the machine to the writers: they
// can catch up later, and a waiting write cannot.
const (
	busyWrites  = 1_000 // events a second
	busyWindow  = 100 * time.Millisecond
	busyPerCore = 1_100 // deliveries a second
	paceLeast   = 5 * time.Millisecond
)

// pace bounds the deliveries of all endpoints while many events are recorded.
type pace struct {
	mu        sync.Mutex
	since     time.Time // of the window in which events are counted
	recorded  uint64    // events at its start
	busyUntil time.Time
	next      time.Time // of the next delivery
}

// saw takes the number of events recorded so far, after some were recorded.
func (p *pace) saw(recorded uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	window := time.Since(p.since)
	if window < busyWindow {
		return
	}
	if rate := float64(recorded-p.recorded) / window.Seconds(); rate > busyWrites {
		p.busyUntil = time.Now().Add(2 * busyWindow)
	}
	p.since, p.recorded = time.Now(), recorded
}

// wait waits for the turn of a delivery.
func (p *pace) wait(ctx context.Context) {
	p.mu.Lock()
	now := time.Now()
	if now.After(p.busyUntil) {
		p.mu.Unlock()
		return
	}
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Second / time.Duration(busyPerCore*runtime.GOMAXPROCS(0)))
	ahead := p.next.Sub(now)
	p.mu.Unlock()
	if ahead < paceLeast {
		return
	}
	select {
	case <-time.After(ahead):
	case <-ctx.Done():
	}
}

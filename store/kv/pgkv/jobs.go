package pgkv

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Job is work that one server does for all. Its holder has an advisory lock, so that the
// job is free again when the holder's connection closes. Two holders would do the same work
// twice and damage nothing.
type Job string

// The jobs.
const (
	JobSweep Job = "sweep" // removes what is past its time
	JobCheck Job = "check" // reads everything once a day
	JobACME  Job = "acme"  // orders the certificate

	JobWebhooks Job = "webhooks" // sends events to webhook endpoints
	JobAlarm    Job = "alarm"    // sends alarms
)

var jobLocks = map[Job]int{JobSweep: lockJobs, JobCheck: lockJobs + 1, JobACME: lockJobs + 2, JobWebhooks: lockJobs + 3, JobAlarm: lockJobs + 4}

// jobsHeld are the jobs of this server.
type jobsHeld struct {
	mu      sync.Mutex
	held    map[Job]holding
	changed chan struct{} // closed at the next change
}

type holding struct {
	ctx  context.Context // done when the job is lost
	lose context.CancelFunc
}

func newJobsHeld() *jobsHeld {
	return &jobsHeld{held: map[Job]holding{}, changed: make(chan struct{})}
}

func (h *jobsHeld) list() []Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.held))
}

func (h *jobsHeld) of(job Job) (held holding, ok bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, ok = h.held[job]
	return held, ok, h.changed
}

func (h *jobsHeld) take(job Job) {
	ctx, lose := context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[job] = holding{ctx, lose}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *jobsHeld) loseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.held {
		held.lose()
	}
	clear(h.held)
	close(h.changed)
	h.changed = make(chan struct{})
}

// Holds reports whether this server has a job.
func (p *Presence) Holds(job Job) bool {
	_, ok, _ := p.jobs.of(job)
	return ok
}

// Do runs work whenever this server has the job, until ctx is done. The context of work
// is done when the job is lost; work must then return.
func (p *Presence) Do(ctx context.Context, job Job, work func(context.Context)) {
	for ctx.Err() == nil {
		held, ok, changed := p.jobs.of(job)
		if !ok {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		both, stop := context.WithCancel(ctx)
		unhook := context.AfterFunc(held.ctx, stop)
		work(both)
		unhook()
		stop()
		select {
		case <-held.ctx.Done():
		case <-ctx.Done():
		}
	}
}

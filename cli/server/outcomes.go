package server

import (
	"context"
	"strings"
	"sync"
	"time"

	"tollhouse/store"
)

// outcomes are how work on a schedule ended last: a backup, and the program after it. They are
// kept in the store too, so that a restart does not end a finding.
type outcomes struct {
	mu    sync.Mutex
	known map[string]*store.Failure // by the finding's check; nil after a success
}

// failureTextMax bounds what is kept of the reason, in bytes.
const failureTextMax = 1 << 10

// noteOutcome notes that work has ended, with an error or without. check is the finding's.
func (r *running) noteOutcome(ctx context.Context, check string, failed error) {
	o := &r.outcomes
	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.known[check]
	if failed == nil && known && before == nil {
		return
	}
	var f *store.Failure
	if failed != nil {
		f = &store.Failure{At: time.Now(), Text: failed.Error()}
		f.Text = strings.ToValidUTF8(f.Text[:min(len(f.Text), failureTextMax)], "")
	}
	if o.known == nil {
		o.known = map[string]*store.Failure{}
	}
	o.known[check] = f
	if err := r.data().Store.RecordOutcome(ctx, check, f); err != nil && ctx.Err() == nil {
		r.log.Warn("outcome not recorded in the store", "of", check, "err", err)
	}
}

// failureOf returns the last failure of such work, or nil if the last run succeeded.
func (r *running) failureOf(ctx context.Context, check string) (*store.Failure, error) {
	o := &r.outcomes
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, known := o.known[check]; known {
		return f, nil
	}
	return r.data().Store.LastFailure(ctx, check)
}

// failure is failureOf, also without a server.
func (u checkup) failure(ctx context.Context, check string) (*store.Failure, error) {
	if u.server != nil {
		return u.server.failureOf(ctx, check)
	}
	return u.data.Store.LastFailure(ctx, check)
}

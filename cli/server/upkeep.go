package server

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
)

const (
	watchAfter = time.Second    // delay of background work after the start
	checkEvery = 24 * time.Hour // between two checks of the stored data
	checkAgain = time.Minute    // after one that could not read everything
	trimEvery  = 24 * time.Hour // between two removals of old audit lines
	sweepEvery = time.Minute    // between two removals of expired records

	// retainEvery is the time between two removals of old events. For that long an event past
	// its retention may still be listed.
	retainEvery = time.Minute

	auditRetainDefault = 400 * 24 * time.Hour // a year, and some time to investigate
	auditRetainMin     = 24 * time.Hour
)

// lastCheck is a finished check of the stored data.
type lastCheck struct {
	ended time.Time
	took  time.Duration
}

// watch returns the memory that opening the store needed, and checks the stored data
// for damage soon after the start and then every day.
func (r *running) watch(ctx context.Context) {
	if term.Sleep(ctx, watchAfter) != nil {
		return
	}
	debug.FreeOSMemory()
	if r.presence == nil {
		r.checkDaily(ctx, 0)
		return
	}
	r.work.Go(func() {
		r.presence.Do(ctx, pgkv.JobCheck, func(ctx context.Context) {
			r.checkDaily(ctx, checkEvery-time.Since(r.presence.State().Checked))
		})
	})
	for { // a check on request needs no job
		select {
		case <-ctx.Done():
			return
		case <-r.search:
			r.check(ctx)
		}
	}
}

// checkDaily checks the stored data after first, then every day and when asked.
func (r *running) checkDaily(ctx context.Context, first time.Duration) {
	for wait := first; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.search:
		case <-time.After(wait):
		}
		if wait = checkEvery; !r.check(ctx) {
			wait = checkAgain
		}
	}
}

// check checks the stored data, and reports whether it has read all of it.
func (r *running) check(ctx context.Context) bool {
	r.checking.Lock()
	defer r.checking.Unlock()
	begun := time.Now()
	err := r.data().DB.Check(ctx)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !errors.Is(err, record.ErrCorrupt):
		r.log.Warn("store check failed", "err", err, "next_try", time.Now().Add(checkAgain))
		return false
	}
	r.checked.Store(&lastCheck{ended: time.Now(), took: time.Since(begun)})
	r.recordCheck(ctx, err)
	return true
}

// sweep removes expired records from a database, now and every minute. An engine on a disk
// does it by itself.
func (r *running) sweep(ctx context.Context) {
	db := r.data().DB.(*database.Engine)
	for {
		if _, err := db.Sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot remove expired records", "err", err)
		}
		if term.Sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}

// recordCheck makes the result of a complete check known to /readyz, status and metrics: damage,
// or nil.
func (r *running) recordCheck(ctx context.Context, damage error) {
	if damage != nil {
		r.log.Error("damage found in the store", "err", damage)
	}
	switch {
	case r.presence != nil:
		if err := r.presence.RecordCheck(ctx, damage); err != nil {
			r.log.Warn("cannot record the result of the store check", "err", err)
		}
	case damage != nil:
		r.damage.Store(&damage)
	default:
		if r.damage.Swap(nil) != nil {
			r.log.Info("store check passed: the damage found earlier is gone")
		}
	}
}

// onlyHere runs work that one server does for all: this one, or on a database the one that
// has the job.
func (r *running) onlyHere(ctx context.Context, job pgkv.Job, work func(context.Context)) {
	if r.presence == nil {
		work(ctx)
		return
	}
	r.presence.Do(ctx, job, work)
}

// trimAudit removes old lines of the audit record and old counts of requests, now and
// every day.
func (r *running) trimAudit(ctx context.Context) {
	for {
		kept, changed := r.auditRetain()
		before := r.data().Store.Now().Add(-kept)
		if err := r.data().Store.TrimAudit(ctx, before); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot remove old audit lines", "err", err)
		}
		if err := r.data().Store.Ring().Trim(ctx, before); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot remove old request counts", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(trimEvery):
		case <-changed:
		}
	}
}

// trimEvents removes events and entries of the feed past their retention, now and every
// minute.
func (r *running) trimEvents(ctx context.Context) {
	for {
		removed, err := r.data().Store.TrimEvents(ctx)
		if removed > 0 {
			r.log.Info("old events removed", "count", removed)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("cannot remove old events", "err", err)
		}
		if err == nil && r.presence == nil && r.data().Store.Events.Retention() == 0 && r.config.feed == 0 {
			return // it has removed what a feed left that was on before
		}
		if term.Sleep(ctx, retainEvery) != nil {
			return
		}
	}
}

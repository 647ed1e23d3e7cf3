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
	trimEvery  = 24 * time.Hour // between two removals of old audit lines
	sweepEvery = time.Minute    // between two removals of expired records

	// retainEvery is between two removals of old events. For that long an event past
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
	for wait := first; ; wait = checkEvery {
		select {
		case <-ctx.Done():
			return
		case <-r.search:
		case <-time.After(wait):
		}
		r.check(ctx)
	}
}

func (r *running) check(ctx context.Context) {
	r.checking.Lock()
	defer r.checking.Unlock()
	begun := time.Now()
	err := r.data().DB.Check(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case r.presence != nil && errors.Is(err, record.ErrUnavailable):
		r.log.Warn("store not checked", "err", err)
		return
	}
	r.checked.Store(&lastCheck{ended: time.Now(), took: time.Since(begun)})
	r.recordCheck(ctx, err)
}

// sweep removes expired records from a database, now and every minute. An engine on a disk
// does it by itself.
func (r *running) sweep(ctx context.Context) {
	db := r.data().DB.(*database.Engine)
	for {
		if _, err := db.Sweep(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("expired records not removed", "err", err)
		}
		if term.Sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}

// recordCheck makes damage at rest known to /readyz, status and metrics.
func (r *running) recordCheck(ctx context.Context, damage error) {
	if damage != nil {
		r.log.Error("damage found in the store", "err", damage)
	}
	switch {
	case r.presence != nil:
		if err := r.presence.RecordCheck(ctx, damage); err != nil {
			r.log.Warn("result of the check not stored", "err", err)
		}
	case damage != nil:
		r.damage.Store(&damage)
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
		before := r.data().Store.Now().Add(-r.config.auditRetain)
		if err := r.data().Store.TrimAudit(ctx, before); err != nil && ctx.Err() == nil {
			r.log.Warn("old audit lines not removed", "err", err)
		}
		if err := r.data().Store.Ring().Trim(ctx, before); err != nil && ctx.Err() == nil {
			r.log.Warn("old counts of requests not removed", "err", err)
		}
		if term.Sleep(ctx, trimEvery) != nil {
			return
		}
	}
}

// trimEvents removes events past their retention, now and every minute.
func (r *running) trimEvents(ctx context.Context) {
	if r.data().Store.Retention() == 0 {
		return
	}
	for {
		removed, err := r.data().Store.TrimEvents(ctx)
		if removed > 0 {
			r.log.Info("old events removed", "count", removed)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("old events not removed", "err", err)
		}
		if term.Sleep(ctx, retainEvery) != nil {
			return
		}
	}
}

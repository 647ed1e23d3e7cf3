package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tollhouse/cli/alarms"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/kv/pgkv"
)

// The happenings: told once, and no state of the server.
var (
	clockJumped     = &row{"clock", admin.StateWarning, "Clock jumped", "The clock jumped by %s.", "check what sets the clock"}
	tokenReused     = &row{"tokens", admin.StateWarning, "Token reused", "A refresh token or a code was used twice, so it may have been stolen. What was issued with it is revoked.", "look at tollhouse audit"}
	privilegesGiven = &row{"privileges", admin.StateWarning, "New privileges", "A user or a client got more rights.", "look at tollhouse audit, if you did not do it"}
	factorsGuessed  = &row{"guessing", admin.StateWarning, "Wrong second factors", "Ten second factors of a user were wrong. Whoever tries them knows the password.", "have the user set another password, if it is not the user"}
)

var happenings = []*row{clockJumped, tokenReused, privilegesGiven, factorsGuessed}

// happeningRows are the rows of what the store reports.
var happeningRows = map[string]*row{store.HappenedTokens: tokenReused, store.HappenedPrivileges: privilegesGiven, store.HappenedGuessing: factorsGuessed}

// alarm returns the finding as it is sent.
func (l lasting) alarm() alarms.Finding {
	return alarms.Finding{Alarm: l.check, Subject: l.subject, Severity: l.state, Title: l.title, Text: l.text, Next: l.next}
}

// clockJumpMin is by how much the clock has to jump.
const clockJumpMin = time.Minute

// alarmGrace is how long happenings that other servers have to tell may wait to be written.
const alarmGrace = 5 * time.Second

// newAlarms makes the sender of alarms, or nil without a URL.
func (r *running) newAlarms() *alarms.Sender {
	c := r.config.alarms
	if len(c.targets) == 0 {
		return nil
	}
	s := r.data().Store
	return alarms.New(alarms.Options{
		Targets: c.targets, Store: s, Repeat: c.repeat, Muted: c.muted, Local: []string{databaseAway.check},
		Instance: r.config.instanceName, URL: r.server().Site.PublicURL, Version: r.version, Log: r.log, Now: time.Now,
		Observe: func(outcome string, n int) { r.metrics.alarms.WithLabelValues(outcome).Add(float64(n)) },
	})
}

// hearHappenings passes on what happens in the store, without making its caller wait: to the
// sender of this server, or to the store for the one that sends.
func (r *running) hearHappenings() {
	var late lateHappenings
	r.data().Store.OnHappening(func(h store.Happening) {
		if r.alarms != nil && r.alarms.Holds() {
			r.happen(h, "")
			return
		}
		if late.add(h) {
			go late.keep(r)
		}
	})
}

// happen queues a happening of the store.
func (r *running) happen(h store.Happening, record string) {
	if row := happeningRows[h.Alarm]; row != nil {
		r.alarms.Happen(row.of(h.Subject).alarm(), h.At, record)
	}
}

// lateHappenings wait to be written to the store.
type lateHappenings struct {
	mu      sync.Mutex
	waiting []store.Happening
	writing bool
}

const lateMax = 1000

// add reports whether the caller has to start keep.
func (l *lateHappenings) add(h store.Happening) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) < lateMax {
		l.waiting = append(l.waiting, h)
	}
	start := !l.writing
	l.writing = true
	return start
}

// keep writes what waits.
func (l *lateHappenings) keep(r *running) {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.writing = false
			l.mu.Unlock()
			return
		}
		h := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), alarmGrace)
		if err := r.data().Store.KeepHappening(ctx, h); err != nil {
			r.log.Warn("happening not kept for the alarms", "alarm", h.Alarm, "err", err)
		}
		cancel()
	}
}

// runAlarms looks and sends until ctx is done.
func (r *running) runAlarms(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { r.alarms.Run(ctx) })
	if r.presence != nil {
		work.Go(func() { r.lookAtDatabase(ctx) })
	}
	r.onlyHere(ctx, pgkv.JobAlarm, r.sendAlarms)
	work.Wait()
}

// sendAlarms takes over what waits in the store, and looks at the table of findings at intervals.
func (r *running) sendAlarms(ctx context.Context) {
	for r.alarms.Hold(ctx) != nil { // another look may find the store readable
		if term.Sleep(ctx, r.config.alarms.every) != nil {
			return
		}
	}
	defer func() {
		if !r.closing.Load() {
			r.alarms.Release()
		}
	}()
	var listened time.Time
	isFirst := true
	for before := time.Now(); ; {
		now := time.Now()
		r.noteJump(now.Round(0).Sub(before.Round(0)), now.Sub(before))
		r.look(ctx)
		if r.presence != nil || isFirst { // while a server has a data directory, no other process writes to it
			r.takeHappenings(ctx, &listened)
		}
		isFirst, before = false, time.Now()
		if term.Sleep(ctx, r.config.alarms.every) != nil {
			return
		}
	}
}

// noteJump tells that the clock was set: the wall clock went on by another time than the
// monotonic one.
func (r *running) noteJump(wall, monotonic time.Duration) {
	if jump := wall - monotonic; jump.Abs() > clockJumpMin {
		l := clockJumped.of("")
		l.text = fmt.Sprintf(clockJumped.text, jump.Round(time.Second))
		r.alarms.Happen(l.alarm(), time.Now(), "")
	}
}

// lookMax bounds a look: what it cannot read by then is not known.
const lookMax = 10 * time.Second

func (r *running) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	u := checkup{data: r.data(), server: r, begun: r.alarms.Begun}
	unknown := map[string]bool{}
	var found []alarms.Finding
	for _, l := range u.lasting(limited, func(check string) { unknown[check] = true }) {
		if l.isSent() {
			found = append(found, l.alarm())
		}
	}
	if ctx.Err() == nil {
		r.alarms.Look(found, func(alarm string) bool { return !unknown[alarm] })
	}
}

// lookAtDatabase is for a server that does not send: it tells only that the database does not
// answer it, since it can agree with no other server about that.
func (r *running) lookAtDatabase(ctx context.Context) {
	for term.Sleep(ctx, r.config.alarms.every) == nil {
		if r.alarms.Holds() {
			continue
		}
		var found []alarms.Finding
		for _, l := range (checkup{server: r}).lastingDatabase() {
			found = append(found, l.alarm())
		}
		r.alarms.Look(found, func(alarm string) bool { return alarm == databaseAway.check })
	}
}

// takeHappenings queues what other processes have kept, and says that somebody listens.
func (r *running) takeHappenings(ctx context.Context, listened *time.Time) {
	s := r.data().Store
	if time.Since(*listened) > listenEvery {
		if s.ListenForHappenings(ctx) == nil { // the next look tries again
			*listened = time.Now()
		}
	}
	waiting, err := s.TakeHappenings(ctx)
	if err != nil {
		return
	}
	for record, h := range waiting {
		r.happen(h, record)
	}
}

// listenEvery is much less than the time after which happenings are no longer kept.
const listenEvery = 24 * time.Hour

// testAlarms sends a message to each URL.
func (r *running) testAlarms(ctx context.Context) []admin.AlarmTried {
	if r.alarms == nil {
		return nil
	}
	var all []admin.AlarmTried
	for _, t := range r.alarms.Test(ctx) {
		all = append(all, admin.AlarmTried(t))
	}
	return all
}

// listAlarms returns what lasts and what waits.
func (r *running) listAlarms() []admin.Alarm {
	if r.alarms == nil {
		return nil
	}
	all := []admin.Alarm{}
	for _, l := range r.alarms.List() {
		all = append(all, admin.Alarm(l))
	}
	return all
}

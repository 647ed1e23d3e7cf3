package webhooks

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

// Options configure a [Sender].
type Options struct {
	Store  Store
	Events Events
	Client *Client
	Log    *slog.Logger

	Schedule     []time.Duration
	ParkAfter    time.Duration
	DisableAfter time.Duration // 0 is never
	Parallel     int

	Resume string // the command that ends a hold, for the log

	// Shared says that other processes change endpoints in the store too.
	Shared bool
	// Grace is the time for requests in flight when the sender stops.
	Grace   func() time.Duration
	Observe func(Outcome, time.Duration) // of each attempt; may be nil

	// Send replaces Client in tests of the loops.
	Send func(ctx context.Context, m *Message) (Answer, error)
}

// Sender delivers events to the endpoints of a store.
//
// An idle endpoint costs only a small record in memory, without a goroutine or a timer.
// A commit in its account's log, a change, or the end of a pause starts a goroutine that
// delivers what there is and returns. An endpoint has at most two: one for the events after
// its cursor, and one for those that were set aside.
type Sender struct {
	o     Options
	slots slots
	pace  pace
	work  sync.WaitGroup

	mu        sync.Mutex
	ctx       context.Context // done when no new request may begin; nil if the sender does not run
	inFlight  context.Context // done when requests are cut
	lost      func()          // cancels both, because another process sends
	endpoints map[string]*endpoint
	accounts  map[string]map[*endpoint]struct{}
	shares    map[string]slots // of the accounts
	pauses    pauses
	sooner    chan struct{} // the first pause has changed
	missed    chan struct{} // a change could not be read
}

// endpoint is what the sender remembers of an endpoint. The mutex of the sender guards it.
type endpoint struct {
	id, account string
	live, aside task

	proven   bool      // its last attempt was accepted
	resting  bool      // it was disabled or held when it was last loaded
	full     bool      // it could set aside no more when it was last loaded
	parallel int       // requests in flight of one without order
	accepted int       // since parallel last rose
	mark     time.Time // of the last failed attempt, or of the end of a pause by hand
	headDue  time.Time // by the monotonic clock; zero after a start
	headNext time.Time // what the store has for it
	silent   time.Time // the receiver asked for no request before
	silentIn uint64    // the renewal of the endpoint when it did

	connections *http.Transport
	used        time.Time

	writing sync.Mutex // held while progress is written; taken before that of the sender
}

// task is one of an endpoint's goroutines, or waits to be one.
type task struct {
	of    *endpoint
	run   *run // nil if it does not run
	due   time.Time
	index int // in the pauses, or -1
}

// run is a goroutine that works for an endpoint.
type run struct {
	s        *Sender
	e        *endpoint
	stop     context.Context // done when no new request may begin
	inFlight context.Context // done when a request must be cut
	cut      context.CancelFunc
	wake     chan struct{}
	changed  atomic.Bool // the endpoint, since it was loaded
}

// New returns a Sender.
func New(o Options) *Sender {
	if o.Grace == nil {
		o.Grace = func() time.Duration { return 0 }
	}
	if o.Observe == nil {
		o.Observe = func(Outcome, time.Duration) {}
	}
	return &Sender{o: o, slots: newSlots(o.Parallel), sooner: make(chan struct{}, 1), missed: make(chan struct{}, 1)}
}

const (
	lookEvery   = time.Second // at the changes of other processes
	sweepEvery  = idleMax     // between two looks at unused connections
	storeRetry  = time.Second // after the store failed
	longestWait = 24 * time.Hour
)

// Run sends until ctx is done. Then it starts no request, gives those in flight the grace,
// and writes what was accepted.
func (s *Sender) Run(ctx context.Context) {
	inFlight, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	ctx, lose := context.WithCancel(ctx)
	defer lose()
	watch := s.o.Events.Watch()
	defer watch.Close()
	s.mu.Lock()
	s.ctx, s.inFlight = ctx, inFlight
	s.lost = func() { lose(); cut() }
	s.endpoints, s.pauses = map[string]*endpoint{}, nil
	s.accounts, s.shares = map[string]map[*endpoint]struct{}{}, map[string]slots{}
	s.mu.Unlock()

	if s.begin(ctx) {
		s.wait(ctx, watch)
	}
	s.mu.Lock()
	s.ctx = nil // nothing starts from now on
	s.mu.Unlock()
	grace := time.AfterFunc(s.o.Grace(), cut)
	defer grace.Stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		e.close()
	}
	s.endpoints = nil
}

// begin makes this process the sender of the store, as soon as the store can write.
func (s *Sender) begin(ctx context.Context) bool {
	for {
		err := s.o.Store.Start(ctx)
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		s.o.Log.Warn("cannot start webhooks", "err", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(storeRetry):
		}
	}
}

// wait starts what is due until ctx is done.
func (s *Sender) wait(ctx context.Context, watch Watch) {
	changes, known, held := uint64(0), false, false
	pause, look := time.NewTimer(0), time.NewTimer(0)
	defer pause.Stop()
	defer look.Stop()
	sweep := time.NewTimer(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-watch.Changed():
			s.pace.saw(s.o.Events.CountRecorded())
			for _, account := range watch.Take() {
				s.wakeAccount(account)
			}
			s.wakeAccount(eventlog.AllAccounts)
		case <-look.C:
			in, err := s.o.Store.Instance(ctx)
			if err == nil && in.Held != held {
				if held = in.Held; held {
					s.o.Log.Warn("webhooks are held", "reason", in.Reason, "since", in.Since, "next", s.o.Resume)
				}
			}
			if err == nil && (!known || in.Changes != changes) {
				if err = s.readAll(ctx); err == nil {
					changes, known = in.Changes, true
				}
			}
			if s.o.Shared || err != nil {
				look.Reset(lookEvery)
			}
		case <-s.missed:
			known = false
			look.Reset(storeRetry)
		case <-s.sooner:
			pause.Reset(s.nextPause())
		case <-pause.C:
			s.startDue()
			pause.Reset(s.nextPause())
		case <-sweep.C:
			s.closeUnused()
			sweep.Reset(sweepEvery)
		}
	}
}

// readAll learns which endpoints there are, and looks at each.
func (s *Sender) readAll(ctx context.Context) error {
	type found struct {
		account string
		aside   bool
	}
	all := map[string]found{}
	err := s.o.Store.Each(ctx, func(e webhook.Endpoint) error {
		all[e.ID] = found{e.Account, e.Parked > 0}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range all {
		s.changed(s.add(id, f.account), f.aside)
	}
	for id, e := range s.endpoints {
		if _, found := all[id]; !found {
			s.changed(e, false)
		}
	}
	return nil
}

// Changed says that an endpoint was changed or deleted, or with "" that all may have been.
// A request in flight to an endpoint that may no longer be sent to is cut.
func (s *Sender) Changed(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := s.ctx
	if ctx == nil || ctx.Err() != nil {
		return
	}
	s.work.Go(func() {
		if id == "" {
			if s.readAll(ctx) != nil {
				signal(s.missed)
			}
			return
		}
		ep, err := s.o.Store.Load(ctx, id)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.endpoints == nil:
		case err == nil:
			s.changed(s.add(id, ep.Account), ep.Parked > 0)
		case s.endpoints[id] != nil:
			s.changed(s.endpoints[id], false)
		case !errors.Is(err, record.ErrNotFound):
			signal(s.missed)
		}
	})
}

// add remembers an endpoint. The caller holds mu.
func (s *Sender) add(id, account string) *endpoint {
	if e := s.endpoints[id]; e != nil {
		return e
	}
	e := &endpoint{id: id, account: account, parallel: 1, mark: time.Now()}
	e.live, e.aside = task{of: e, index: -1}, task{of: e, index: -1}
	s.endpoints[id] = e
	if s.accounts[account] == nil {
		s.accounts[account] = map[*endpoint]struct{}{}
		s.shares[account] = s.slots.share()
	}
	s.accounts[account][e] = struct{}{}
	return e
}

// forget drops an endpoint that is gone.
func (s *Sender) forget(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses.drop(&e.live)
	s.pauses.drop(&e.aside)
	delete(s.endpoints, e.id)
	delete(s.accounts[e.account], e)
	if len(s.accounts[e.account]) == 0 {
		delete(s.accounts, e.account)
		delete(s.shares, e.account)
	}
	e.close()
}

// changed looks at an endpoint again, and at what it has set aside if there is anything: a
// goroutine for each of thousands leaves memory behind. The caller holds mu.
func (s *Sender) changed(e *endpoint, aside bool) {
	for _, t := range []*task{&e.live, &e.aside} {
		if r := t.run; r != nil {
			r.changed.Store(true)
			s.work.Go(func() { s.cutIfEnded(r) })
		}
		if t == &e.live || t.run != nil || aside {
			s.wake(t)
		}
	}
}

// cutIfEnded cuts the request in flight if the endpoint may no longer be sent to.
func (s *Sender) cutIfEnded(r *run) {
	ep, err := s.o.Store.Load(r.stop, r.e.id)
	if errors.Is(err, record.ErrNotFound) || err == nil && !ep.IsSendable() {
		r.cut()
	}
}

func (s *Sender) wakeAccount(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.accounts[account] {
		if e.live.index < 0 { // or it waits for the end of a pause
			s.wake(&e.live)
		}
	}
}

// wake has a task look for work. The caller holds mu.
func (s *Sender) wake(t *task) {
	if t.run != nil {
		signal(t.run.wake)
		return
	}
	s.start(t)
}

// start runs a task in a goroutine. The caller holds mu.
func (s *Sender) start(t *task) {
	s.pauses.drop(t)
	if s.ctx == nil || s.ctx.Err() != nil {
		return
	}
	r := &run{s: s, e: t.of, stop: s.ctx, wake: make(chan struct{}, 1)}
	r.inFlight, r.cut = context.WithCancel(s.inFlight)
	t.run = r
	s.work.Go(func() {
		do := s.deliver
		if t == &t.of.aside {
			do = s.retry
		}
		due := do(r)
		wasCut := r.inFlight.Err() != nil // maybe late, when the endpoint may be sent to again
		r.cut()
		s.mu.Lock()
		defer s.mu.Unlock()
		t.run = nil
		if s.endpoints[t.of.id] != t.of {
			return
		}
		select {
		case <-r.wake: // since it last looked
			wasCut = true
		default:
		}
		switch {
		case wasCut:
			s.start(t)
		case !due.IsZero():
			s.pause(t, due)
		}
	})
}

// signal wakes who waits for a channel with room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake anyway
	}
}

// pause has a task start again at a time. The caller holds mu.
func (s *Sender) pause(t *task, due time.Time) {
	t.due = due
	heap.Push(&s.pauses, t)
	if t.index == 0 {
		signal(s.sooner)
	}
}

func (s *Sender) nextPause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pauses) == 0 {
		return longestWait
	}
	return time.Until(s.pauses[0].due)
}

func (s *Sender) startDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pauses) > 0 && time.Until(s.pauses[0].due) <= 0 {
		s.start(s.pauses[0])
	}
}

// connectionsOf returns the kept connections of an endpoint.
func (s *Sender) connectionsOf(e *endpoint) *http.Transport {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.connections == nil {
		e.connections = s.o.Client.NewConnections()
	}
	e.used = time.Now()
	return e.connections
}

// close closes the kept connections. The caller holds mu.
func (e *endpoint) close() {
	if e.connections != nil {
		e.connections.CloseIdleConnections()
		e.connections = nil
	}
}

// closeUnused gives back the memory of connections that have not been used for long.
func (s *Sender) closeUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		if e.live.run == nil && e.aside.run == nil && time.Since(e.used) > idleMax {
			e.close()
		}
	}
}

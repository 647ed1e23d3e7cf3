package alarms

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Undelivered is the alarm of a target that fails. It is told to the others.
const Undelivered = "alarms"

// Store keeps what the sender must not forget, by name.
type Store interface {
	LoadAlarms(ctx context.Context) (map[string][]byte, error)
	// SaveAlarms writes records in one transaction. A nil value removes one.
	SaveAlarms(ctx context.Context, records map[string][]byte) error
	// AlarmName returns the name of a target's queue. It reveals nothing of the URL.
	AlarmName(url string) string
}

// The outcomes that are counted.
const (
	Delivered = "delivered"
	Failed    = "failed" // an attempt
	Dropped   = "dropped"
)

// Outcomes are all of them.
var Outcomes = []string{Delivered, Failed, Dropped}

// Options configure a [Sender].
type Options struct {
	Targets  []*Target
	Store    Store
	Repeat   time.Duration // between two messages of what lasts; 0 is never
	Muted    []string      // alarms that are not sent
	Local    []string      // alarms that each server tells, so that no other one needs to know
	Instance string        // its name
	URL      func() string // its public URL
	Version  string
	Log      *slog.Logger
	Now      func() time.Time
	Observe  func(outcome string, n int)
	Roots    *x509.CertPool // nil means the system's

	send func(ctx context.Context, t *Target, m Message) Result // of tests
}

func (o Options) isLocal(alarm string) bool { return slices.Contains(o.Local, alarm) }

// Sender sends alarms.
type Sender struct {
	o     Options
	muted map[string]bool
	begun time.Time

	saving sync.Mutex // held while the store is written

	mu      sync.Mutex // guards the rest
	queues  []*queue
	lasting map[key]*lasting
	held    bool            // by this server: what it knows is kept in the store
	used    map[string]bool // records of the store whose content is in the queues
	saved   chan struct{}   // asks for a save
}

// New returns a Sender. Run must be called.
func New(o Options) *Sender {
	if o.send == nil {
		o.send = newClient(o.Version, o.Roots).send
	}
	s := &Sender{o: o, muted: map[string]bool{}, begun: time.Now(), lasting: map[key]*lasting{}, used: map[string]bool{}, saved: make(chan struct{}, 1)}
	for _, name := range o.Muted {
		s.muted[name] = true
	}
	for _, t := range o.Targets {
		s.queues = append(s.queues, &queue{t: t, name: queuePrefix + o.Store.AlarmName(t.text), wake: make(chan struct{}, 1)})
	}
	return s
}

// Run sends what is queued until ctx is done.
func (s *Sender) Run(ctx context.Context) {
	var work sync.WaitGroup
	for _, q := range s.queues {
		work.Go(func() { s.serve(ctx, q) })
	}
	for ctx.Err() == nil {
		select {
		case <-s.saved:
			s.save(ctx)
		case <-ctx.Done():
		}
	}
	work.Wait()
}

// serve sends the messages of one target. No other target waits for it.
func (s *Sender) serve(ctx context.Context, q *queue) {
	for ctx.Err() == nil {
		s.mu.Lock()
		wait := q.wait(time.Now())
		s.mu.Unlock()
		if wait != 0 {
			s.rest(ctx, q, wait)
			continue
		}
		s.mu.Lock()
		e := q.take()
		s.mu.Unlock()
		if e == nil {
			continue
		}
		s.save(ctx) // before the receiver may know its id
		s.attempt(ctx, q, e)
	}
}

// rest waits for a time, or without an end if that is negative, or for a new message.
func (s *Sender) rest(ctx context.Context, q *queue, wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-q.wake:
	case <-over:
	}
}

func (s *Sender) attempt(ctx context.Context, q *queue, e *entry) {
	s.mu.Lock()
	q.sent = append(q.sent, time.Now())
	m := e.message(s.o.Now(), s.o.Instance, s.o.URL())
	s.mu.Unlock()
	r := s.o.send(ctx, q.t, m)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	was := q.failures
	dropped := q.settle(e, r, time.Now())
	if r.Delivered {
		s.delivered(e)
	}
	s.mu.Unlock()
	switch {
	case r.Delivered:
		s.o.Observe(Delivered, 1)
		if was > 0 {
			s.o.Log.Info("alarms are delivered again", "alarm", q.t)
		}
	default:
		s.o.Observe(Failed, 1)
		if was == 0 {
			s.o.Log.Warn("alarm not delivered", "alarm", q.t, "err", r.Reason)
		}
	}
	s.count(q, dropped)
	s.save(ctx)
}

// delivered notes when a finding was told.
func (s *Sender) delivered(e *entry) {
	for k, l := range s.lasting {
		if k.alarm == e.Alarm && (k.subject == e.Subject || e.Count > 1) {
			l.ToldAt = s.o.Now().Unix()
			l.isDirty = true
		}
	}
}

func (s *Sender) count(q *queue, dropped int) {
	if dropped > 0 {
		s.o.Observe(Dropped, dropped)
		s.o.Log.Warn("alarms dropped", "alarm", q.t, "count", dropped)
	}
}

func (s *Sender) signalAll() {
	for _, q := range s.queues {
		q.signal()
	}
	select {
	case s.saved <- struct{}{}:
	default:
	}
}

// Happen queues what has happened once. It does not wait. record is the record of the store that
// told it, or ""; it is removed in the transaction that saves the queues.
func (s *Sender) Happen(f Finding, at time.Time, record string) {
	if len(f.Subject) > subjectSize {
		f.Subject = ""
	}
	s.mu.Lock()
	if record != "" && s.used[record] {
		s.mu.Unlock()
		return
	}
	if record != "" {
		s.used[record] = true
	}
	for _, q := range s.queues {
		if s.muted[f.Alarm] {
			break
		}
		_, dropped := q.put(entry{Finding: f, State: Happened, Count: 1, BegunAt: at.Unix(), QueuedAt: s.o.Now().Unix()})
		s.count(q, dropped)
	}
	s.mu.Unlock()
	s.signalAll()
}

// Failing returns how many targets have failed for long, and whether that is known: soon after
// the start it is not, unless some fail.
func (s *Sender) Failing() (failing, of int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, q := range s.queues {
		if q.isFailing(now) {
			failing++
		}
	}
	return failing, len(s.queues), failing > 0 || now.Sub(s.begun) >= failingAfter
}

// Begun reports whether an alarm lasts.
func (s *Sender) Begun(alarm string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lasting {
		if l.Alarm == alarm && l.EndedAt == 0 {
			return true
		}
	}
	return false
}

// Waiting returns how many messages wait, of all targets.
func (s *Sender) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		n += len(q.entries)
	}
	return n
}

// Test sends a message to each target now, in the order of the targets.
func (s *Sender) Test(ctx context.Context) []Tried {
	all := make([]Tried, len(s.queues))
	var work sync.WaitGroup
	for i, q := range s.queues {
		work.Go(func() {
			now := s.o.Now()
			e := entry{ID: newID(), State: Tested, Count: 1, BegunAt: now.Unix(), Finding: Finding{
				Alarm: Tested, Severity: Warning, Title: "Test", Text: "This is a test of the alarms.", Next: "nothing, alarms arrive here",
			}}
			all[i] = triedOf(q.t, s.o.send(ctx, q.t, e.message(now, s.o.Instance, s.o.URL())))
		})
	}
	work.Wait()
	return all
}

// Tried is the result of a test.
type Tried struct {
	Alarm     string  `json:"alarm"`
	Delivered bool    `json:"delivered"`
	Status    *int    `json:"status"`
	Error     *string `json:"error"`
	MS        int64   `json:"ms"`
}

func triedOf(t *Target, r Result) Tried {
	tried := Tried{Alarm: t.shown, Delivered: r.Delivered, MS: r.Took.Milliseconds()}
	if r.Status != 0 {
		tried.Status = &r.Status
	}
	if r.Reason != "" {
		tried.Error = &r.Reason
	}
	return tried
}

// The names of the records.
const (
	queuePrefix   = "to:"
	lastingPrefix = "lasting:"
)

// saveMax is how long the store may take. The message is sent without it.
const saveMax = 3 * time.Second

// save writes what has changed. What cannot be written is kept in memory, and written with the
// next change.
func (s *Sender) save(ctx context.Context) {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	if !s.held {
		s.mu.Unlock()
		return
	}
	records := map[string][]byte{}
	for name := range s.used {
		records[name] = nil
	}
	var changed []*lasting
	for k, l := range s.lasting {
		if l.isDirty && !l.isLocal {
			records[k.record()] = encoded(l)
			changed = append(changed, l)
			l.isDirty = false
		}
	}
	var written []*queue
	for _, q := range s.queues {
		if q.dirty {
			records[q.name] = encodeQueue(q.entries)
			written = append(written, q)
			q.dirty = false
		}
	}
	s.mu.Unlock()
	if len(records) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveMax)
	defer cancel()
	if err := s.o.Store.SaveAlarms(ctx, records); err != nil {
		s.mu.Lock()
		for _, l := range changed {
			l.isDirty = true
		}
		for _, q := range written {
			q.dirty = true
		}
		s.mu.Unlock()
		s.o.Log.Warn("alarms are not saved, and sent from memory", "err", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, text := range records {
		if text == nil {
			delete(s.used, name)
		}
	}
}

// encodeQueue returns nil for an empty queue, which has no record.
func encodeQueue(entries []*entry) []byte {
	if len(entries) == 0 {
		return nil
	}
	return encoded(entries)
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("alarms: " + err.Error())
	}
	return text
}

// Hold takes over what is in the store: this server sends now. What waits there is sent at once.
func (s *Sender) Hold(ctx context.Context) error {
	records, err := s.o.Store.LoadAlarms(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.held = true
	for name, text := range records {
		l := &lasting{}
		if !strings.HasPrefix(name, lastingPrefix) || json.Unmarshal(text, l) != nil { // of another version: it begins anew
			continue
		}
		if k := (key{l.Alarm, l.Subject}); s.lasting[k] == nil {
			s.lasting[k] = l
		}
	}
	now := time.Now()
	for _, q := range s.queues {
		var waiting []*entry
		_ = json.Unmarshal(records[q.name], &waiting)
		for i, e := range waiting {
			e.since = now.Add(-max(s.o.Now().Sub(time.Unix(e.QueuedAt, 0)), 0))
			if i < queueMax && !slices.ContainsFunc(q.entries, func(w *entry) bool { return w.ID == e.ID }) {
				q.entries = append(q.entries, e)
			}
		}
	}
	lost := 0
	for name, text := range records { // of targets that are no longer named
		if strings.HasPrefix(name, queuePrefix) && !slices.ContainsFunc(s.queues, func(q *queue) bool { return q.name == name }) {
			var waiting []*entry
			_ = json.Unmarshal(text, &waiting)
			lost += len(waiting)
			s.used[name] = true
		}
	}
	s.mu.Unlock()
	if lost > 0 {
		s.o.Observe(Dropped, lost)
		s.o.Log.Warn("alarms dropped: their URL is no longer given", "count", lost)
	}
	s.signalAll()
	return nil
}

// Holds reports whether this server sends.
func (s *Sender) Holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Release gives up what another server sends from now on.
func (s *Sender) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	clear(s.used)
	for k, l := range s.lasting {
		if !l.isLocal {
			delete(s.lasting, k)
		}
	}
	for _, q := range s.queues {
		q.entries = slices.DeleteFunc(q.entries, func(e *entry) bool { return !s.o.isLocal(e.Alarm) })
		q.dirty = false
	}
}

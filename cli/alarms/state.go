package alarms

import (
	"cmp"
	"slices"
	"time"
)

// An hour of a finding has at most this many messages, so that what begins and ends in turns is
// not told each time.
const (
	hourMax     = 6
	hour        = time.Hour
	lastingMax  = 500 // findings that last, each with a subject and a record of its own
	subjectSize = 128 // bytes
)

// key names a finding.
type key struct{ alarm, subject string }

// record is the name of its record in the store.
func (k key) record() string { return lastingPrefix + k.alarm + ":" + k.subject }

// lasting is a finding that lasts, or has ended within the last hour.
type lasting struct {
	Finding
	BegunAt   int64
	EndedAt   int64  // 0 while it lasts
	Told      string // the last state that was told: Begun, Ended or ""
	Worst     string // the severity that was told
	ToldAt    int64  // when a message of it was delivered last; 0 for never
	RepeatAt  int64  // when it is due again
	Messages  []int64
	isLocal   bool // not kept in the store
	isDirty   bool
	isLasting bool // seen by this look
}

// Look is told what lasts now. known reports whether it can be said of an alarm now; of the
// others what was, still is.
func (s *Sender) Look(found []Finding, known func(alarm string) bool) {
	now := s.o.Now()
	s.mu.Lock()
	for _, l := range s.lasting {
		l.isLasting = false
	}
	for _, f := range found {
		s.seen(f, now)
	}
	for k, l := range s.lasting {
		if known(l.Alarm) {
			s.judge(l, now)
		}
		if l.EndedAt != 0 && len(l.Messages) == 0 {
			delete(s.lasting, k)
			if !l.isLocal {
				s.used[k.record()] = true
			}
		}
	}
	s.mu.Unlock()
	s.signalAll()
}

// seen notes that a finding lasts.
func (s *Sender) seen(f Finding, now time.Time) {
	if len(f.Subject) > subjectSize {
		f.Subject = ""
	}
	k := key{f.Alarm, f.Subject}
	l := s.lasting[k]
	if l == nil && len(s.lasting) >= lastingMax {
		k.subject, f.Subject = "", ""
		l = s.lasting[k]
	}
	switch {
	case l == nil:
		l = &lasting{BegunAt: now.Unix(), isLocal: s.o.isLocal(f.Alarm)}
		s.lasting[k] = l
		delete(s.used, k.record())
	case l.isLasting && l.Severity == Problem: // of two rows the worse
		return
	case l.EndedAt != 0:
		l.BegunAt, l.EndedAt = now.Unix(), 0
	case l.Severity == f.Severity && l.Title == f.Title: // perhaps with another number
		l.Finding, l.isLasting = f, true
		return
	}
	l.Finding, l.isLasting = f, true
	l.isDirty = true
}

// judge queues what is to be told of a finding.
func (s *Sender) judge(l *lasting, now time.Time) {
	before := len(l.Messages)
	l.Messages = slices.DeleteFunc(l.Messages, func(at int64) bool { return now.Sub(time.Unix(at, 0)) >= hour || at > now.Unix() })
	if !l.isLasting && l.EndedAt == 0 {
		l.EndedAt = now.Unix()
		l.isDirty = true
	}
	if before != len(l.Messages) {
		l.isDirty = true
	}
	state := ""
	switch {
	case l.EndedAt != 0 && l.Told == Begun:
		state = Ended
	case l.EndedAt != 0:
	case l.Told != Begun:
		state = Begun
	case l.Severity == Problem && l.Worst != Problem:
		state = Continues
	case s.o.Repeat > 0 && now.Unix() >= l.RepeatAt:
		state = Continues
	}
	if state == "" || s.muted[l.Alarm] || len(l.Messages) >= hourMax && !s.waits(l) {
		return
	}
	if s.tell(l, state, now) {
		l.Messages = append(l.Messages, now.Unix())
	}
	if l.Worst = l.Severity; state == Ended {
		l.Told, l.Worst = Ended, ""
	} else {
		l.Told = Begun
	}
	l.RepeatAt = now.Add(s.o.Repeat).Unix()
	l.isDirty = true
}

// waits reports whether a message of the finding waits, which the newest replaces.
func (s *Sender) waits(l *lasting) bool {
	e := entry{Finding: l.Finding}
	return slices.ContainsFunc(s.queues, func(q *queue) bool {
		return slices.ContainsFunc(q.entries, func(w *entry) bool { return w.isOf(&e) })
	})
}

// tell queues a message of a finding for each target, and reports whether it is one more.
func (s *Sender) tell(l *lasting, state string, now time.Time) (added bool) {
	e := entry{Finding: l.Finding, State: state, Count: 1, BegunAt: l.BegunAt, EndedAt: l.EndedAt, QueuedAt: now.Unix()}
	for _, q := range s.queues {
		if l.Alarm == Undelivered { // told to the others
			if state != Ended && !q.failingSince.IsZero() || state == Ended && !q.isToldFailed {
				continue
			}
			q.isToldFailed = state != Ended
		}
		one, dropped := q.put(e)
		added = added || one
		s.count(q, dropped)
	}
	return added
}

// Listed is a finding that lasts, or a message that waits.
type Listed struct {
	Alarm    string  `json:"alarm"`
	Subject  *string `json:"subject"`
	State    string  `json:"state"`
	Severity string  `json:"severity"`
	BegunAt  int64   `json:"begun_at"`
	ToldAt   *int64  `json:"told_at"`
	Waiting  int     `json:"waiting"` // messages, of all targets
}

// List returns what lasts and what waits, in the order in which it began.
func (s *Sender) List() []Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	type of struct{ alarm, subject, state string }
	all := map[of]*Listed{}
	for _, l := range s.lasting {
		if l.EndedAt != 0 {
			continue
		}
		listed := &Listed{Alarm: l.Alarm, Subject: subjectOf(l.Subject), State: Begun, Severity: l.Severity, BegunAt: l.BegunAt}
		if l.ToldAt != 0 {
			at := l.ToldAt
			listed.ToldAt = &at
		}
		all[of{l.Alarm, l.Subject, Begun}] = listed
	}
	for _, q := range s.queues {
		for _, e := range q.entries {
			k := of{e.Alarm, e.Subject, e.State}
			if e.State == Continues {
				k.state = Begun
			}
			if all[k] == nil {
				all[k] = &Listed{Alarm: e.Alarm, Subject: subjectOf(e.Subject), State: k.state, Severity: e.Severity, BegunAt: e.BegunAt}
			}
			all[k].Waiting++
		}
	}
	list := make([]Listed, 0, len(all))
	for _, l := range all {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.BegunAt, b.BegunAt), cmp.Compare(a.Alarm, b.Alarm), cmp.Compare(text(a.Subject), text(b.Subject)), cmp.Compare(a.State, b.State))
	})
	return list
}

func subjectOf(id string) *string {
	if id == "" {
		return nil
	}
	return &id
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

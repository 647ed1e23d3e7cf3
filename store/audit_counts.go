package store

import (
	"cmp"
	"slices"
	"time"
)

// Lines that strangers can cause in any number are written one by one up to these limits a
// minute. The rest is counted, in one line a minute.
const (
	auditKnownMax   = 200     // refused sign-ins of known users; lines with numbers count as such
	auditFirstMax   = 20      // other refusals: the first of each kind in a minute
	auditChangesMax = 60      // changes by one tenant, and refusals of one known caller
	auditTenantsMax = 1 << 12 // tenants and callers whose lines are written one by one

	auditNamedLongMax = 64 // users whose refused sign-ins, and accounts whose changes, have a number of their own
	auditNamedMax     = 16 // users or clients whose other refusals have one, of each kind of line

	auditMinute      = time.Minute
	auditMinuteTicks = 13 // more than a minute of ticks, every auditRetryEvery
)

// reasonSeveral is the reason in a line that counts refusals with different reasons.
const reasonSeveral = "several reasons"

// reasonChanges are the reasons of lines that count changes of webhook endpoints.
const (
	reasonChanges       = "webhook endpoints changed"
	reasonServerChanges = "webhook endpoints changed by the server"
)

// auditKind is what one line counts. id is a user, client or account, or "" for those that
// have no line of their own.
type auditKind struct {
	what       Audited
	id, reason string
}

// kindOf returns what counts the line. The refused sign-ins of a user have one line
// whatever their reasons.
func kindOf(l AuditLine) auditKind {
	k := auditKind{what: l.What, id: cmp.Or(l.Actor.ClientID, l.UserID, l.ClientID), reason: l.Reason}
	switch {
	case isKnownUsers(l):
		k.reason = ""
	case l.What == AuditWebhook:
		k.id = l.AccountID
	}
	return k
}

func isKnownUsers(l AuditLine) bool { return l.What == AuditLoginRefused && l.UserID != "" }

// auditCounts counts refusals and changes. It is guarded by the queue's mutex.
type auditCounts struct {
	isOpen  bool // since something happened
	since   time.Time
	ticks   int // of the machine's clock
	lines   map[auditKind]*AuditLine
	order   []auditKind // of lines
	named   map[Audited]int
	known   rate
	firsts  rate
	tenants map[tenant]*changes
}

// tenant is an account and what changes it, or a client that was refused.
type tenant struct{ id, by string }

// changes are the lines of a tenant within a minute, those of changes by their tails.
type changes struct {
	rate
	written, counted [][8]byte
}

// rate holds when the latest lines were written.
type rate []time.Time

// admits reports whether fewer than most were written within a minute.
func (r *rate) admits(now time.Time, most int) bool {
	r.forget(now)
	return len(*r) < most
}

// forget drops those before this minute, and all if the clock was set back.
func (r *rate) forget(now time.Time) {
	*r = slices.DeleteFunc(*r, func(at time.Time) bool { return now.Before(at) || now.Sub(at) >= auditMinute })
}

func (r *rate) note(now time.Time) { *r = append(*r, now) }

// admits reports whether a refusal is written one by one. It counts as one if so.
func (c *auditCounts) admits(line AuditLine, now time.Time) bool {
	c.open(now)
	if line.Actor.ClientID != "" {
		t := c.tenant(line.Actor.ClientID, string(line.What))
		if t == nil || !t.admits(now, auditChangesMax) {
			return false
		}
		t.note(now)
		return true
	}
	if isKnownUsers(line) {
		if !c.known.admits(now, auditKnownMax) {
			return false
		}
		c.known.note(now)
		return true
	}
	if c.lines[kindOf(line)] != nil || !c.firsts.admits(now, auditFirstMax) {
		return false
	}
	c.firsts.note(now)
	c.line(line)
	return true
}

// admitsChange reports whether the change of a tenant has a line of its own, and counts it
// otherwise. It gives the same answer for the same tail.
func (c *auditCounts) admitsChange(line AuditLine, by string, tail [8]byte, now time.Time) bool {
	c.open(now)
	t := c.tenant(line.AccountID, by)
	switch {
	case t == nil:
	case slices.Contains(t.written, tail):
		return true
	case slices.Contains(t.counted, tail):
		return false
	case t.admits(now, auditChangesMax):
		t.note(now)
		t.written = append(t.written, tail)
		t.written = t.written[max(0, len(t.written)-auditChangesMax):]
		return true
	default:
		t.counted = append(t.counted, tail)
		t.counted = t.counted[max(0, len(t.counted)-auditChangesMax):]
	}
	line.Reason = by
	c.add(line, now)
	return false
}

// tenant returns what a tenant has written, or nil beyond the limit of tenants.
func (c *auditCounts) tenant(id, by string) *changes {
	key := tenant{id, by}
	t := c.tenants[key]
	if t == nil && len(c.tenants) < auditTenantsMax {
		t = &changes{}
		c.tenants[key] = t
	}
	return t
}

// open begins a minute.
func (c *auditCounts) open(now time.Time) {
	if c.isOpen {
		return
	}
	c.isOpen, c.since, c.ticks = true, now, 0
	c.lines, c.order, c.named = map[auditKind]*AuditLine{}, nil, map[Audited]int{}
	if c.tenants == nil {
		c.tenants = map[tenant]*changes{}
	}
}

// add counts a refusal or a change. Its line keeps only what is true of all of them.
func (c *auditCounts) add(line AuditLine, now time.Time) {
	c.open(now)
	sum := c.line(line)
	if sum.Count++; sum.Count == 1 {
		*sum = line
		sum.Count, sum.RequestID = 1, ""
		return
	}
	if sum.Reason != line.Reason {
		sum.Reason = reasonSeveral
	}
	if sum.Actor != line.Actor {
		sum.Actor = Actor{}
	}
	for _, pair := range [][2]*string{
		{&sum.Source, &line.Source}, {&sum.ClientID, &line.ClientID}, {&sum.UserID, &line.UserID},
		{&sum.AccountID, &line.AccountID}, {&sum.FamilyID, &line.FamilyID},
	} {
		if *pair[0] != *pair[1] {
			*pair[0] = ""
		}
	}
}

// line returns the line that counts the refusal. Beyond the limits of names, refusals with
// the same reason share a line.
func (c *auditCounts) line(line AuditLine) *AuditLine {
	kind := kindOf(line)
	if c.lines[kind] == nil && kind.id != "" {
		most := auditNamedMax
		if isKnownUsers(line) || line.What == AuditWebhook {
			most = auditNamedLongMax
		}
		if c.named[kind.what] < most {
			c.named[kind.what]++
		} else {
			kind = auditKind{what: line.What, reason: line.Reason}
		}
	}
	if c.lines[kind] == nil {
		c.lines[kind] = &AuditLine{}
		c.order = append(c.order, kind)
	}
	return c.lines[kind]
}

// isOver reports whether the minute has ended. If the clock was set back, ticks end it.
func (c *auditCounts) isOver(now time.Time) bool {
	return c.isOpen && now.Sub(c.since) >= auditMinute
}

// tick reports whether a minute has passed by the machine's clock.
func (c *auditCounts) tick() bool {
	if c.isOpen {
		c.ticks++
	}
	return c.ticks >= auditMinuteTicks
}

// take ends the minute and returns its lines. They count as refused sign-ins of known
// users, so that strangers cause no more lines in all.
func (c *auditCounts) take(now time.Time) (lines []AuditLine) {
	c.known.forget(now)
	for _, kind := range c.order {
		sum := c.lines[kind]
		if sum.Count == 0 {
			continue
		}
		if lines = append(lines, *sum); kind.what != AuditWebhook {
			c.known.note(now)
		}
	}
	for key, t := range c.tenants {
		if t.admits(now, 1) { // it has no recent ones
			delete(c.tenants, key)
		}
	}
	c.isOpen, c.lines, c.order, c.named, c.ticks = false, nil, nil, nil, 0
	return lines
}

// forgetRates resets the rates: a minute has passed that the store's clock does
// not show.
func (c *auditCounts) forgetRates() {
	c.known, c.firsts = nil, nil
	clear(c.tenants)
}

// Package history makes events: believable lives of customers, their cards and
// bank accounts, payments, invoices and schedules, for whoever needs a full log
// to try things on and has none.
//
// Everything in it is a small state machine (a [life]): a sale is authorized
// before it is captured, an invoice is sent before it is overdue, nothing
// happens to what was deleted. Each step tells of one event and says when the
// next is due. The machines wait in a queue; whatever is due next happens next;
// and whenever the curve of the day asks for more than is due, something new
// begins, in the flow that lags most behind its share. So events come out in the
// order of time, one at a time, and memory holds only what is still going on.
//
// Snapshots and previousAttributes come from package snapshot, as those of real
// changes do. The same arguments give the same bytes, on every machine and with
// every release: all that is random is drawn from one PCG (chance.go).
//
// Nobody in these histories exists. Names are words of fiction, e-mail addresses
// end in .example, phone numbers are 555-01xx, postal codes begin with 00, which
// no place has, and of cards and bank accounts there are tokens and last digits.
package history

import (
	"encoding/binary"
	"io"
	"strconv"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

const (
	// EventsMax is the length of a history.
	EventsMax = 100_000_000
	// SpanMax is how long a history may last: its shape is summed up hour by hour
	// before it begins.
	SpanMax = 3660 * 24 * time.Hour
	// RateMax is how many events a second a live history may have.
	RateMax = 1000

	// pendingMax bounds the memory: a million events in 90 days, of which about
	// 20,000 wait at a time, take 200 MiB. In a history that is so dense that more
	// would wait, waits are cut short.
	pendingMax = 1 << 15
	// emptyStepsMax bounds the steps in a row that tell of nothing.
	emptyStepsMax = 1 << 20
)

// Plan says which history is made. The same plan makes the same bytes.
type Plan struct {
	Seed   uint64
	Events int           // 1 to EventsMax
	Span   time.Duration // from the first event to the last, at most SpanMax
	Until  time.Time     // the second of the last event
}

// Generator makes the events of a history, one after the other. It is an
// [io.Reader] of JSON lines in the form that an import takes. They have ids,
// made like all the rest, so that each line is its own place in a log, and they
// name no owner, so that any account can take them.
type Generator struct {
	chance *chance
	queue  queue
	now    int64 // milliseconds
	from   int64
	until  int64 // nothing happens later

	events  uint64 // to be made; 0: without end
	made    uint64
	certain uint64 // made, or pending and due before the end
	shape   shape
	jitter  uint64 // where between two marks of the shape the next thing begins
	live    bool
	pace    int64 // microseconds between the events of a live history

	counts  [flowCount]int64 // of events, made and pending
	counted int64            // the sum of counts

	town  town
	batch openBatch

	stamp uint64 // of the last event: milliseconds, and 16 bits to tell those of one apart
	today string // the date of now
	dated int64  // the midnight that today was made for
	line  []byte
	rest  []byte // of the line that Read is giving
}

// New returns the history of a plan, which must be within the bounds.
func New(p Plan) *Generator {
	if p.Events < 1 || p.Events > EventsMax || p.Span < 0 || p.Span > SpanMax || p.Until.UnixMilli() < p.Span.Milliseconds() {
		panic("history: the plan is out of bounds")
	}
	until := p.Until.Unix() * second
	from := until - p.Span.Milliseconds()
	// Our choice: two plans with one seed make different resources, so that
	// both may go into one account.
	other := scramble(uint64(p.Events)) ^ scramble(uint64(from)<<1) ^ scramble(uint64(until)<<1|1)
	g := newGenerator(p.Seed, other)
	g.events, g.from, g.until, g.now = uint64(p.Events), from, until, from
	g.shape = newShape(from, until)
	return g
}

// NewLive returns a history without an end that happens now: so many events in
// so much time, the first at from. Its lines have neither an id nor createdAt, which
// are the server's to give. A day of waiting passes in a minute, so that what
// takes days happens while somebody looks on.
func NewLive(seed uint64, from time.Time, interval time.Duration) *Generator {
	if interval < time.Second/RateMax {
		panic("history: the interval is out of bounds")
	}
	g := newGenerator(seed, scramble(uint64(from.UnixNano())))
	g.live, g.pace = true, interval.Microseconds()
	g.from, g.now, g.until = from.UnixMilli(), from.UnixMilli(), 1<<62
	return g
}

func newGenerator(seed, other uint64) *Generator {
	g := &Generator{chance: newChance(seed, other), dated: -1}
	g.jitter = uint64(g.chance.below(1 << fractionBits))
	g.batch.open(g)
	return g
}

// Next returns the next event as one line with its end, valid until the next
// call, and false after the last.
func (g *Generator) Next() ([]byte, bool) {
	if g.events > 0 && g.made == g.events {
		return nil, false
	}
	told := g.made
	for range emptyStepsMax {
		g.happen()
		if g.made > told {
			return g.line, true
		}
	}
	panic("history: nothing happens any more")
}

// Read gives the lines, as [io.Reader] has it.
func (g *Generator) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if len(g.rest) == 0 {
			line, more := g.Next()
			if !more && n == 0 {
				return 0, io.EOF
			}
			if !more {
				break
			}
			g.rest = line
		}
		copied := copy(b[n:], g.rest)
		g.rest = g.rest[copied:]
		n += copied
	}
	return n, nil
}

// happen goes on with what is due, or else begins something.
func (g *Generator) happen() {
	slot := g.slot()
	if g.queue.len() > 0 && (g.queue.first().due <= slot || g.queue.len() >= pendingMax) {
		p := g.queue.take()
		g.counts[p.flow]--
		g.counted--
		if p.due <= g.until {
			g.certain--
		}
		g.now = max(g.now, min(p.due, slot))
		if g.live || g.isLast() {
			g.now = slot
		}
		p.life.step(g)
		return
	}
	g.now = max(g.now, slot)
	g.begin()
	g.jitter = uint64(g.chance.below(1 << fractionBits))
}

func (g *Generator) isLast() bool { return g.made+1 == g.events }

// slot is the time up to which what is due happens, and at which, when nothing
// is, something begins.
//
// What is pending and certain to happen counts here as if it had happened: else a
// morning's settlements, all at once, would put the curve of the day so far
// ahead that nobody bought anything for hours.
func (g *Generator) slot() int64 {
	switch {
	case g.live:
		return g.from + int64(g.made)*g.pace/1000
	case g.isLast():
		return g.until
	case g.made == 0:
		return g.from
	}
	return max(g.now, g.shape.timeOf(g.certain<<fractionBits+g.jitter, g.events-1))
}

// lapse is how many times faster a live history waits: a day in a minute.
const lapse = 1440

// at puts the next step of a life into the queue, for that time.
func (g *Generator) at(due int64, f flow, l life) {
	due = max(due, g.now)
	if g.live {
		due = g.now + (due-g.now)/lapse
	}
	g.counts[f]++
	g.counted++
	if due <= g.until {
		g.certain++
	}
	g.queue.put(pending{due: due, flow: f, life: l})
}

// after is at, so long after now.
func (g *Generator) after(wait int64, f flow, l life) { g.at(g.now+wait, f, l) }

// date returns the date of now.
func (g *Generator) date() string {
	if midnight := dayOf(g.now); midnight != g.dated {
		g.dated, g.today = midnight, dateOf(midnight).Format(time.DateOnly)
	}
	return g.today
}

// resource is what events tell of, as it is now.
type resource struct {
	kind, id string
	snapshot snapshot.Value
	deleted  bool
}

// The members of snapshots, in pairs of names and values.
func members(pairs ...string) []snapshot.Member {
	made := make([]snapshot.Member, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		made = append(made, snapshot.Member{Name: pairs[i], Value: snapshot.Text(pairs[i+1])})
	}
	return made
}

// tell makes the event of a change: the patch (RFC 7396) is merged with the
// resource as it was, and what it replaced is told too.
func (g *Generator) tell(f flow, r *resource, action, source string, patch ...snapshot.Member) {
	if r.deleted {
		panic("history: " + r.kind + " " + r.id + " is told of after it was deleted")
	}
	before := r.snapshot
	created := before.Sort() != snapshot.Object
	r.deleted = action == "deleted"
	if !r.deleted {
		r.snapshot = snapshot.Merge(before, snapshot.ObjectOf(patch...))
	}
	// A snapshot keeps its order as long as it gets no new members.
	if len(r.snapshot.Members()) != len(before.Members()) {
		r.snapshot = snapshot.Complete(r.kind, r.id, r.snapshot, before, g.date())
	}
	g.counts[f]++
	g.counted++
	g.made++
	g.certain++
	g.write(r, action, source, before, created)
}

// write puts an event on the line as an export writes it, but for the owner.
func (g *Generator) write(r *resource, action, source string, before snapshot.Value, created bool) {
	g.stamp = max(uint64(g.now)<<16, g.stamp+1)
	b := append(g.line[:0], '{')
	if !g.live {
		var id [16]byte
		binary.BigEndian.PutUint64(id[:8], g.stamp)
		binary.BigEndian.PutUint64(id[8:], g.chance.pcg.Uint64())
		b = append(secret.AppendCrockford(append(b, `"id":"evt_`...), id), `",`...)
	}
	b = snapshot.AppendString(append(b, `"resource":`...), r.id)
	b = snapshot.AppendString(append(b, `,"source":`...), source)
	b = append(b, `,"location":"generator","type":"`...)
	b = append(append(append(append(b, r.kind...), '.'), action...), `","eventData":{"object":`...)
	b = r.snapshot.Append(b)
	if !created && !r.deleted {
		if previous, differs := snapshot.Previous(before, r.snapshot); differs {
			b = previous.Append(append(b, `,"previousAttributes":`...))
		}
	}
	b = append(b, '}')
	if !g.live {
		b = strconv.AppendInt(append(b, `,"createdAt":`...), int64(g.stamp>>16)/second, 10)
	}
	g.line = append(b, "}\n"...)
}

// Package history generates realistic histories of customers, their cards and bank
// accounts, payments, invoices and schedules, for demos and load tests.
//
// A resource lives through a few moves (mix.go): for example, a sale is authorized
// before it is captured. Each move records one event and queues the next move. When no
// move is due, a new resource begins in the flow that is furthest below its share.
// Events therefore come out sorted by time, and memory holds only unfinished lives.
//
// All data is fictitious: names are invented, e-mail addresses end in .example, phone
// numbers are 555-01xx, postal codes begin with the unassigned 003, and cards and bank
// accounts are tokens and last digits.
package history

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

const (
	EventsMax = 100_000_000           // EventsMax is the length of a history.
	SpanMax   = 3660 * 24 * time.Hour // SpanMax is how long a history may last; its curve has an entry an hour.
	RateMax   = 1000                  // RateMax is how many events a second a live history may have.

	pendingMax = 1 << 15 // steps; a million events in 90 days queue 20,000. Beyond it the earliest is taken too soon.
	townMax    = 1 << 14 // customers and accounts; beyond it one is forgotten, to bound the memory
	lookups    = 24      // how many are tried to find one that fits
	lapse      = 1440    // how many times faster a live history waits: a day in a minute
)

// Plan describes a history: the same plan gives the same bytes.
type Plan struct {
	Seed   uint64
	Events int           // 1 to EventsMax
	Span   time.Duration // from the first event to the last, at most SpanMax
	Until  time.Time     // the second of the last event
}

// Generator generates a history as an [io.Reader] of JSON lines for import. Each line
// has an id, so that importing it twice records it once, and no owner, so that it fits
// any account.
type Generator struct {
	pcg              *rand.PCG
	now, from, until int64   // milliseconds
	pace             int64   // microseconds between two events of a live history, or 0
	queue            []*step // the last is due first
	events, made     uint64  // of the plan (0 means endless), and so far
	certain          uint64  // events made, and steps that are due before until
	counts, turns    [flowCount]int64
	entered          [moveCount]bool
	town             []*life  // customers and accounts
	curve            []uint64 // the weight of all before each hour
	hour             int      // of the curve
	stamp            uint64   // of the last event: milliseconds, and 16 bits to order those of one
	line, rest       []byte   // the last event, and the part that Read has not returned
}

// New returns the history of a plan, which must be within the bounds.
func New(p Plan) *Generator {
	if p.Events < 1 || p.Events > EventsMax || p.Span < 0 || p.Span > SpanMax || p.Until.UnixMilli() < p.Span.Milliseconds() {
		panic("history: the plan is out of bounds")
	}
	until := p.Until.Unix() * second
	from := until - p.Span.Milliseconds()
	// Our choice: different plans with one seed have different resources, so that both
	// fit into one account.
	pcg := rand.NewPCG(p.Seed, uint64(p.Events)+uint64(from)*0x9e3779b97f4a7c15+uint64(until)*0xbf58476d1ce4e5b9)
	g := &Generator{pcg: pcg, events: uint64(p.Events), from: from, until: until, now: from, curve: []uint64{0}}
	for t, next := from, from; t < until; t = next {
		next = min(t-t%hour+hour, until)
		g.curve = append(g.curve, g.curve[len(g.curve)-1]+weight(t)*uint64(next-t))
	}
	return g
}

// NewLive returns an endless history that happens now, one event per interval of at
// least a microsecond. Its lines have no id and no createdAt, which the server sets. A
// day of waiting takes a minute.
func NewLive(seed uint64, from time.Time, interval time.Duration) *Generator {
	return &Generator{pcg: rand.NewPCG(seed, uint64(from.UnixNano())), pace: interval.Microseconds(), from: from.UnixMilli(), now: from.UnixMilli(), until: 1 << 62}
}

// Next returns the next event as one line with its end, valid until the next
// call, and false after the last.
func (g *Generator) Next() ([]byte, bool) {
	if g.events > 0 && g.made == g.events {
		return nil, false
	}
	for before := g.made; g.made == before; { // a customer can always be created
		g.advance()
	}
	return g.line, true
}

// Read returns the lines, as an [io.Reader].
func (g *Generator) Read(b []byte) (n int, err error) {
	for more := true; more && n < len(b); {
		copied := copy(b[n:], g.rest)
		if g.rest, n = g.rest[copied:], n+copied; n < len(b) {
			g.rest, more = g.Next()
		}
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// advance takes the step that is due, or starts a new resource.
func (g *Generator) advance() {
	slot := g.slot()
	last := len(g.queue) - 1
	if last < 0 || g.queue[last].due > slot && last < pendingMax {
		g.now = slot
		g.begin()
		return
	}
	s := g.queue[last]
	g.queue = slices.Delete(g.queue, last, last+1)
	g.counts[s.life.flow]--
	if s.due <= g.until {
		g.certain--
	}
	if g.now = max(g.now, min(s.due, slot)); g.pace > 0 || g.made+1 == g.events {
		g.now = slot
	}
	g.take(s)
}

// slot is when something new begins unless a queued step is due earlier. Steps due
// before the end count as taken: otherwise a morning's settlements would crowd out
// sales until the evening.
func (g *Generator) slot() int64 {
	switch {
	case g.pace > 0:
		return g.from + int64(g.made)*g.pace/1000
	case g.made+1 == g.events:
		return g.until
	case g.made == 0:
		return g.from
	}
	total := g.curve[len(g.curve)-1]
	high, low := bits.Mul64(total, min(g.certain, g.events-1))
	target, _ := bits.Div64(high, low, g.events-1)
	target += uint64(g.below(int64(total/g.events) + 1))
	for g.hour+2 < len(g.curve) && g.curve[g.hour+1] <= target {
		g.hour++
	}
	begin := max(g.from, g.from-g.from%hour+int64(g.hour)*hour)
	ahead := (max(target, g.curve[g.hour]) - g.curve[g.hour]) / weight(begin)
	return min(max(g.now, begin+int64(ahead)), g.until)
}

const second, minute, hour, day int64 = 1000, 60 * 1000, 3600 * 1000, 24 * 3600 * 1000

func dateOf(t int64) string { return time.UnixMilli(t).UTC().Format(time.DateOnly) }

// isWeekend: the first of January 1970 was a Thursday.
func isWeekend(t int64) bool { return (t/day+5)%7 < 2 }

// weight says how much happens in the hour of t: four times as much from 09 to 17,
// half as much on weekends, three times as much on the first of a month.
func weight(t int64) uint64 {
	w := uint64(2)
	if h := t % day / hour; h >= 9 && h < 17 {
		w *= 4
	}
	if isWeekend(t) {
		w /= 2
	}
	if time.UnixMilli(t).UTC().Day() == 1 {
		w *= 3
	}
	return w
}

// record records the event of a change, given as a merge patch (RFC 7396). An update
// that changes nothing is no event.
func (g *Generator) record(f int, l *life, action, source, patch string) {
	before := l.snapshot
	after := snapshot.Merge(before, snapshot.ObjectOf(g.fill(l, patch)...))
	if len(after.Members()) != len(before.Members()) { // otherwise the order is kept
		after = snapshot.Rules{}.Complete(l.kind, l.id, after, before, dateOf(g.now))
	}
	previous, differs := snapshot.Previous(before, after)
	if action == "updated" && !differs {
		return
	}
	l.snapshot = after
	l.status = l.text("status")
	g.counts[f]++
	g.made++
	g.certain++
	g.stamp = max(uint64(g.now)<<16, g.stamp+1)
	b := append(g.line[:0], '{')
	if g.pace == 0 {
		id := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, g.stamp), g.pcg.Uint64())
		b = append(secret.AppendCrockford(append(b, `"id":"evt_`...), [16]byte(id)), `",`...)
	}
	b = fmt.Appendf(b, `"resource":"%s","source":"%s","location":"generator","type":"%s.%s","eventData":{"object":`, l.id, g.word(l, nil, source), l.kind, action)
	b = after.Append(b)
	if differs && before.Kind() == snapshot.Object {
		b = previous.Append(append(b, `,"previousAttributes":`...))
	}
	b = append(b, '}')
	if g.pace == 0 {
		b = fmt.Appendf(b, `,"createdAt":%d`, int64(g.stamp>>16)/second)
	}
	g.line = append(b, "}\n"...)
}

// step is the next move of a life.
type step struct {
	due  int64 // milliseconds
	life *life
	move *move
}

// life is a resource with its state.
type life struct {
	kind, id, status string
	moves            string // its kind; of payments and accounts: card or ach
	snapshot         snapshot.Value
	flow             int   // of its next events
	of               *life // the customer of an account, or the account that pays
	payee            *life // the invoice or schedule that a payment is for
	cents, rest      int64 // rest is not paid yet, or not refunded
	open             int   // lives that need this customer or account
}

func (l *life) text(member string) string {
	value, _ := l.snapshot.Member(member)
	return value.Text()
}

// hold keeps the account and customer of a life from being deleted.
func (l *life) hold(n int) {
	for of := l.of; of != nil; of = of.of {
		of.open += n
	}
}

// fits reports whether a flow can happen to l.
func (f *flow) fits(g *Generator, l *life) bool {
	fits := strings.Contains(f.of, l.moves) && strings.Contains(f.status, l.status) && (l.open == 0 || f.action != "deleted")
	return fits && l.left(g) >= f.low && l.left(g) <= f.high
}

// left returns in how many months an account expires: a bank account never does.
func (l *life) left(g *Generator) int64 {
	if l.moves != "card" {
		return ever
	}
	mmyy, _ := strconv.ParseInt(l.text("expiry"), 10, 64)
	date := time.UnixMilli(g.now).UTC()
	return (mmyy%100*12+mmyy/100-int64(date.Year()%100*12)-int64(date.Month())+1800)%1200 - 600 // within 50 years
}

// begin starts something in the flow furthest below its share that fits a customer or
// account. Queued moves count, or flows with long waits would start too much.
func (g *Generator) begin() {
	var tried [flowCount]bool
	for range flows {
		next := -1
		for f := range flows {
			if !tried[f] && (next < 0 || (2*g.counts[f]+1)*flows[next].share < (2*g.counts[next]+1)*flows[f].share) {
				next = f
			}
		}
		tried[next] = true
		f, l := &flows[next], g.find(&flows[next])
		if l == nil && f.of != "" {
			continue
		}
		if f.kind != "" {
			g.create(next, l, nil)
		} else if g.record(next, l, f.action, f.source, g.turn(next)); f.action == "deleted" {
			g.leave(l)
		}
		return
	}
}

func (g *Generator) find(f *flow) *life {
	for range min(lookups, lookups*len(g.town)) {
		if l := pick(g, g.town); f.fits(g, l) {
			return l
		}
	}
	return nil
}

// turn returns the next patch of a flow.
func (g *Generator) turn(f int) string {
	g.turns[f]++
	return flows[f].patches[(g.turns[f]-1)%int64(len(flows[f].patches))]
}

// create creates a resource for a customer or account. A payment may be for an
// invoice or schedule.
func (g *Generator) create(f int, of, payee *life) {
	l := &life{kind: flows[f].kind, moves: flows[f].kind, id: flows[f].prefix + g.id(), flow: f, of: of, payee: payee, cents: g.between(450, pick(g, []int64{9_999, 9_999, 99_999, 499_999}))}
	source, patch := flows[f].source, g.turn(f)
	if payee != nil {
		l.cents, source, patch = payee.rest, "platform", patch+";reference="+payee.id
	}
	l.rest = l.cents
	g.record(f, l, flows[f].action, source, patch)
	l.hold(1)
	if method := l.text("method"); method != "" {
		l.moves = method
	}
	if l.kind != "customer" && l.kind != "account" {
		g.enter(l, flows[f].action)
	} else if g.town = append(g.town, l); len(g.town) > townMax {
		g.leave(pick(g, g.town))
	}
}

func (g *Generator) leave(l *life) {
	last := len(g.town) - 1
	g.town[slices.Index(g.town, l)] = g.town[last]
	g.town = slices.Delete(g.town, last, last+1)
	l.hold(-1)
}

// take records a move's event and queues the next move.
func (g *Generator) take(s *step) {
	l, m := s.life, s.move
	switch m.action {
	case pay:
		for _, f := range []int{cardPayment, achPayment} {
			if flows[f].fits(g, l.of) {
				g.create(f, l.of, l)
				return
			}
		}
		g.enter(l, "refused")
		return
	case "partially_paid", "partially_refunded":
		l.rest -= g.between(l.rest/4, l.rest*3/4)
	case "paid", "refunded":
		l.rest = 0
	}
	g.record(l.flow, l, m.action, "platform", m.patch)
	switch m.action {
	case "captured", "ach_settled":
		g.enter(l.payee, "charged")
	case "declined", "voided", "ach_return", "ach_process_error":
		g.enter(l.payee, "refused")
	case "ach_notice_of_change":
		g.enter(l.of, "noticed")
	}
	g.enter(l, m.action)
}

// enter draws what follows an action and queues it, or ends the life. Our choice:
// the first life takes the first move, so that even a short history has, for
// example, a transaction.ach_process_error.
func (g *Generator) enter(l *life, action string) {
	if l == nil {
		return
	}
	at, after := g.below(10_000), l.moves+"."+action
	i := slices.IndexFunc(moves[:], func(m move) bool { return m.after == after })
	if i >= 0 && !g.entered[i] {
		g.entered[i], at = true, 0
	}
	for ; i >= 0 && i < len(moves) && moves[i].after == after; i++ {
		if at -= moves[i].odds; at < 0 {
			s := &step{g.due(&moves[i]), l, &moves[i]}
			if g.counts[l.flow]++; s.due <= g.until {
				g.certain++
			}
			later := sort.Search(len(g.queue), func(k int) bool { return g.queue[k].due <= s.due })
			g.queue = slices.Insert(g.queue, later, s)
			return
		}
	}
	if l.kind != "account" {
		l.hold(-1)
	}
}

// due returns when a move is due. Banks report on weekdays, all within the same
// seconds of a morning: so every history has seconds with many events.
func (g *Generator) due(m *move) int64 {
	t, wait := g.now-g.now%day+10*hour+g.below(4)*second, g.between(m.low, m.high)
	if m.unit != weekdays {
		t = g.now + wait*m.unit - g.below(m.unit)*min(wait, 1)
	}
	for ; m.unit == weekdays && wait > 0; wait-- {
		for t += day; isWeekend(t); {
			t += day
		}
	}
	if g.pace > 0 {
		return g.now + (t-g.now)/lapse
	}
	return t
}

// below returns a number from 0 to n-1. It uses only the words of the PCG, whose
// algorithm is fixed, so that every release of Go gives the same history.
func (g *Generator) below(n int64) int64 {
	high, _ := bits.Mul64(g.pcg.Uint64(), uint64(n))
	return int64(high)
}

// between returns a number from low to high, both included.
func (g *Generator) between(low, high int64) int64 { return low + g.below(high-low+1) }

func pick[T any](g *Generator, from []T) T { return from[g.below(int64(len(from)))] }

// id returns 12 letters and digits: too few for a card number.
func (g *Generator) id() string { return strconv.FormatUint(1<<59|g.pcg.Uint64()>>5, 36) }

// fill makes the members of a patch such as status=settled;settledDate=${today}.
func (g *Generator) fill(l *life, patch string) []snapshot.Member {
	made := make([]snapshot.Member, 0, 24)
	for field := range strings.SplitSeq(patch, ";") {
		if name, text, found := strings.Cut(field, "="); found {
			made = append(made, snapshot.Member{Name: name, Value: snapshot.Text(os.Expand(text, func(word string) string { return g.word(l, made, word) }))})
		}
	}
	return made
}

// word returns the value of a word such as ${today}: one of a list, or a member of the
// patch so far, of the resource, or of its account or customer.
func (g *Generator) word(l *life, made []snapshot.Member, name string) string {
	switch name {
	case "today":
		return dateOf(g.now)
	case "fortnight":
		return dateOf(g.now + 14*day)
	case "cents":
		return dollars(l.cents)
	case "rest":
		return dollars(l.rest)
	case "done":
		return dollars(l.cents - l.rest)
	case "number":
		return fmt.Sprintf("%07d", g.made%10_000_000)
	case "aToken":
		return g.id()
	case "aDate": // most cards are put on file long after they were issued
		return g.expiry(0, []int64{40, 3, 3}[g.turns[l.flow]%3])
	case "later":
		return g.expiry(40, 48)
	}
	if list := lists[name]; list != nil {
		return pick(g, list)
	}
	if i := slices.IndexFunc(made, func(m snapshot.Member) bool { return m.Name == name }); i >= 0 {
		return made[i].Value.Text()
	}
	if text := l.text(name); text != "" {
		return text
	}
	return l.of.text(name)
}

func dollars(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// expiry returns a card's expiry month, low to high months ahead, as MMYY.
func (g *Generator) expiry(low, high int64) string {
	date := time.UnixMilli(g.now).UTC()
	return date.AddDate(0, int(g.between(low, high)), 1-date.Day()).Format("0106")
}

package snapshot

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// DepthMax is how deep objects and arrays of a snapshot may lie in each
	// other; the specification's own snapshots need one level.
	DepthMax = 16
	// SizeMax is the length of a snapshot in bytes as it is kept. Before and
	// after together still fit an event.
	SizeMax = 24 << 10
	// numberSizeMax and exponentMax bound what is kept exactly: more digits and
	// larger powers than any amount, ratio or identifier has.
	numberSizeMax = 128
	exponentMax   = 9999
)

// Parse reads one JSON value (RFC 8259) whose objects and arrays lie at most
// depthMax deep. It refuses what readers of JSON disagree about (RFC 7493):
// duplicate names, invalid UTF-8, halves of surrogate pairs; and it refuses
// anything but white space after the value. Errors: *Error with Malformed or
// TooLarge.
func Parse(data []byte, depthMax int) (Value, error) {
	room := rooms.Get().(*Room)
	room.lends = false
	defer rooms.Put(room)
	return room.parse(data, depthMax)
}

// Room is the memory in which one document after another is read, for whoever
// reads many and is done with each before the next. The zero Room is ready.
type Room struct {
	open  []Member // of the objects that are being read, the innermost's last
	kept  []Member // of the objects that are whole, if lends
	lends bool
}

// Parse is [Parse], of which the Value is valid until the next Parse in the room.
// Texts within it are for good.
func (r *Room) Parse(data []byte, depthMax int) (Value, error) {
	r.lends = true
	clear(r.kept)
	r.kept = r.kept[:0]
	return r.parse(data, depthMax)
}

func (r *Room) parse(data []byte, depthMax int) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, fault(Malformed, "", "the JSON is not valid UTF-8")
	}
	p := parser{text: string(data), depthLeft: depthMax, depthMax: depthMax, room: r}
	defer r.leave()
	p.space()
	v := p.value()
	p.space()
	if p.err == nil && p.at < len(p.text) {
		p.fail("there is more after the end of the value")
	}
	if p.err != nil {
		return Value{}, p.err
	}
	return v, nil
}

// rooms are for the members of objects that are not whole yet, whose number
// nobody knows before their end.
var rooms = sync.Pool{New: func() any { return &Room{open: make([]Member, 0, roomUsual)} }}

const (
	roomUsual = 32   // members
	roomMax   = 1024 // more are not kept for the next document
)

// leave clears what was left open, so that nothing of the document stays behind
// it but what is lent.
func (r *Room) leave() {
	clear(r.open)
	r.open = r.open[:0]
	if cap(r.open) > roomMax {
		r.open = nil
	}
	if cap(r.kept) > roomMax {
		r.kept = nil
	}
}

// whole returns the members that are open from first on as those of an object
// that is whole.
func (r *Room) whole(first int) []Member {
	open := r.open[first:]
	n := len(open)
	var members []Member
	switch from := len(r.kept); {
	case !r.lends:
		members = make([]Member, n)
	case cap(r.kept)-from >= n:
		r.kept = r.kept[:from+n]
		members = r.kept[from : from+n : from+n]
	default: // what is lent already stays where it is
		r.kept = make([]Member, n, max(roomUsual, 2*cap(r.kept), n))
		members = r.kept[:n:n]
	}
	copy(members, open)
	clear(open)
	r.open = r.open[:first]
	return members
}

// parser keeps its first failure; after one, every step returns at once.
type parser struct {
	text      string
	at        int
	depthLeft int
	depthMax  int
	room      *Room
	loose     int // how often there was something that Append writes otherwise
	err       *Error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fault(Malformed, "", "the JSON is not well-formed at byte "+strconv.Itoa(p.at)+": "+format, args...)
	}
}

// peek returns the next byte, and 0 at the end or after a failure.
func (p *parser) peek() byte {
	if p.err != nil || p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) space() {
	for p.at < len(p.text) && p.text[p.at] <= ' ' && p.err == nil {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
			p.loose++
		default:
			return
		}
	}
}

func (p *parser) value() Value {
	switch c := p.peek(); {
	case c == '{', c == '[':
		return p.nested(c)
	case c == '"':
		text, marks := p.string()
		return Value{sort: String, marks: marks, text: text}
	case c == '-' || isDigit(c):
		return p.number()
	case c == 't':
		return p.literal("true", Bool)
	case c == 'f':
		return p.literal("false", Bool)
	case c == 'n':
		v := p.literal("null", Null)
		v.text = ""
		return v
	}
	if p.at >= len(p.text) {
		p.fail("it ends where a value belongs")
	} else {
		p.fail("a value cannot begin here")
	}
	return Value{}
}

// nested reads an object or an array, which c opens.
func (p *parser) nested(c byte) (v Value) {
	if p.depthLeft == 0 {
		p.err = fault(TooLarge, "", "the JSON is more than %d levels deep", p.depthMax)
		return Value{}
	}
	p.depthLeft--
	start, loose := p.at, p.loose
	p.at++
	if c == '{' {
		v = p.object()
	} else {
		v = p.array()
	}
	p.depthLeft++
	if p.loose == loose {
		v.text = p.text[start:p.at]
	}
	return v
}

func (p *parser) object() Value {
	first := len(p.room.open)
	p.space()
	if p.peek() == '}' {
		p.at++
		return Value{sort: Object}
	}
	for p.err == nil {
		p.space()
		if p.peek() != '"' {
			p.fail("the name of a member belongs here")
			break
		}
		name, _ := p.string()
		p.space()
		if p.peek() != ':' {
			p.fail("a colon belongs here")
			break
		}
		p.at++
		p.space()
		value := p.value()
		p.room.open = append(p.room.open, Member{name, value})
		p.space()
		if c := p.peek(); c == '}' {
			p.at++
			members := p.room.whole(first)
			p.refuseDuplicates(members)
			return Value{sort: Object, members: members}
		} else if c != ',' {
			p.fail("a comma or the end of the object belongs here")
			break
		}
		p.at++
	}
	return Value{}
}

func (p *parser) refuseDuplicates(members []Member) {
	if len(members) > membersScanned {
		places := placesOf(members)
		for i, m := range members {
			if places[m.Name] != i {
				p.fail("the object that ends here has two members named %q", shorten(m.Name))
				return
			}
		}
		return
	}
	for i, m := range members {
		for _, earlier := range members[:i] {
			if m.Name == earlier.Name {
				p.fail("the object that ends here has two members named %q", shorten(m.Name))
				return
			}
		}
	}
}

func (p *parser) array() Value {
	elements := []Value{}
	p.space()
	if p.peek() == ']' {
		p.at++
		return Value{sort: Array, elements: elements}
	}
	for p.err == nil {
		p.space()
		elements = append(elements, p.value())
		p.space()
		if c := p.peek(); c == ']' {
			p.at++
			return Value{sort: Array, elements: elements}
		} else if c != ',' {
			p.fail("a comma or the end of the array belongs here")
			break
		}
		p.at++
	}
	return Value{}
}

func (p *parser) literal(word string, sort Sort) Value {
	if !strings.HasPrefix(p.text[p.at:], word) {
		p.fail("a value cannot begin here")
		return Value{}
	}
	p.at += len(word)
	return Value{sort: sort, text: word}
}

func (p *parser) number() Value {
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else {
		p.digits()
	}
	if p.peek() == '.' {
		p.at++
		p.digits()
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		exponentStart := p.at
		p.digits()
		if e, err := strconv.Atoi(p.text[exponentStart:p.at]); p.err == nil && (err != nil || e > exponentMax) {
			p.fail("the exponent of a number is larger than %d", exponentMax)
		}
	}
	if p.at-start > numberSizeMax {
		p.fail("a number has more than %d characters", numberSizeMax)
	}
	return Value{sort: Number, text: p.text[start:p.at]}
}

func (p *parser) digits() {
	if !isDigit(p.peek()) {
		p.fail("a digit belongs here")
		return
	}
	for isDigit(p.peek()) {
		p.at++
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

const shownMax = 40 // bytes of a caller's word that a message repeats

// shorten cuts a caller's word to what a message repeats of it.
func shorten(word string) string {
	if len(word) <= shownMax {
		return word
	}
	return strings.ToValidUTF8(word[:shownMax], "") + "…"
}

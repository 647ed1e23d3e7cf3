package snapshot

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// DepthMax is how deep the objects and arrays of a snapshot may nest. The
	// specification's own snapshots need one level.
	DepthMax = 16
	// SizeMax is the size of a stored snapshot in bytes. An event has room for two:
	// before and after.
	SizeMax = 24 << 10
	// Numbers are kept exactly up to these bounds, which are far above any amount,
	// ratio or identifier.
	numberSizeMax = 128
	exponentMax   = 9999
)

// Parse reads one JSON value (RFC 8259) nested at most depthMax deep. It rejects input
// that JSON parsers disagree on (RFC 7493), that is, duplicate names, invalid UTF-8
// and unpaired surrogates, and anything but white space after the value. It also
// rejects what common readers cannot hold: numbers that overflow binary64, and U+0000.
// Errors: *Error with Malformed or TooLarge.
func Parse(data []byte, depthMax int) (Value, error) { return parseIn(data, depthMax, false) }

// ParseMembers returns the members of an object as they were sent. It is Parse for readers that
// must ignore what they do not know: names may repeat.
func ParseMembers(data []byte, depthMax int) ([]Member, error) {
	v, err := parseIn(data, depthMax, true)
	if err == nil && v.Kind() != Object {
		err = fault(Malformed, "", "the JSON is not an object")
	}
	return v.members, err
}

func parseIn(data []byte, depthMax int, repeats bool) (Value, error) {
	arena := arenas.Get().(*Arena)
	arena.lends = false
	defer arenas.Put(arena)
	return arena.parse(data, depthMax, repeats)
}

// Arena is memory for parsing documents one after another, when each is finished
// before the next. The zero Arena is ready to use.
type Arena struct {
	open  []Member // of the objects being read, the innermost last
	kept  []Member // of complete objects, if lends
	lends bool
}

// Parse works like the function [Parse], but the Value is valid only until the next
// call. Texts in it stay valid.
func (r *Arena) Parse(data []byte, depthMax int) (Value, error) {
	r.lends = true
	clear(r.kept)
	r.kept = r.kept[:0]
	return r.parse(data, depthMax, false)
}

func (r *Arena) parse(data []byte, depthMax int, repeats bool) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, fault(Malformed, "", "the JSON is not valid UTF-8")
	}
	p := parser{text: string(data), depthLeft: depthMax, depthMax: depthMax, arena: r, repeats: repeats}
	defer r.leave()
	p.space()
	v := p.value()
	p.space()
	if p.err == nil && p.at < len(p.text) {
		p.fail("unexpected data after the value")
	}
	if p.err != nil {
		if p.named {
			p.err.Reason = shortPath(p.err.Path) + " " + p.err.Reason
		}
		return Value{}, p.err
	}
	return v, nil
}

// arenas hold the members of incomplete objects, whose number is not yet known.
var arenas = sync.Pool{New: func() any { return &Arena{open: make([]Member, 0, arenaUsual)} }}

const (
	arenaUsual = 32   // members
	arenaMax   = 1024 // a larger slice is not reused
)

// leave clears the open members, so that the arena keeps nothing of the document but
// what it lends.
func (r *Arena) leave() {
	clear(r.open)
	r.open = r.open[:0]
	if cap(r.open) > arenaMax {
		r.open = nil
	}
	if cap(r.kept) > arenaMax {
		r.kept = nil
	}
}

// whole closes the innermost object and returns its members, which are those open from
// first on.
func (r *Arena) whole(first int) []Member {
	open := r.open[first:]
	n := len(open)
	var members []Member
	switch from := len(r.kept); {
	case !r.lends:
		members = make([]Member, n)
	case cap(r.kept)-from >= n:
		r.kept = r.kept[:from+n]
		members = r.kept[from : from+n : from+n]
	default: // members already lent stay in the old array
		r.kept = make([]Member, n, max(arenaUsual, 2*cap(r.kept), n))
		members = r.kept[:n:n]
	}
	copy(members, open)
	clear(open)
	r.open = r.open[:first]
	return members
}

// parser keeps its first failure; every later step returns immediately.
type parser struct {
	text      string
	at        int
	depthLeft int
	depthMax  int
	arena     *Arena
	loose     int  // counts what Append writes differently
	repeats   bool // names may
	err       *Error
	named     bool // err is about a well-formed value, and its Path leads to it
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fault(Malformed, "", "the JSON is not well-formed at byte "+strconv.Itoa(p.at)+": "+format, args...)
	}
}

// refuse rejects a well-formed value. The clause completes a sentence that begins with
// its path, which the enclosing objects and arrays add one by one.
func (p *parser) refuse(format string, args ...any) {
	if p.err == nil {
		p.err, p.named = fault(Malformed, "", format, args...), true
	}
}

// inMember adds the name of the member that holds a rejected value to its path, unless
// the name must not be repeated.
func (p *parser) inMember(name string) {
	switch {
	case !p.named:
	case holdsCardNumber(name):
		p.err.Path = ""
	case p.err.Path == "" || p.err.Path[0] == '[':
		p.err.Path = shorten(name) + p.err.Path
	default:
		p.err.Path = shorten(name) + "." + p.err.Path
	}
}

// inElement is inMember for an array.
func (p *parser) inElement(i int) {
	if !p.named {
		return
	}
	dot := ""
	if p.err.Path != "" && p.err.Path[0] != '[' {
		dot = "."
	}
	p.err.Path = "[" + strconv.Itoa(i) + "]" + dot + p.err.Path
}

// peek returns the next byte, or 0 at the end or after a failure.
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
		text, class := p.string()
		return Value{kind: String, class: class, text: text}
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
		p.fail("a value is missing at the end")
	} else {
		p.fail("expected a value")
	}
	return Value{}
}

// nested reads the object or array that c opens.
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
	first := len(p.arena.open)
	p.space()
	if p.peek() == '}' {
		p.at++
		return Value{kind: Object}
	}
	for p.err == nil {
		p.space()
		if p.peek() != '"' {
			p.fail("expected a member name")
			break
		}
		name, _ := p.string()
		if p.named {
			p.err.Reason = "has a member name that " + p.err.Reason
			break
		}
		p.space()
		if p.peek() != ':' {
			p.fail("expected a colon")
			break
		}
		p.at++
		p.space()
		value := p.value()
		if p.err != nil {
			p.inMember(name)
			break
		}
		p.arena.open = append(p.arena.open, Member{name, value})
		p.space()
		if c := p.peek(); c == '}' {
			p.at++
			members := p.arena.whole(first)
			p.refuseDuplicates(members)
			return Value{kind: Object, members: members}
		} else if c != ',' {
			p.fail("expected a comma or the end of the object")
			break
		}
		p.at++
	}
	return Value{}
}

func (p *parser) refuseDuplicates(members []Member) {
	if p.repeats {
		return
	}
	if len(members) > membersScanned {
		positions := positionsOf(members)
		for i, m := range members {
			if positions[m.Name] != i {
				p.failRepeated(m.Name)
				return
			}
		}
		return
	}
	for i, m := range members {
		for _, earlier := range members[:i] {
			if m.Name == earlier.Name {
				p.failRepeated(m.Name)
				return
			}
		}
	}
}

func (p *parser) failRepeated(name string) {
	named := "of one name"
	if shown := Quote(name); shown != "" {
		named = "named " + shown
	}
	p.fail("the object that ends here has two members %s", named)
}

func (p *parser) array() Value {
	elements := []Value{}
	p.space()
	if p.peek() == ']' {
		p.at++
		return Value{kind: Array, elements: elements}
	}
	for p.err == nil {
		p.space()
		elements = append(elements, p.value())
		if p.err != nil {
			p.inElement(len(elements) - 1)
			break
		}
		p.space()
		if c := p.peek(); c == ']' {
			p.at++
			return Value{kind: Array, elements: elements}
		} else if c != ',' {
			p.fail("expected a comma or the end of the array")
			break
		}
		p.at++
	}
	return Value{}
}

func (p *parser) literal(word string, kind Kind) Value {
	if !strings.HasPrefix(p.text[p.at:], word) {
		p.fail("expected a value")
		return Value{}
	}
	p.at += len(word)
	return Value{kind: kind, text: word}
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
		p.checkExponent(p.text[start:p.at], p.text[exponentStart:p.at])
	}
	if p.at-start > numberSizeMax {
		p.refuse("is a number with more than %d characters", numberSizeMax)
	}
	return Value{kind: Number, text: p.text[start:p.at]}
}

// checkExponent rejects a number that overflows binary64, which many readers cannot
// hold: Go fails on the whole document, and Python reads infinity. Without an exponent
// none can, by its length.
func (p *parser) checkExponent(number, exponent string) {
	if p.err != nil {
		return
	}
	if _, err := strconv.ParseFloat(number, 64); err != nil {
		p.refuse("is a number beyond the range of binary64, which many readers cannot hold")
	}
	if e, err := strconv.Atoi(exponent); err != nil || e > exponentMax {
		p.refuse("is a number whose exponent is larger than %d", exponentMax)
	}
}

func (p *parser) digits() {
	if !isDigit(p.peek()) {
		p.fail("expected a digit")
		return
	}
	for isDigit(p.peek()) {
		p.at++
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

const shownMax = 40 // bytes of a caller's word in a message

// shorten cuts a caller's word to the length that a message may repeat.
func shorten(word string) string {
	if len(word) <= shownMax {
		return word
	}
	return strings.ToValidUTF8(word[:shownMax], "") + "…"
}

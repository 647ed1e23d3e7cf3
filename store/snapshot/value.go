// Package snapshot knows what a resource looks like at one moment: a JSON
// object, read strictly, compared exactly, and described where the kind of
// resource is one that the specification names.
//
// It is a package of its own because it is a language of its own, with no keys,
// no clock and no transactions in it: [Parse] reads bytes that somebody sent
// into a [Value]; [Check] and [Complete] hold it to the fields of its kind;
// [Merge] applies a patch (RFC 7396), [Previous] tells what a change replaced,
// and the one undoes the other; [FindSensitive] finds what must never be kept; and
// [Value.Append] writes it down, for good.
//
// Numbers are kept as they were written and compared by what they mean: 1.0 is
// 1 is 10e-1, and a forty-digit number loses none of its digits. Members keep
// the order in which they were sent; it never matters to a comparison.
package snapshot

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sort says what a Value is in JSON.
type Sort uint8

// The six sorts of JSON value. The zero Value is null.
const (
	Null Sort = iota
	Bool
	Number
	String
	Array
	Object
)

var sortNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

// String names the sort as a sentence would: "an object".
func (s Sort) String() string { return sortNames[s] }

// Value is a JSON value. It is never changed once made, so parts of one may be
// parts of another.
type Value struct {
	sort Sort
	// marks is what the parser has seen in the characters of a string, and 0 for
	// one of which nothing is known.
	marks marks
	// text is a string's characters, a number's or boolean's literal. Of an array
	// or an object it is what Append appends, if the parser has read just that.
	text     string
	elements []Value
	members  []Member
}

// Member is a name and its value in an object.
type Member struct {
	Name  string
	Value Value
}

// Text returns a string value.
func Text(text string) Value { return Value{sort: String, text: text} }

// ObjectOf returns an object with those members, whose names must differ.
func ObjectOf(members ...Member) Value { return Value{sort: Object, members: members} }

// ArrayOf returns an array of those elements.
func ArrayOf(elements ...Value) Value { return Value{sort: Array, elements: elements} }

// Sort says what v is.
func (v Value) Sort() Sort { return v.sort }

// Text returns the characters of a string, the literal of a number or boolean,
// and "" of anything else.
func (v Value) Text() string {
	if v.sort >= Array {
		return ""
	}
	return v.text
}

// Members returns the members of an object in their order. The slice is v's
// own and not to be changed.
func (v Value) Members() []Member { return v.members }

// Elements returns the elements of an array. The slice is v's own.
func (v Value) Elements() []Value { return v.elements }

// Member returns the member of that name, and whether v is an object that has
// one.
func (v Value) Member(name string) (Value, bool) {
	for i := range v.members {
		if v.members[i].Name == name {
			return v.members[i].Value, true
		}
	}
	return Value{}, false
}

// Equal reports whether v and w mean the same: members in any order, numbers by
// value.
func (v Value) Equal(w Value) bool {
	if v.sort != w.sort {
		return false
	}
	switch v.sort {
	case Number:
		return sameNumber(v.text, w.text)
	case Array:
		if len(v.elements) != len(w.elements) {
			return false
		}
		for i := range v.elements {
			if !v.elements[i].Equal(w.elements[i]) {
				return false
			}
		}
		return true
	case Object:
		if len(v.members) != len(w.members) {
			return false
		}
		others := indexOf(w.members)
		for i, m := range v.members {
			other, ok := others.find(m.Name, i)
			if !ok || !m.Value.Equal(other) {
				return false
			}
		}
		return true
	}
	return v.text == w.text
}

// WithoutNulls returns v without the members of objects that are null, at every
// depth: RFC 7396 reads null as "absent", so a snapshot that held one could not
// be told from one that does not. Nulls that are elements of arrays stay.
func (v Value) WithoutNulls() Value {
	if !v.hasNulls() {
		return v
	}
	switch v.sort {
	case Array:
		elements := make([]Value, len(v.elements))
		for i, element := range v.elements {
			elements[i] = element.WithoutNulls()
		}
		return Value{sort: Array, elements: elements}
	case Object:
		members := make([]Member, 0, len(v.members))
		for _, m := range v.members {
			if m.Value.sort != Null {
				members = append(members, Member{m.Name, m.Value.WithoutNulls()})
			}
		}
		return Value{sort: Object, members: members}
	}
	return v
}

// hasNulls reports whether WithoutNulls would leave something out.
func (v Value) hasNulls() bool {
	for i := range v.elements {
		if v.elements[i].hasNulls() {
			return true
		}
	}
	for i := range v.members {
		if m := &v.members[i].Value; m.sort == Null || m.hasNulls() {
			return true
		}
	}
	return false
}

// Append appends v as compact JSON. Strings are escaped as encoding/json does,
// with <, > and & too, so that the bytes are harmless wherever they are pasted.
func (v Value) Append(b []byte) []byte {
	switch v.sort {
	case Bool, Number:
		return append(b, v.text...)
	case String:
		if v.marks&(scanned|escapable) == scanned {
			return append(append(append(b, '"'), v.text...), '"')
		}
		return AppendString(b, v.text)
	case Array:
		if v.text != "" {
			return append(b, v.text...)
		}
		b = append(b, '[')
		for i, element := range v.elements {
			if i > 0 {
				b = append(b, ',')
			}
			b = element.Append(b)
		}
		return append(b, ']')
	case Object:
		if v.text != "" {
			return append(b, v.text...)
		}
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendString(b, m.Name)
			b = append(b, ':')
			b = m.Value.Append(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// String returns what Append appends.
func (v Value) String() string { return string(v.Append(nil)) }

const hexDigits = "0123456789abcdef"

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return set
}()

// AppendString appends text, which must be valid UTF-8, as a JSON string.
func AppendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == '\u2028' || r == '\u2029' { // they end a line in JavaScript
				b = append(b, text[start:i]...)
				b = append(b, `\u202`...)
				b = append(b, hexDigits[r&15])
				start = i + size
			}
			i += size
			continue
		}
		b = append(b, text[start:i]...)
		if short := strings.IndexByte("\"\\\b\f\n\r\t", c); short >= 0 {
			b = append(b, '\\', `"\bfnrt`[short])
		} else {
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, text[start:]...), '"')
}

// membersScanned is how many members are searched one by one, which up to here
// takes no longer than to make a map; past it a map keeps the work in proportion
// to the size of what was sent.
const membersScanned = 32

// index finds members by name.
type index struct {
	members []Member
	places  map[string]int // made when a hint is wrong for the first time
}

func indexOf(members []Member) index { return index{members: members} }

func placesOf(members []Member) map[string]int {
	places := make(map[string]int, len(members))
	for i, m := range members {
		places[m.Name] = i
	}
	return places
}

// find looks at the place that is hinted at first: two snapshots of one
// resource mostly agree on it.
func (ix *index) find(name string, hint int) (Value, bool) {
	if hint < len(ix.members) && ix.members[hint].Name == name {
		return ix.members[hint].Value, true
	}
	if len(ix.members) <= membersScanned {
		return Value{members: ix.members}.Member(name)
	}
	if ix.places == nil {
		ix.places = placesOf(ix.members)
	}
	i, ok := ix.places[name]
	if !ok {
		return Value{}, false
	}
	return ix.members[i].Value, true
}

// decimal is a number as sign × 0.digits × 10^exponent, with neither a leading
// nor a trailing zero among its digits; zero has none at all.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// sameNumber compares two literals that Parse accepted.
func sameNumber(a, b string) bool { return a == b || decimalOf(a) == decimalOf(b) }

func decimalOf(literal string) decimal {
	rest, negative := strings.CutPrefix(literal, "-")
	mantissa, exponentText := rest, ""
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, exponentText = rest[:i], rest[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent, _ := strconv.Atoi(exponentText) // "" is 0; Parse bounds the rest
	digits := whole + fraction
	significant := strings.TrimLeft(digits, "0")
	exponent += len(whole) - (len(digits) - len(significant))
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return decimal{}
	}
	return decimal{negative, significant, exponent}
}

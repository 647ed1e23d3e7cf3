// Package snapshot represents a resource at one moment: a JSON object that is parsed
// strictly, compared exactly, and checked when the specification defines its kind.
//
// A snapshot begins as the bytes of a request or an import. [Parse] turns them into a
// [Value]. [Check] and [Complete] apply the fields of its kind, and [FindSensitive]
// rejects what must never be stored. [Merge] applies a patch (RFC 7396); [Previous]
// computes the patch that undoes a change. [Value.Append] writes the stored form. The
// package knows no keys, clock or transactions.
//
// Numbers are kept as written and compared by value: 1.0, 1 and 10e-1 are equal, and a
// forty-digit number keeps all its digits. Members keep the order in which they were
// sent, which comparisons ignore.
package snapshot

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind says what a Value is in JSON.
type Kind uint8

// The six kinds of JSON value. The zero Value is null.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

// String returns the kind with its article: "an object".
func (s Kind) String() string { return kindNames[s] }

// Value is a JSON value. It never changes, so values may share parts.
type Value struct {
	kind Kind
	// class describes the characters of a string; 0 means unknown.
	class class
	// text holds a string's characters or the literal of a number or boolean. For an
	// array or object it holds the result of Append, if the input was exactly that.
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
func Text(text string) Value { return Value{kind: String, text: text} }

// ObjectOf returns an object. The members' names must differ.
func ObjectOf(members ...Member) Value { return Value{kind: Object, members: members} }

// ArrayOf returns an array of those elements.
func ArrayOf(elements ...Value) Value { return Value{kind: Array, elements: elements} }

// Kind says what v is.
func (v Value) Kind() Kind { return v.kind }

// Text returns the characters of a string, the literal of a number or boolean,
// and "" of anything else.
func (v Value) Text() string {
	if v.kind >= Array {
		return ""
	}
	return v.text
}

// Members returns the members of an object in their order. Do not modify the slice.
func (v Value) Members() []Member { return v.members }

// Elements returns the elements of an array.
func (v Value) Elements() []Value { return v.elements }

// Member returns the member with that name, and false when v has none or is not an
// object.
func (v Value) Member(name string) (Value, bool) {
	for i := range v.members {
		if v.members[i].Name == name {
			return v.members[i].Value, true
		}
	}
	return Value{}, false
}

// Equal reports whether v and w are equal, comparing members in any order and numbers
// by value.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
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

// WithoutNulls returns v without null members at every depth. RFC 7396 uses null for
// "absent", so a patch could not recreate them. Nulls in arrays stay.
func (v Value) WithoutNulls() Value {
	if !v.hasNulls() {
		return v
	}
	switch v.kind {
	case Array:
		elements := make([]Value, len(v.elements))
		for i, element := range v.elements {
			elements[i] = element.WithoutNulls()
		}
		return Value{kind: Array, elements: elements}
	case Object:
		members := make([]Member, 0, len(v.members))
		for _, m := range v.members {
			if m.Value.kind != Null {
				members = append(members, Member{m.Name, m.Value.WithoutNulls()})
			}
		}
		return Value{kind: Object, members: members}
	}
	return v
}

// hasNulls reports whether WithoutNulls would remove anything.
func (v Value) hasNulls() bool {
	for i := range v.elements {
		if v.elements[i].hasNulls() {
			return true
		}
	}
	for i := range v.members {
		if m := &v.members[i].Value; m.kind == Null || m.hasNulls() {
			return true
		}
	}
	return false
}

// Append appends v as compact JSON; see [AppendString] for what it escapes.
func (v Value) Append(b []byte) []byte {
	switch v.kind {
	case Bool, Number:
		return append(b, v.text...)
	case String:
		if v.class&(scanned|escapable) == scanned {
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

// plain marks the bytes that need no escape in a JSON string.
var plain = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = !strings.ContainsRune(`"\`, c)
	}
	return set
}()

// AppendString appends text, which must be valid UTF-8, as a JSON string. Besides what
// RFC 8259 §7 requires it escapes the characters beyond ASCII that end a line for some
// readers. <, > and & stay as they are: our JSON is no part of an HTML page.
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
			if escape := lineEnd(r); escape != "" {
				b = append(append(b, text[start:i]...), escape...)
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

// lineEnd returns the escape of a character that ends a line in JavaScript (U+2028,
// U+2029) or in Python's splitlines (U+0085 too), or "".
func lineEnd(r rune) string {
	switch r {
	case '\u0085':
		return `\u0085`
	case '\u2028':
		return `\u2028`
	case '\u2029':
		return `\u2029`
	}
	return ""
}

// EncodeJSON is json.Marshal with the escapes of [AppendString].
func EncodeJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	encoded := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return bytes.ReplaceAll(encoded, []byte("\u0085"), []byte(`\u0085`)), nil
}

// membersScanned is up to how many members a linear search is as fast as building a
// map. Beyond it a map keeps the work linear in the input.
const membersScanned = 32

// index finds members by name.
type index struct {
	members []Member
	byName  map[string]int // built when a hint is wrong for the first time
}

func indexOf(members []Member) index { return index{members: members} }

func positionsOf(members []Member) map[string]int {
	positions := make(map[string]int, len(members))
	for i, m := range members {
		positions[m.Name] = i
	}
	return positions
}

// find tries the hinted index first: two snapshots of one resource usually agree on
// it.
func (ix *index) find(name string, hint int) (Value, bool) {
	if hint < len(ix.members) && ix.members[hint].Name == name {
		return ix.members[hint].Value, true
	}
	if len(ix.members) <= membersScanned {
		return Value{members: ix.members}.Member(name)
	}
	if ix.byName == nil {
		ix.byName = positionsOf(ix.members)
	}
	i, ok := ix.byName[name]
	if !ok {
		return Value{}, false
	}
	return ix.members[i].Value, true
}

// decimal is the number ±0.digits × 10^exponent, without leading or trailing zeros
// among its digits; zero has no digits.
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

// whole returns the digits of d's integer part; d.exponent must be positive.
func (d decimal) whole() string {
	if missing := d.exponent - len(d.digits); missing > 0 {
		return d.digits + strings.Repeat("0", missing)
	}
	return d.digits[:d.exponent]
}

package snapshot

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FindSensitive looks for data that must never be recorded, because events cannot be
// changed and many people read them: card numbers in any text, number or member name,
// and unmasked values of members named as secrets. It returns nil or the first match,
// an *Error with SensitiveField that does not repeat the value.
func FindSensitive(v Value) error {
	w := way{steps: make([]step, 0, stepsUsual)}
	if e := w.sensitiveIn(&v, ""); e != nil {
		return e
	}
	return nil
}

// Quote returns text as a message to its sender may repeat it, in quotation marks,
// escaped and cut short, or "" if it may be a card number or a secret.
func Quote(text string) string {
	if holdsCardNumber(text) || secretForm.MatchString(text) {
		return ""
	}
	return strconv.Quote(shorten(text))
}

// secretForm finds the beginnings of common tokens, keys and passwords, ours first.
var secretForm = regexp.MustCompile(`toll(at|rt|ac|cs)_|whsec_|(?i:\b[spr]k_|\bBearer |\bBasic |\bgh[opsu]_|\bAKIA|\beyJ|BEGIN |://[^/@]*:[^/@]*@)`)

// NotThis completes a sentence about a value of the wrong kind or form: ", not 17", or
// "" if the value must not be repeated.
func (v Value) NotThis() string {
	shown := v.kind.String()
	switch v.kind {
	case String:
		shown = Quote(v.text)
	case Number:
		if shown = shorten(v.text); v.holdsCardNumber() {
			shown = ""
		}
	case Bool:
		shown = v.text
	}
	if shown == "" {
		return ""
	}
	return ", not " + shown
}

// way is the path to a value in a document, spelled out only in an error.
type way struct{ steps []step }

// step is one element of a path: a member's name or an index in an array.
type step struct {
	name    string
	element int // or notElement
}

const (
	notElement = -1
	stepsUsual = 4 // the depth of most documents
)

func (w *way) path() string {
	path := ""
	for _, s := range w.steps {
		if s.element == notElement {
			path = join(path, s.name)
		} else {
			path += "[" + strconv.Itoa(s.element) + "]"
		}
	}
	return path
}

// sensitiveIn checks v, which is at path w and belongs to the member called name.
func (w *way) sensitiveIn(v *Value, name string) *Error {
	here := len(w.steps)
	switch v.kind {
	case Object:
		for i := range v.members {
			m := &v.members[i]
			if holdsCardNumber(m.Name) {
				w.steps = w.steps[:here]
				path := w.path()
				return fault(SensitiveField, path, "%s has a member whose name looks like a card number, which must not be recorded; use a token or the last four digits", shortPath(path))
			}
			w.steps = append(w.steps[:here], step{m.Name, notElement})
			if e := w.sensitiveIn(&m.Value, m.Name); e != nil {
				return e
			}
		}
	case Array:
		for i := range v.elements {
			w.steps = append(w.steps[:here], step{element: i})
			if e := w.sensitiveIn(&v.elements[i], name); e != nil {
				return e
			}
		}
	case String, Number:
		// Our choice: card numbers are also found in JSON numbers.
		if v.holdsCardNumber() && !isPhoneName(name) {
			path := w.path()
			return fault(SensitiveField, path, "%s holds what looks like a card number, which must not be recorded; send a token or the last four digits", shortPath(path))
		}
		if isSecretName(name) && !isMasked(name, v.text) {
			path := w.path()
			return fault(SensitiveField, path, "%s is named as a secret and its value is not masked; leave it out, or send the last four digits", shortPath(path))
		}
	}
	return nil
}

// join returns the path of a member of the value at path.
func join(path, name string) string {
	name = shorten(name)
	if path == "" {
		return name
	}
	return path + "." + name
}

func shortPath(path string) string {
	if path == "" {
		return "the value"
	}
	return path
}

// secretName reports whether a member's name, ignoring case, spaces, _ and -, is that
// of a secret, and whether its last four digits may be shown. A CVV has at most four
// digits, so for it they are no mask.
func secretName(name string) (is, lastFourMayStand bool) {
	var folded [secretNameMax]byte
	switch string(foldName(folded[:0], name)) {
	case "cardnumber", "accountnumber", "ssn":
		return true, true
	case "cvv", "cvc", "password", "secret":
		return true, false
	}
	return false, false
}

// secretNameMax is the length of the longest such name.
const secretNameMax = len("accountnumber")

func isSecretName(name string) bool {
	is, _ := secretName(name)
	return is
}

// foldName appends name in lower case without spaces, _ and -, or returns nil when
// that does not fit into folded. Folding ASCII is enough: the names are ASCII.
func foldName(folded []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' || c == '-' || c == ' ':
			continue
		case len(folded) == cap(folded):
			return nil
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		folded = append(folded, c)
	}
	return folded
}

// isMasked reports whether the value of a secret member is empty, masked, or just the
// last four digits where those are allowed.
func isMasked(name, text string) bool {
	if strings.ContainsAny(text, "*•") || strings.Trim(text, "xX -") == "" {
		return true
	}
	if _, lastFourMayStand := secretName(name); !lastFourMayStand {
		return false
	}
	return strings.ContainsAny(text, "xX") || len(text) <= 4 && strings.Trim(text, "0123456789") == ""
}

const phoneNameMax = 32 // longer names are not checked

// isPhoneName reports whether a member with that name holds a phone number.
func isPhoneName(name string) bool {
	var folded [phoneNameMax]byte
	of := bytes.TrimRight(foldName(folded[:0], name), "0123456789")
	switch of = bytes.TrimSuffix(of, []byte("number")); string(of) {
	case "phones", "tel", "mobile", "cell", "fax", "msisdn":
		return true
	}
	return bytes.HasSuffix(of, []byte("phone"))
}

const (
	cardDigitsMin = 12
	cardDigitsMax = 19
)

// cardRange is a range of six-digit prefixes that a scheme issues, with a bit for each
// number length.
type cardRange struct {
	first, last int
	lengths     uint32
}

const prefixDigits = 6

func lengths(of ...int) (bits uint32) {
	for _, n := range of {
		bits |= 1 << n
	}
	return bits
}

// cardRanges are the ranges that the card schemes publish, with the lengths in use.
// Maestro's own prefixes have all the lengths that it allows; the rest of 67 has
// bank-card lengths.
var cardRanges = [...]cardRange{
	{400000, 499999, lengths(16, 19)}, // Visa
	{510000, 559999, lengths(16)},     // Mastercard
	{222100, 272099, lengths(16)},
	{340000, 349999, lengths(15)}, // American Express
	{370000, 379999, lengths(15)},
	{300000, 305999, lengths(14, 16, 19)}, // Diners
	{309500, 309599, lengths(14, 16, 19)},
	{360000, 369999, lengths(14, 16, 19)},
	{380000, 399999, lengths(14, 16, 19)},
	{601100, 601199, lengths(16, 17, 18, 19)}, // Discover
	{644000, 659999, lengths(16, 17, 18, 19)},
	{352800, 358999, lengths(16, 17, 18, 19)}, // JCB
	{620000, 629999, lengths(16, 17, 18, 19)}, // UnionPay
	{810000, 819999, lengths(16, 17, 18, 19)},
	{501800, 501899, lengths(12, 13, 14, 15, 16, 17, 18, 19)}, // Maestro
	{502000, 502099, lengths(12, 13, 14, 15, 16, 17, 18, 19)},
	{503800, 503899, lengths(12, 13, 14, 15, 16, 17, 18, 19)},
	{589300, 589399, lengths(12, 13, 14, 15, 16, 17, 18, 19)},
	{630400, 630499, lengths(12, 13, 14, 15, 16, 17, 18, 19)},
	{675900, 675999, lengths(12, 13, 14, 15, 16, 17, 18, 19)},
	{676100, 676399, lengths(12, 13, 14, 15, 16, 17, 18, 19)},
	{670000, 679999, lengths(16, 17, 18, 19)},
}

// holdsCardNumber reports whether v, a string or a number, holds a card number. In a
// number only the integer part can be one, in any notation.
func (v *Value) holdsCardNumber() bool {
	switch {
	case len(v.text) < cardDigitsMin:
		return false
	case v.kind == Number:
		d := decimalOf(v.text)
		return d.exponent >= cardDigitsMin && d.exponent <= cardDigitsMax && holdsCardNumber(d.whole())
	}
	return v.class&(scanned|digit) != scanned && holdsCardNumber(v.text)
}

// holdsCardNumber reports whether text holds digits in a range and length of
// cardRanges with a valid Luhn check digit. Single spaces, dashes or dots may separate
// groups of digits. Runs of more than 19 digits do not count, nor does a number that
// touches a letter, follows a plus sign or is a decimal fraction.
func holdsCardNumber(text string) bool {
	within := false // the digits of a group
	for start := 0; len(text)-start >= cardDigitsMin; {
		value, size := digitAt(text[start:])
		if value != notDigit && !within && mayBegin(text[:start]) && beginsCardNumber(text[start:], endsInPoint(text[:start])) {
			return true
		}
		within = value != notDigit
		start += size
	}
	return false
}

// beginsCardNumber reports whether text, which starts with a digit, starts with a card
// number. If grouped is set, only a number in several groups counts.
func beginsCardNumber(text string, grouped bool) bool {
	var digits [cardDigitsMax]byte
	n, at := 0, 0
	for at < len(text) && n < cardDigitsMax {
		value, size := digitAt(text[at:])
		if value == notDigit {
			return false
		}
		digits[n] = byte(value)
		n++
		at += size
		if value, _ := digitAt(text[at:]); value != notDigit {
			continue
		}
		if n >= cardDigitsMin && !grouped && isCardNumber(digits[:n]) && mayEnd(text[at:]) {
			return true
		}
		at += separatorSize(text[at:])
		grouped = false
	}
	return false
}

// mayBegin reports whether a card number may follow before.
func mayBegin(before string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	return last != '+' && !isCased(last)
}

// mayEnd reports whether a card number may end before after.
func mayEnd(after string) bool {
	next, _ := utf8.DecodeRuneInString(after)
	return !isCased(next)
}

// isCased reports whether r is a letter of a script with upper and lower case, which
// identifiers are made of. Our choice: other scripts do not separate words and numbers
// with a space, so a letter next to a number means nothing there.
func isCased(r rune) bool { return unicode.IsUpper(r) || unicode.IsLower(r) }

// endsInPoint reports whether before ends in a digit and a decimal point.
func endsInPoint(before string) bool {
	n := len(before)
	return n >= 2 && before[n-1] == '.' && isDigit(before[n-2])
}

const notDigit = -1

// digitAt returns the value of the digit, in any script, that text starts with, or
// notDigit, and the size of the first character.
func digitAt(text string) (value, size int) {
	if text == "" {
		return notDigit, 0
	}
	if c := text[0]; c < utf8.RuneSelf {
		if isDigit(c) {
			return int(c - '0'), 1
		}
		return notDigit, 1
	}
	r, size := utf8.DecodeRuneInString(text)
	for _, tens := range unicode.Nd.R16 { // each range starts at a zero
		if r >= rune(tens.Lo) && r <= rune(tens.Hi) {
			return int(r-rune(tens.Lo)) % 10, size
		}
	}
	return notDigit, size
}

// separatorSize returns the size of one separator between groups of digits: a space,
// dash, dot, tab or invisible character.
func separatorSize(text string) int {
	switch r, size := utf8.DecodeRuneInString(text); {
	case r == '.', r == '\t', r == '·', r == '−', unicode.In(r, unicode.Zs, unicode.Pd, unicode.Cf):
		return size
	}
	return 0
}

func isCardNumber(digits []byte) bool {
	prefix := 0
	for _, d := range digits[:prefixDigits] {
		prefix = prefix*10 + int(d)
	}
	for _, r := range cardRanges {
		if prefix >= r.first && prefix <= r.last && r.lengths&(1<<len(digits)) != 0 {
			return passesLuhn(digits)
		}
	}
	return false
}

// passesLuhn checks the check digit (ISO/IEC 7812-1, annex B).
func passesLuhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		n := int(d)
		if (len(digits)-i)%2 == 0 {
			n *= 2
			if n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

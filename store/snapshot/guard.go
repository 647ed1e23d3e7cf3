package snapshot

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// FindSensitive looks for what a record of events must never hold, since events
// cannot be changed and are read by many: card numbers in any text or number,
// and members named as a secret whose value is not masked. It returns nil or
// the first find, an *Error with SensitiveField; the value itself is not repeated.
func FindSensitive(v Value) error {
	w := way{steps: make([]step, 0, stepsUsual)}
	if e := w.sensitiveIn(&v, ""); e != nil {
		return e
	}
	return nil
}

// way leads to a value within a document. It is spelled out only for a find,
// since nearly every value is none.
type way struct{ steps []step }

// step leads to the member of an object that has a name, or to an element of an
// array.
type step struct {
	name    string
	element int // or notElement
}

const (
	notElement = -1
	stepsUsual = 4 // to the deepest value of most documents
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

// sensitiveIn looks at v, to which w leads and which belongs to the member name.
func (w *way) sensitiveIn(v *Value, name string) *Error {
	here := len(w.steps)
	switch v.sort {
	case Object:
		for i := range v.members {
			m := &v.members[i]
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
		// Our choice: numbers too. A card number is no less one without quotes.
		if v.marks&(scanned|digit) != scanned && holdsCardNumber(v.text) {
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

// join names a member of what lies at path.
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

// secretName says whether the name of a member, without case, spaces, _ and -,
// is one of a secret, and whether the last four digits of that may stand. A check
// value has at most four digits anyway, so for it, as for words, those are no mask.
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

// secretNameMax is the length of the longest of them.
const secretNameMax = len("accountnumber")

func isSecretName(name string) bool {
	is, _ := secretName(name)
	return is
}

// foldName appends name without case, spaces, _ and -, or returns nothing when
// what is left is longer than any of a secret. Only ASCII has a case here: no
// other letter is a form of one of theirs.
func foldName(folded []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' || c == '-' || c == ' ':
			continue
		case len(folded) == secretNameMax:
			return nil
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		folded = append(folded, c)
	}
	return folded
}

// isMasked reports whether a member of a secret's name shows no more than may
// be shown: nothing, a mask, or the last four digits where those are usual.
func isMasked(name, text string) bool {
	if strings.ContainsAny(text, "*•") || strings.Trim(text, "xX -") == "" {
		return true
	}
	if _, lastFourMayStand := secretName(name); !lastFourMayStand {
		return false
	}
	return strings.ContainsAny(text, "xX") || len(text) <= 4 && strings.Trim(text, "0123456789") == ""
}

const (
	cardDigitsMin = 13 // ISO/IEC 7812 allows fewer; no scheme issues them
	cardDigitsMax = 19
)

// holdsCardNumber reports whether text holds 13 to 19 digits with a valid check
// digit (Luhn) that begin as the card schemes' numbers do. The digits may be
// grouped by single spaces, dashes or dots. A run of more than 19 digits without
// a break is something else.
func holdsCardNumber(text string) bool {
	if len(text) < cardDigitsMin {
		return false
	}
	var digits [cardDigitsMax]byte
	for start := 0; start < len(text); start++ {
		if !isDigit(text[start]) || start > 0 && isDigit(text[start-1]) {
			continue // not the first digit of a group
		}
		n := 0
		for at := start; at < len(text) && n < cardDigitsMax; {
			digits[n] = text[at] - '0'
			n++
			at++
			if at < len(text) && isDigit(text[at]) {
				continue
			}
			if n >= cardDigitsMin && isCardNumber(digits[:n]) {
				return true
			}
			at += separatorSize(text[at:])
			if at >= len(text) || !isDigit(text[at]) {
				break
			}
		}
	}
	return false
}

// separatorSize is the length of one separator between groups of digits.
func separatorSize(text string) int {
	switch r, size := utf8.DecodeRuneInString(text); r {
	case ' ', '-', '.', '\t', '\u00a0', '\u2007', '\u2009', '\u202f', '\u2010', '\u2011', '\u2012', '\u2013':
		return size
	}
	return 0
}

func isCardNumber(digits []byte) bool { return hasCardPrefix(digits) && passesLuhn(digits) }

// hasCardPrefix knows the ranges of the schemes: Visa, Mastercard, American
// Express, Discover, Diners, JCB, UnionPay, Maestro.
func hasCardPrefix(digits []byte) bool {
	first := func(n int) (prefix int) {
		for _, d := range digits[:n] {
			prefix = prefix*10 + int(d)
		}
		return prefix
	}
	if digits[0] == 4 {
		return true
	}
	switch two := first(2); two {
	case 34, 37, 36, 38, 39, 50, 51, 52, 53, 54, 55, 56, 57, 58, 62, 63, 65, 67, 69:
		return true
	}
	switch four := first(4); {
	case four >= 2221 && four <= 2720, four >= 3528 && four <= 3589, four == 6011:
		return true
	}
	three := first(3)
	return three >= 300 && three <= 305 || three >= 644 && three <= 649
}

// passesLuhn checks the last digit (ISO/IEC 7812-1, annex B).
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

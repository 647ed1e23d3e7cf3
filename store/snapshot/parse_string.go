package snapshot

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// class holds what the parser has seen in the characters of a string.
type class uint8

const (
	scanned   class = 1 << iota // the other bits are complete
	escapable                   // a character that AppendString may escape
	digit                       // or any character beyond ASCII, which may be a digit
	ending                      // a quotation mark, backslash or control character
)

// classOf is the class of each byte.
var classOf = func() (of [256]class) {
	for i := range of {
		c := byte(i)
		if c < ' ' || c == '"' || c == '\\' {
			of[c] |= ending
		}
		if c < utf8.RuneSelf && !plain[c] || c == "\u0085"[0] || c == "\u2028"[0] {
			of[c] |= escapable
		}
		if isDigit(c) || c >= utf8.RuneSelf {
			of[c] |= digit
		}
	}
	return of
}()

// string reads a string; one without escapes shares the bytes of the document.
func (p *parser) string() (string, class) {
	p.at++
	start := p.at
	rest := p.text[start:]
	seen, end := class(0), 0
	for end < len(rest) {
		m := classOf[rest[end]]
		if m&ending != 0 {
			break
		}
		seen |= m
		end++
	}
	p.at += end
	if seen&escapable != 0 {
		p.loose++
	}
	switch {
	case end == len(rest):
		p.fail("a string is not closed")
		return "", 0
	case rest[end] == '"':
		p.at++
		return rest[:end], seen | scanned
	case rest[end] == '\\':
		p.loose++
		return p.escaped(start), 0
	}
	p.fail("a control character in a string must be escaped")
	return "", 0
}

func (p *parser) escaped(start int) string {
	text := []byte(p.text[start:p.at])
	for p.err == nil && p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return string(text)
		case c < ' ':
			p.at--
			p.fail("a control character in a string must be escaped")
		case c == '\\':
			text = p.escape(text)
		default:
			text = append(text, c)
		}
	}
	p.fail("a string is not closed")
	return ""
}

func (p *parser) escape(text []byte) []byte {
	c := p.peek()
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 && c != 0 {
		p.at++
		return append(text, "\"\\/\b\f\n\r\t"[i])
	}
	if c != 'u' {
		p.fail("unknown escape")
		return text
	}
	r := p.hex()
	if r == 0 && p.err == nil {
		// PostgreSQL's jsonb and PHP's objects cannot hold it.
		p.refuse("contains U+0000, which many readers cannot hold")
	}
	if utf16.IsSurrogate(r) {
		if p.peek() == '\\' {
			p.at++
			r = utf16.DecodeRune(r, p.hex())
		} else {
			r = utf8.RuneError
		}
		if r == utf8.RuneError {
			p.refuse("contains an unpaired surrogate")
		}
	}
	return utf8.AppendRune(text, r)
}

// hex reads u and four hexadecimal digits.
func (p *parser) hex() rune {
	if p.peek() != 'u' || p.at+5 > len(p.text) {
		p.fail(`\u takes four hexadecimal digits`)
		return 0
	}
	var r rune
	for _, c := range []byte(p.text[p.at+1 : p.at+5]) {
		digit := strings.IndexByte(hexDigits, c|0x20)
		if digit < 0 || (digit < 10) != isDigit(c) {
			p.fail(`\u takes four hexadecimal digits`)
			return 0
		}
		r = r<<4 | rune(digit)
	}
	p.at += 5
	return r
}

package secret

import "strings"

// A user code is read aloud and typed: 20 characters of Crockford's base32, in fives.
const (
	userCodeSize  = 20 // characters: 100 bits
	userCodeGroup = 5
)

// NewUserCode returns a code of 100 random bits, with which a user sets a password.
func NewUserCode(from Source) Token {
	var random [userCodeSize]byte
	from.fill("user code", random[:])
	for i := range random {
		random[i] = crockford[random[i]&31]
	}
	return tokenOf(inGroups(string(random[:])))
}

// ParseUserCode returns the code that was typed, or false for text that is none. It
// accepts upper case, other groups, and o, i and l for the digits that they resemble.
func ParseUserCode(text string) (Token, bool) {
	var b strings.Builder
	for _, c := range strings.ToLower(text) {
		switch c {
		case ' ', '-':
			continue
		case 'o':
			c = '0'
		case 'i', 'l':
			c = '1'
		}
		if b.Len() == userCodeSize || !strings.ContainsRune(crockford, c) {
			return Token{}, false
		}
		b.WriteRune(c)
	}
	if b.Len() != userCodeSize {
		return Token{}, false
	}
	return tokenOf(inGroups(b.String())), true
}

func inGroups(digits string) string {
	var groups []string
	for i := 0; i < len(digits); i += userCodeGroup {
		groups = append(groups, digits[i:i+userCodeGroup])
	}
	return strings.Join(groups, "-")
}

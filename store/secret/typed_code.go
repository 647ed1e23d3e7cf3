package secret

import "strings"

// A code that people copy by hand is in Crockford's base32, in groups.
type typedCode struct {
	source      string
	size, group int // characters
}

var (
	userCode     = typedCode{"user code", 20, 5}     // 100 bits: it is read aloud, too
	recoveryCode = typedCode{"recovery code", 16, 4} // 80 bits
)

// NewUserCode returns a code of 100 random bits, with which a user sets a password.
func NewUserCode(from Source) Token { return userCode.draw(from) }

// ParseUserCode returns the code that was typed, or false for text that is none. It
// accepts upper case, other groups, and o, i and l for the digits that they resemble.
func ParseUserCode(text string) (Token, bool) { return userCode.parse(text) }

// NewRecoveryCode returns a code of 80 random bits, which stands in for a second factor once.
func NewRecoveryCode(from Source) Token { return recoveryCode.draw(from) }

// ParseRecoveryCode is [ParseUserCode] for a recovery code.
func ParseRecoveryCode(text string) (Token, bool) { return recoveryCode.parse(text) }

// HashOfRecoveryCode is the hash that is stored, and that imports bring: of the characters alone.
func HashOfRecoveryCode(code Token) Hash { return HashOf(strings.ReplaceAll(code.Reveal(), "-", "")) }

func (c typedCode) draw(from Source) Token {
	random := make([]byte, c.size)
	from.fill(c.source, random)
	for i := range random {
		random[i] = crockford[random[i]&31]
	}
	return tokenOf(c.inGroups(string(random)))
}

func (c typedCode) parse(text string) (Token, bool) {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch r {
		case ' ', '-':
			continue
		case 'o':
			r = '0'
		case 'i', 'l':
			r = '1'
		}
		if b.Len() == c.size || !strings.ContainsRune(crockford, r) {
			return Token{}, false
		}
		b.WriteRune(r)
	}
	if b.Len() != c.size {
		return Token{}, false
	}
	return tokenOf(c.inGroups(b.String())), true
}

func (c typedCode) inGroups(digits string) string {
	var groups []string
	for i := 0; i < len(digits); i += c.group {
		groups = append(groups, digits[i:i+c.group])
	}
	return strings.Join(groups, "-")
}

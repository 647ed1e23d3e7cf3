// Package secret makes and judges everything that must not be guessed: tokens,
// ids, the server key and people's passwords. It is the only package that
// reads the system's randomness or names golang.org/x/crypto, so that a reader
// who wants to know how a secret is made has one place to look.
//
// A token is born by [New] or [Key.Successor], is shown once, on the wire, by
// [Token.Reveal], and is kept as its [Hash]. It comes back through [Parse],
// which refuses whatever cannot be a token before anybody asks the store. It
// cannot print itself: every way of formatting a Token gives "[redacted]".
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
)

// Kind says what a token is for. It is the token's visible prefix, so that a
// token of one kind can never pass for another and secret scanners know ours.
type Kind string

// The kinds of token. The prefix is part of what is hashed.
const (
	AccessToken  Kind = "tollat_"
	RefreshToken Kind = "tollrt_"
	Code         Kind = "tollac_"
	ClientSecret Kind = "tollcs_"
	SessionToken Kind = "tollss_"
	DeviceToken  Kind = "tolldv_"
)

const (
	kindSize     = 7
	bodySize     = 43 // base62 characters that hold 256 bits
	checksumSize = 6  // base62 characters that hold a CRC-32
	tokenSize    = kindSize + bodySize + checksumSize
)

const redacted = "[redacted]"

// Token is a secret in hand. The zero Token is no secret and matches nothing.
//
// It holds a pointer because fmt looks into unexported fields of other structs
// without asking for String: there it finds an address and no text. Tokens are
// compared by Equal; the compiler refuses ==, which would compare addresses.
type Token struct {
	_    [0]func()
	text *string
}

// New returns a token of 256 random bits.
func New(kind Kind) Token {
	var random [32]byte
	draw(string(kind), random[:])
	return newToken(kind, random)
}

func newToken(kind Kind, bits [32]byte) Token {
	b := make([]byte, 0, tokenSize)
	b = append(b, kind...)
	b = appendBase62(b, bits)
	b = appendChecksum(b)
	return tokenOf(string(b))
}

func tokenOf(text string) Token { return Token{text: &text} }

// Parse returns the token that text spells and true, or false when text is not
// a token of that kind, letter by letter: one wrong character is always caught
// by the checksum, so a typing error never reaches the store.
func Parse(kind Kind, text string) (Token, bool) {
	if len(text) != tokenSize || text[:kindSize] != string(kind) {
		return Token{}, false
	}
	for i := kindSize; i < tokenSize; i++ {
		if !isBase62(text[i]) {
			return Token{}, false
		}
	}
	var b [tokenSize]byte
	sum := appendChecksum(append(b[:0], text[:tokenSize-checksumSize]...))
	if string(sum) != text {
		return Token{}, false
	}
	return tokenOf(text), true
}

// Reveal returns the token's text, for the one answer that carries it.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Equal reports whether t and other are one token, in constant time.
func (t Token) Equal(other Token) bool { return EqualText(t.Reveal(), other.Reveal()) }

// IsZero reports whether t is no token at all.
func (t Token) IsZero() bool { return t.text == nil }

// Hash returns what we keep of the token.
func (t Token) Hash() Hash { return HashOf(t.Reveal()) }

// String, GoString, Format, LogValue and MarshalText keep the token out of
// every message, log line and document that it might stray into.
func (Token) String() string               { return redacted }
func (Token) GoString() string             { return redacted }
func (Token) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, redacted) }
func (Token) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Hash is the SHA-256 of a secret. Our secrets are 256 random bits, so a plain
// hash is enough (OWASP ASVS 5, 6.5.2 asks for a slow one below 112 bits).
type Hash [sha256.Size]byte

// HashOf returns the hash of text, whatever it spells.
func HashOf(text string) Hash { return sha256.Sum256([]byte(text)) }

// Equal reports whether the hashes are the same, in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// IsZero reports whether h was never set.
func (h Hash) IsZero() bool { return h == Hash{} }

// EqualText compares two texts in a time that depends on their lengths only.
func EqualText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// S256 is the code challenge of a verifier (RFC 7636 §4.6).
func S256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64URL.EncodeToString(sum[:])
}

func appendChecksum(b []byte) []byte {
	return appendBase62Digits(b, uint64(crc32.ChecksumIEEE(b)), checksumSize)
}

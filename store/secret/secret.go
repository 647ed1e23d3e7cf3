// Package secret creates and checks everything that must be unguessable: tokens, ids,
// the server key and passwords. No other package reads the system's randomness or
// imports golang.org/x/crypto (ACME apart), so a security review of it starts and ends
// here.
//
// [New] or [Key.Successor] creates a token. [Token.Reveal] returns its text once, for
// the response; the store keeps only its [Hash]. When the token comes back, [Parse]
// rejects anything malformed before the store is read. A Token cannot leak through a
// log: every way of formatting it prints "[redacted]".
package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what a token is for. It is the token's visible prefix: a token of one kind
// never passes for another, and secret scanners recognize ours.
type Kind string

// The kinds of token. The hash covers the prefix.
const (
	AccessToken  Kind = "tollat_"
	RefreshToken Kind = "tollrt_"
	Code         Kind = "tollac_"
	ClientSecret Kind = "tollcs_"
	SessionToken Kind = "tollss_"
)

const (
	kindSize     = 7
	bodySize     = 43 // base62 characters that hold 256 bits
	checksumSize = 6  // base62 characters that hold a CRC-32
	tokenSize    = kindSize + bodySize + checksumSize
)

const redacted = "[redacted]"

// Source fills b with random bytes. The sequence names their use: "id", "tail",
// "name", "count", "key" or a Kind. The nil Source is the system's randomness; only `dev
// --rand-seed`, which keeps no data, uses another.
type Source func(sequence string, b []byte)

func (s Source) fill(sequence string, b []byte) {
	if s == nil {
		rand.Read(b) // never fails: crypto/rand crashes the process instead
		return
	}
	own := make([]byte, len(b)) // so that b need not be on the heap
	s(sequence, own)
	copy(b, own)
}

// Token is a secret. The zero Token matches nothing.
//
// It holds a pointer because fmt prints unexported fields of structs without calling
// String; here it finds only an address. Compare tokens with Equal; the compiler
// rejects ==, which would compare addresses.
type Token struct {
	_    [0]func()
	text *string
}

// New returns a token of 256 random bits.
func New(from Source, kind Kind) Token {
	var random [32]byte
	from.fill(string(kind), random[:])
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

// Parse returns the token with that text and true, or false when text is not a
// well-formed token of that kind. The checksum catches every single wrong character,
// so typing errors never reach the store.
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

const (
	importedSizeMin = 20 // shorter ones can be guessed
	importedSizeMax = 512
)

// ParseImported returns the token of another system with that text, or false for one that is too
// short or too long, has other characters than visible ASCII, or has one of our prefixes.
func ParseImported(text string) (Token, bool) {
	if len(text) < importedSizeMin || len(text) > importedSizeMax || !isVisible(text) {
		return Token{}, false
	}
	switch Kind(text[:kindSize]) {
	case AccessToken, RefreshToken, Code, ClientSecret, SessionToken:
		return Token{}, false
	}
	return tokenOf(text), true
}

func isVisible(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}

// FixtureSizeMax is the size of a fixture's text in bytes.
const FixtureSizeMax = 1024

// Fixture returns a token whose text a test chose, or false for a text that is empty,
// too long, not UTF-8, or has control characters. It may be easy to guess, so only the
// store of dev looks it up.
func Fixture(text string) (Token, bool) {
	if text == "" || len(text) > FixtureSizeMax || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return Token{}, false
	}
	return tokenOf(text), true
}

// IsShort reports whether a secret that another system made could be guessed: one below 20
// characters or with fewer than 8 different ones.
func IsShort(text string) bool {
	different := map[rune]bool{}
	for _, r := range text {
		different[r] = true
	}
	return utf8.RuneCountInString(text) < 20 || len(different) < 8
}

// Reveal returns the token's text, for the one response that carries it.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Equal compares two tokens in constant time.
func (t Token) Equal(other Token) bool { return EqualText(t.Reveal(), other.Reveal()) }

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t.text == nil }

// Hash returns the hash that the store keeps.
func (t Token) Hash() Hash { return HashOf(t.Reveal()) }

// String, GoString, Format, LogValue and MarshalText redact the token wherever it
// might be printed.
func (Token) String() string               { return redacted }
func (Token) GoString() string             { return redacted }
func (Token) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, redacted) }
func (Token) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Hash is the SHA-256 of a secret. Our secrets have 256 random bits, so a fast hash is
// enough (OWASP ASVS 5, 6.5.2 requires a slow one below 112 bits). Our choice: a user
// code has 100, because it is typed; it lasts a day at most.
type Hash [sha256.Size]byte

// HashOf returns the hash of any text.
func HashOf(text string) Hash { return sha256.Sum256([]byte(text)) }

// Equal compares two hashes in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// IsZero reports whether h is the zero Hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// EqualText compares two texts in a time that depends only on their lengths.
func EqualText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// S256 returns the code challenge of a verifier (RFC 7636 §4.6).
func S256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64URL.EncodeToString(sum[:])
}

func appendChecksum(b []byte) []byte {
	return appendBase62Digits(b, uint64(crc32.ChecksumIEEE(b)), checksumSize)
}

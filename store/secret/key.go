package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

// KeySize is the length of the server key in bytes.
const KeySize = 32

// Nonce makes one rotation of a refresh token differ from every other.
type Nonce [16]byte

// NewNonce returns a random nonce.
func NewNonce() Nonce { return Nonce(NewID()) }

// Key is the server key: it seals what travels through the browser and derives
// the successors of refresh tokens. It is never in the store or in a backup, so
// neither of them alone yields a live token. Every use has a label of its own,
// from which a sub-key is derived, so that what was sealed for one purpose
// cannot be opened for another.
type Key struct{ bytes [KeySize]byte }

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	draw(ofKeys, k.bytes[:])
	return k
}

// ErrKey says that a server key has not the form that NewKey gives it.
var ErrKey = errors.New("a server key is 64 hexadecimal characters (32 bytes) on one line")

// ParseKey reads the text of a key file.
func ParseKey(text []byte) (Key, error) {
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != KeySize {
		return Key{}, ErrKey
	}
	return Key{bytes: [KeySize]byte(raw)}, nil
}

// Text returns the key as its file holds it, one line.
func (k Key) Text() []byte { return []byte(hex.EncodeToString(k.bytes[:]) + "\n") }

// Fingerprint names the key without telling anything of it: a backup carries it
// so that a restore can say whether the right key lies beside it.
func (k Key) Fingerprint() string {
	return hex.EncodeToString(k.subKey("fingerprint")[:8])
}

func (Key) String() string   { return redacted }
func (Key) GoString() string { return redacted }

func (k Key) subKey(label string) []byte {
	sub, err := hkdf.Key(sha256.New, k.bytes[:], nil, "tollhouse/"+label, KeySize)
	if err != nil {
		panic("secret: HKDF refused a fixed length: " + err.Error())
	}
	return sub
}

// Successor derives the token that replaces old: the same three always give the
// same token, which is how a repeated refresh gets the identical answer though
// only the nonce is stored.
func (k Key) Successor(kind Kind, old Token, nonce Nonce) Token {
	mac := hmac.New(sha256.New, k.bytes[:])
	mac.Write([]byte(kind))
	mac.Write([]byte(old.Reveal()))
	mac.Write(nonce[:])
	return newToken(kind, [32]byte(mac.Sum(nil)))
}

// MAC authenticates parts under a label. Each part is closed by its length, so
// that no two lists of parts give the same input.
func (k Key) MAC(label string, parts ...string) string {
	mac := hmac.New(sha256.New, k.subKey(label))
	for _, part := range parts {
		var size [8]byte
		n := uint64(len(part))
		for i := range size {
			size[i] = byte(n >> (8 * i))
		}
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return base64URL.EncodeToString(mac.Sum(nil))
}

// Seal encrypts and authenticates plain for the label, as text that fits a form
// field or a cookie.
func (k Key) Seal(label string, plain []byte) string {
	return base64URL.EncodeToString(k.cipher(label).Seal(nil, nil, plain, nil))
}

// Open returns what Seal sealed for the same label by the same key, or false.
func (k Key) Open(label, sealed string) ([]byte, bool) {
	raw, err := base64URL.Strict().DecodeString(sealed)
	if err != nil {
		return nil, false
	}
	plain, err := k.cipher(label).Open(nil, nil, raw, nil)
	return plain, err == nil
}

// cipher is AES-256-GCM with a random nonce, written in front of the text.
func (k Key) cipher(label string) cipher.AEAD {
	block, err := aes.NewCipher(k.subKey(label))
	if err != nil {
		panic("secret: AES refused a fixed key size: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("secret: GCM refused AES: " + err.Error())
	}
	return aead
}

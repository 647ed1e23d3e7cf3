package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
	"sync"
)

// KeySize is the length of the server key in bytes.
const KeySize = 32

// Nonce makes each rotation of a refresh token, and each derived code, unique.
type Nonce [16]byte

// NewCodeNonce returns the nonce of an authorization code.
func NewCodeNonce(from Source) (n Nonce) {
	from.fill(string(Code), n[:])
	return n
}

// NewNonce returns a random nonce.
func NewNonce(from Source) Nonce { return Nonce(NewID(from)) }

// Key is the server key. It seals data that passes through the browser and derives
// authorization codes and the successors of refresh tokens. It is never in the store or a backup, so neither alone
// yields a valid token. Each use derives a sub-key from a label, so that data sealed
// for one purpose cannot be opened for another.
type Key struct{ bytes [KeySize]byte }

// NewKey returns a random key.
func NewKey(from Source) Key {
	var k Key
	from.fill("key", k.bytes[:])
	return k
}

// ErrKey means that the text of a server key is malformed.
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

// Fingerprint identifies the key without revealing it. A backup carries it, so that a
// restore can check that the right key is present.
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

// Successors derives the tokens that replace old. The same arguments always give the
// same tokens: a repeated refresh gets the identical answer although only the nonce is
// stored.
func (k Key) Successors(old Token, nonce Nonce) (access, refresh Token) {
	s := states.Get().(*keyedState)
	defer s.release()
	if s.mac == nil || s.key != k {
		s.key, s.mac = k, hmac.New(sha256.New, k.bytes[:])
	}
	return s.derive(AccessToken, old, nonce), s.derive(RefreshToken, old, nonce)
}

// keyedState is the state of an HMAC after its key, which takes as long to make as the MAC of a
// token. It serves one call at a time.
type keyedState struct {
	key  Key
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

var states = sync.Pool{New: func() any { return &keyedState{} }}

func (s *keyedState) derive(kind Kind, old Token, nonce Nonce) Token {
	s.mac.Reset()
	s.text = append(append(append(s.text[:0], kind...), old.Reveal()...), nonce[:]...)
	s.mac.Write(s.text)
	s.mac.Sum(s.sum[:0])
	return newToken(kind, s.sum)
}

// release keeps the state, without anything of the token.
func (s *keyedState) release() {
	s.mac.Reset()
	clear(s.text)
	clear(s.sum[:])
	states.Put(s)
}

// Code derives the authorization code of a consent screen.
func (k Key) Code(ticket string, nonce Nonce) Token {
	mac := hmac.New(sha256.New, k.subKey("authorization code"))
	mac.Write([]byte(ticket))
	mac.Write(nonce[:])
	return newToken(Code, [32]byte(mac.Sum(nil)))
}

// MAC authenticates parts under a label. Each part is prefixed with its length, so
// that different lists give different input.
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

// Seal encrypts and authenticates plain for the label, as text for a form field or
// cookie.
func (k Key) Seal(label string, plain []byte) string {
	return base64URL.EncodeToString(k.cipher(label).Seal(nil, nil, plain, nil))
}

// Open returns what Seal sealed with the same key and label, or false.
func (k Key) Open(label, sealed string) ([]byte, bool) {
	raw, err := base64URL.Strict().DecodeString(sealed)
	if err != nil {
		return nil, false
	}
	plain, err := k.cipher(label).Open(nil, nil, raw, nil)
	return plain, err == nil
}

// cipher is AES-256-GCM with a random nonce in front of the ciphertext.
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

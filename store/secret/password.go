package secret

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

// Argon2id (RFC 9106) with OWASP's second choice of parameters: 19 MiB, two passes,
// one lane; about 28 ms on the machines we measured.
const (
	argonMemoryKiB = 19 * 1024
	argonPasses    = 2
	argonLanes     = 1
	argonSaltSize  = 16
	argonKeySize   = 32
)

// Upper bounds of a stored hash's parameters. They cover every version of ours, and a
// damaged record cannot demand all memory.
const (
	argonMemoryKiBMax = 256 * 1024
	argonPassesMax    = 16
	argonLanesMax     = 4
)

// RFC 9106 §3.1 allows no less: 8 KiB for each lane, and one pass.
const (
	argonMemoryKiBMin = 8
	argonPassesMin    = 1
)

// The bounds of a prepared password in bytes. Passwords are never truncated.
const (
	PasswordSizeMin = 12
	PasswordSizeMax = 1024
)

const (
	hashQueueMax = 64              // callers waiting for a turn to hash
	hashWaitMax  = 2 * time.Second // then the caller must try again
)

// ErrBusy means that too many passwords are being checked and this one was not.
var ErrBusy = errors.New("secret: too many passwords are being checked at once")

// Hasher hashes passwords, at most one per processor at a time: each takes 19 MiB and
// a core, so more at the same time would only delay all of them.
type Hasher struct {
	// OnHash, if set, is called after every call that got its turn or was refused with
	// ErrBusy, with its waiting and hashing times. Set it before the first call.
	OnHash func(waited, took time.Duration, refused bool)

	turns *turns
	cost  phc // parameters of new hashes, and of the one that an unknown user costs
}

// NewHasher returns a Hasher with a turn for each processor.
func NewHasher() *Hasher { return &Hasher{turns: newTurns(runtime.GOMAXPROCS(0)), cost: decoy} }

// NewQuickHasher is NewHasher with the least that Argon2id allows, 8 KiB and one pass:
// some microseconds, for a store that keeps nothing. Its hashes resist no guessing.
func NewQuickHasher() *Hasher {
	h := NewHasher()
	h.cost.memoryKiB, h.cost.passes = argonMemoryKiBMin, argonPassesMin
	return h
}

// Waiting returns how many callers wait to hash.
func (h *Hasher) Waiting() int { return h.turns.length() }

// Hash returns password in PHC format with a new salt. Errors: ErrBusy and ctx's.
func (h *Hasher) Hash(ctx context.Context, c Caller, password string) (string, error) {
	var salt [argonSaltSize]byte
	rand.Read(salt[:])
	p := h.cost
	p.salt = salt[:]
	keys, err := h.derive(ctx, c, p, PreparePassword(password))
	if err != nil {
		return "", err
	}
	p.key = keys[0]
	return p.String(), nil
}

// Verify reports whether password matches the PHC string, and whether the string
// should be renewed because our parameters have risen or it was made of a password as it
// was typed. An empty string means an unknown user: it takes the same time and never
// matches. A password that [PreparePassword] changes costs two hashes, for every user and
// whatever matches, so that the time tells nothing about the user. Errors: ErrBusy, ctx's,
// and one for a damaged string.
func (h *Hasher) Verify(ctx context.Context, c Caller, stored, password string) (match, renew bool, err error) {
	p, known := h.cost, false
	if stored != "" {
		if p, err = parsePHC(stored); err != nil {
			return false, false, err
		}
		known = true
	}
	forms := []string{PreparePassword(password)}
	if forms[0] != password {
		forms = append(forms, password)
	}
	keys, err := h.derive(ctx, c, p, forms...)
	if err != nil {
		return false, false, err
	}
	prepared := subtle.ConstantTimeCompare(keys[0], p.key) == 1
	typed := subtle.ConstantTimeCompare(keys[len(keys)-1], p.key) == 1
	renew = p.memoryKiB < h.cost.memoryKiB || p.passes < h.cost.passes || typed && !prepared
	return (prepared || typed) && known, renew, nil
}

// PreparePassword returns the form of a password that is hashed and compared: RFC 8265
// §4.2.2 OpaqueString, so that keyboards which compose letters differently, or write
// other spaces, type one password. Our choice: what the profile forbids is not refused, as
// people use joined emoji and characters newer than our tables.
func PreparePassword(password string) string {
	if !utf8.ValidString(password) {
		return password
	}
	return norm.NFC.String(strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Zs, c) {
			return ' '
		}
		return c
	}, password))
}

// decoy is the hash to compare with the password of an unknown user.
var decoy = phc{
	memoryKiB: argonMemoryKiB, passes: argonPasses, lanes: argonLanes,
	salt: make([]byte, argonSaltSize), key: make([]byte, argonKeySize),
}

// derive returns the key of each form of a password, in one turn.
func (h *Hasher) derive(ctx context.Context, c Caller, p phc, forms ...string) (keys [][]byte, err error) {
	came := time.Now() // only for OnHash
	done, err := h.turns.take(ctx, c)
	if errors.Is(err, ErrBusy) {
		h.report(time.Since(came), 0, true)
	}
	if err != nil {
		return nil, err
	}
	defer done()
	begun := time.Now()
	for _, form := range forms {
		keys = append(keys, argon2.IDKey([]byte(form), p.salt, p.passes, p.memoryKiB, p.lanes, argonKeySize))
	}
	h.report(begun.Sub(came), time.Since(begun), false)
	return keys, nil
}

func (h *Hasher) report(waited, took time.Duration, refused bool) {
	if h.OnHash != nil {
		h.OnHash(waited, took, refused)
	}
}

// phc is a password hash in the PHC string format.
type phc struct {
	memoryKiB uint32
	passes    uint32
	lanes     uint8
	salt, key []byte
}

func (p phc) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		p.memoryKiB, p.passes, p.lanes, b64.EncodeToString(p.salt), b64.EncodeToString(p.key))
}

var errPHC = errors.New("secret: stored password hash is damaged")

func parsePHC(text string) (phc, error) {
	var p phc
	var version int
	var salt, key string
	n, err := fmt.Sscanf(phcFields(text), "argon2id v=%d m=%d,t=%d,p=%d %s %s",
		&version, &p.memoryKiB, &p.passes, &p.lanes, &salt, &key)
	if err != nil || n != 6 || version != argon2.Version {
		return phc{}, errPHC
	}
	if p.salt, err = base64.RawStdEncoding.Strict().DecodeString(salt); err != nil {
		return phc{}, errPHC
	}
	if p.key, err = base64.RawStdEncoding.Strict().DecodeString(key); err != nil {
		return phc{}, errPHC
	}
	sound := p.memoryKiB >= argonMemoryKiBMin && p.memoryKiB <= argonMemoryKiBMax && p.passes >= argonPassesMin && p.passes <= argonPassesMax &&
		p.lanes >= 1 && p.lanes <= argonLanesMax && len(p.salt) >= 8 && len(p.key) == argonKeySize
	if !sound || p.String() != text {
		return phc{}, errPHC
	}
	return p, nil
}

// CheckPasswordHash rejects a text that [Hasher.Hash] cannot have returned.
func CheckPasswordHash(text string) error {
	_, err := parsePHC(text)
	return err
}

// phcFields turns dollar signs into spaces, on which Sscanf splits.
func phcFields(text string) string {
	b := []byte(text)
	for i, c := range b {
		switch c {
		case '$':
			b[i] = ' '
		case ' ', '\n', '\t', '\r':
			b[i] = '?' // the format has no white space
		}
	}
	if len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return string(b)
}

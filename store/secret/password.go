package secret

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/crypto/argon2"
)

// Argon2id as RFC 9106 and OWASP's second choice: 19 MiB, two passes, one lane,
// about 28 ms on the machines we measured.
const (
	argonMemoryKiB = 19 * 1024
	argonPasses    = 2
	argonLanes     = 1
	argonSaltSize  = 16
	argonKeySize   = 32
)

// The bounds of a stored hash's parameters: what our own versions may have
// written, and no more, so that a damaged record cannot ask for all memory.
const (
	argonMemoryKiBMax = 256 * 1024
	argonPassesMax    = 16
	argonLanesMax     = 4
)

// The lengths of a new password in bytes. The upper one bounds what is hashed;
// nothing is ever cut off.
const (
	PasswordSizeMin = 12
	PasswordSizeMax = 1024
)

const (
	hashQueueMax = 64              // callers waiting for a turn to hash
	hashWaitMax  = 2 * time.Second // a person waits so long, then is told to try again
)

// ErrBusy says that so many passwords are being checked that this one was not.
var ErrBusy = errors.New("secret: too many passwords are being checked at once")

// Hasher hashes people's passwords, at most one a processor at a time: each
// takes 19 MiB and a core, and more at once only makes all of them late.
type Hasher struct {
	// OnHash is told of every call that got its turn, or was refused one with
	// ErrBusy: how long it waited, and how long it hashed. Set it before the
	// first call; nil tells nobody.
	OnHash func(waited, took time.Duration, refused bool)

	turns chan struct{}
	queue chan struct{}
}

// NewHasher returns a Hasher with a turn for each processor.
func NewHasher() *Hasher {
	turns := runtime.GOMAXPROCS(0)
	return &Hasher{turns: make(chan struct{}, turns), queue: make(chan struct{}, turns+hashQueueMax)}
}

// Waiting returns how many callers wait for their turn to hash.
func (h *Hasher) Waiting() int { return max(len(h.queue)-len(h.turns), 0) }

// Hash returns the PHC string of password under a new salt. Errors: ErrBusy,
// ctx's.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	var salt [argonSaltSize]byte
	draw(ofSalts, salt[:])
	p := phc{memoryKiB: argonMemoryKiB, passes: argonPasses, lanes: argonLanes, salt: salt[:]}
	key, err := h.derive(ctx, p, password, argonKeySize)
	if err != nil {
		return "", err
	}
	p.key = key
	return p.String(), nil
}

// Verify reports whether password is the one behind the PHC string, and whether
// the string should be renewed because our parameters have risen since. An
// empty string stands for an unknown user: it costs the same time and never
// matches. Errors: ErrBusy, ctx's, and one for a damaged string.
func (h *Hasher) Verify(ctx context.Context, stored, password string) (match, renew bool, err error) {
	p, known := nobody, false
	if stored != "" {
		if p, err = parsePHC(stored); err != nil {
			return false, false, err
		}
		known = true
	}
	key, err := h.derive(ctx, p, password, uint32(len(p.key)))
	if err != nil {
		return false, false, err
	}
	same := subtle.ConstantTimeCompare(key, p.key) == 1
	renew = p.memoryKiB < argonMemoryKiB || p.passes < argonPasses
	return same && known, renew, nil
}

// nobody is the hash that an unknown user's password is compared with.
var nobody = phc{
	memoryKiB: argonMemoryKiB, passes: argonPasses, lanes: argonLanes,
	salt: make([]byte, argonSaltSize), key: make([]byte, argonKeySize),
}

func (h *Hasher) derive(ctx context.Context, p phc, password string, size uint32) ([]byte, error) {
	came := time.Now() // measures the wait and decides nothing
	select {
	case h.queue <- struct{}{}:
		defer func() { <-h.queue }()
	default:
		h.tell(0, 0, true)
		return nil, ErrBusy
	}
	wait := time.NewTimer(hashWaitMax)
	defer wait.Stop()
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-wait.C:
		h.tell(time.Since(came), 0, true)
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	begun := time.Now()
	key := argon2.IDKey([]byte(password), p.salt, p.passes, p.memoryKiB, p.lanes, size)
	h.tell(begun.Sub(came), time.Since(begun), false)
	return key, nil
}

func (h *Hasher) tell(waited, took time.Duration, refused bool) {
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
	sound := p.memoryKiB >= 8 && p.memoryKiB <= argonMemoryKiBMax && p.passes >= 1 && p.passes <= argonPassesMax &&
		p.lanes >= 1 && p.lanes <= argonLanesMax && len(p.salt) >= 8 && len(p.key) == argonKeySize
	if !sound || p.String() != text {
		return phc{}, errPHC
	}
	return p, nil
}

// CheckPasswordHash refuses what [Hasher.Hash] cannot have returned.
func CheckPasswordHash(text string) error {
	_, err := parsePHC(text)
	return err
}

// phcFields turns the dollar signs into spaces, which Sscanf splits at.
func phcFields(text string) string {
	b := []byte(text)
	for i, c := range b {
		switch c {
		case '$':
			b[i] = ' '
		case ' ', '\n', '\t', '\r':
			b[i] = '?' // white space is no part of the format
		}
	}
	if len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return string(b)
}

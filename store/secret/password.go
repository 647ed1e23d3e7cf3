package secret

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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

// RFC 9106 §3.1 allows no less: 8 KiB for each lane, and one pass.
const (
	argonMemoryKiBMin = 8
	argonPassesMin    = 1
)

// serverCost are the parameters of [NewHasher].
var serverCost = [3]uint32{argonMemoryKiB, argonPasses, argonLanes}

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
	cost  [3]uint32 // of new hashes, and of the one that an unknown user costs

	measured measured
	recent   recent
}

// NewHasher returns a Hasher with a turn for each processor.
func NewHasher() *Hasher { return &Hasher{turns: newTurns(runtime.GOMAXPROCS(0)), cost: serverCost} }

// NewQuickHasher is NewHasher with the least that Argon2id allows, 8 KiB and one pass:
// some microseconds, for a store that keeps nothing. Its hashes resist no guessing.
func NewQuickHasher() *Hasher {
	h := NewHasher()
	h.cost[0], h.cost[1] = argonMemoryKiBMin, argonPassesMin
	return h
}

// Waiting returns how many callers wait to hash.
func (h *Hasher) Waiting() int { return h.turns.length() }

// newHash returns a hash with our parameters, an empty salt and no key.
func (h *Hasher) newHash() foreignHash {
	return foreignHash{scheme: argon2id, cost: h.cost, salt: make([]byte, argonSaltSize), size: argonKeySize}
}

// Hash returns password in PHC format with a new salt. Errors: ErrBusy and ctx's.
func (h *Hasher) Hash(ctx context.Context, c Caller, password string) (string, error) {
	p := h.newHash()
	rand.Read(p.salt)
	_, err := h.inTurn(ctx, c, p.memoryKiB(), func() { p.key = p.derive([]byte(PreparePassword(password))) })
	if err != nil {
		return "", err
	}
	return p.phc(), nil
}

// Verdict is what a check of a password found.
type Verdict struct {
	Match bool
	// Renew reports whether a hash that matches is to be replaced by one of ours: it is another
	// system's, our parameters have risen, or it was made of a password as it was typed.
	Renew bool
	// Began is when the turn began.
	Began time.Time

	forms int // of the password that were checked
}

// Verify checks a password against the hash of a record: ours, or another system's as
// [ParseForeign] and [Hasher.Wrap] return it. An empty string means an unknown user: it takes the
// time of a hash of ours and never matches. A password that [PreparePassword] changes is checked in
// both forms, for every user and whatever matches, so that the time tells nothing about the user.
// Errors: ErrBusy, ctx's, and one for a damaged string.
func (h *Hasher) Verify(ctx context.Context, c Caller, stored, password string) (Verdict, error) {
	k := kept{inner: h.newHash()}
	if stored != "" {
		var err error
		if k, err = parseKept(stored); err != nil {
			return Verdict{}, err
		}
	}
	forms := passwordForms(password)
	keys := make([][]byte, len(forms))
	began, err := h.inTurn(ctx, c, k.memoryKiB(), func() {
		for i, form := range forms {
			keys[i] = k.derive(form)
		}
	})
	if err != nil {
		return Verdict{}, err
	}
	if stored != "" && !h.isCurrent(k, stored) {
		h.recent.note(time.Since(began) / time.Duration(len(forms)))
	}
	prepared := subtle.ConstantTimeCompare(keys[0], k.key()) == 1
	typed := subtle.ConstantTimeCompare(keys[len(keys)-1], k.key()) == 1
	v := Verdict{Match: (prepared || typed) && stored != "", Began: began, forms: len(forms)}
	// The hash of a password that bcrypt cut off would be one of whatever was typed behind.
	cut := k.inner.scheme.truncates && len(slices.MaxFunc(forms, byLength)) > bcryptRead
	v.Renew = !cut && (!h.isCurrent(k, stored) || typed && !prepared)
	return v, nil
}

// passwordForms returns the forms in which a password is checked: prepared and, if that differs, as
// it was typed. No hash is of a form that is too long, and T does not cover its check.
func passwordForms(password string) []string {
	prepared := PreparePassword(password)
	switch {
	case prepared == password, len(prepared) > PasswordSizeMax:
		return []string{password}
	case len(password) > PasswordSizeMax:
		return []string{prepared}
	}
	return []string{prepared, password}
}

func byLength(a, b string) int { return cmp.Compare(len(a), len(b)) }

// isCurrent reports whether a hash has our parameters, or those of a server, which a store that
// keeps nothing leaves.
func (h *Hasher) isCurrent(k kept, stored string) bool {
	in := k.inner
	return !k.isWrapped && !strings.HasPrefix(stored, djangoArgon2) && in.scheme == argon2id && in.size == argonKeySize && (in.cost == h.cost || in.cost == serverCost)
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

// inTurn does work that takes so much memory in one turn, and returns when that began. Errors:
// ErrBusy and ctx's.
func (h *Hasher) inTurn(ctx context.Context, c Caller, memoryKiB uint32, work func()) (began time.Time, err error) {
	came := time.Now() // only to measure
	done, err := h.turns.take(ctx, c, memoryKiB > argonMemoryKiB)
	if errors.Is(err, ErrBusy) {
		h.report(time.Since(came), 0, true)
	}
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	began = time.Now()
	work()
	h.report(began.Sub(came), time.Since(began), false)
	return began, nil
}

func (h *Hasher) report(waited, took time.Duration, refused bool) {
	if h.OnHash != nil {
		h.OnHash(waited, took, refused)
	}
}

var errDamagedHash = errors.New("secret: stored password hash is damaged")

// CheckPasswordHash rejects a text that the record of a user cannot have: one that [Hasher.Hash] does
// not return or, if the hash was imported, one that [ParseForeign] and [Hasher.Wrap] do not.
func CheckPasswordHash(text string, isImported bool) error {
	k, err := parseKept(text)
	isOurs := !k.isWrapped && k.inner.scheme == argon2id && k.inner.size == argonKeySize
	if err == nil && (isImported && !k.isWrapped && !k.inner.isKept() || !isImported && !isOurs) {
		err = errDamagedHash
	}
	return err
}

package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// foretold is nil in every process but a `dev --rand-seed`.
var foretold atomic.Pointer[oracle]

// Foretell makes all that this process draws from now on follow from seed, so
// that a test gets the same ids, codes and tokens each time it asks the same.
// Whoever knows the seed knows them too: it is for throwaway instances in memory
// alone, and cannot be undone.
//
// Each kind of thing has a sequence of its own: the third access token is the
// same however many requests were numbered before it. What is sealed for a
// browser (consent tickets, device cookies) stays random, since nothing of it is
// kept.
func Foretell(seed uint64) { foretold.Store(newOracle(seed)) }

// IsForetold reports whether Foretell was called. Whoever keeps anything on disk
// must refuse to then.
func IsForetold() bool { return foretold.Load() != nil }

// The sequences beside those of the kinds of token.
const (
	ofKeys     = "key"
	ofIDs      = "id"
	ofTails    = "tail"
	ofLate     = "late tail"
	ofTexts    = "text"
	ofNames    = "name"
	ofSalts    = "salt"
	drawingMax = sha256.Size // bytes of one drawing
)

// draw fills b, at most drawingMax bytes, from the system's randomness, which
// never fails: crypto/rand ends the process instead.
func draw(sequence string, b []byte) {
	if o := foretold.Load(); o != nil {
		o.draw(sequence, b)
		return
	}
	rand.Read(b)
}

// oracle is where foretold drawings come from: the n-th of a sequence is the
// SHA-256 of seed, sequence and n.
type oracle struct {
	seed  uint64
	mu    sync.Mutex
	drawn map[string]uint64
}

func newOracle(seed uint64) *oracle { return &oracle{seed: seed, drawn: map[string]uint64{}} }

func (o *oracle) draw(sequence string, b []byte) {
	if len(b) > drawingMax {
		panic("secret: a foretold drawing is too long")
	}
	o.mu.Lock()
	n := o.drawn[sequence]
	o.drawn[sequence] = n + 1
	o.mu.Unlock()
	input := append([]byte("tollhouse/foretold/"), sequence...)
	input = binary.BigEndian.AppendUint64(append(input, 0), o.seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(input, n))
	copy(b, sum[:])
}

// base32Digits are those of rand.Text (RFC 4648 §6).
const base32Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// text returns a string of the form of rand.Text.
func text(sequence string) string {
	if foretold.Load() == nil {
		return rand.Text()
	}
	var b [CrockfordSize]byte // 26 characters here and there
	draw(sequence, b[:])
	for i := range b {
		b[i] = base32Digits[b[i]&31]
	}
	return string(b[:])
}

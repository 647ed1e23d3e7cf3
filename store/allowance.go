package store

import (
	"errors"
	"sync"
	"time"
)

// ErrTooOften means that a family has refreshed too often and must wait, at most
// RotationEvery, or that a client has requested tokens for itself too often and must wait,
// at most ClientGrantEvery. Nothing was changed.
var ErrTooOften = errors.New("too often")

// Spent refresh tokens are kept until their family ends, so a client that refreshes as
// fast as it can would fill the disk. A family therefore gets a large burst of
// rotations and then a slow rate. A normal client refreshes about once per access
// token lifetime and never reaches the limit.
//
// A grant to a client that acts for itself adds a line to the audit log, so each client gets
// the same burst. Its rate is higher, because all machines of a client share it.
const (
	allowedAtOnce    = 100_000
	RotationEvery    = 10 * time.Second
	ClientGrantEvery = time.Second
)

// allowance counts recent rotations of families, or grants to clients, in memory only; a
// restart resets it. Each process that shares the engine allows the whole burst and rate:
// the limit bounds the disk that a client can fill, whatever the factor.
type allowance[K comparable] struct {
	mu     sync.Mutex
	every  time.Duration
	atOnce time.Duration   // burst size, as the time to forget it
	owes   map[K]time.Time // when all that it was allowed is forgotten
}

const allowancesMax = 16_384 // families or clients in memory, under 1 MiB

func (o *allowance[K]) init(atOnce int, every time.Duration) {
	if atOnce == 0 {
		atOnce = allowedAtOnce
	}
	o.every, o.atOnce, o.owes = every, time.Duration(atOnce)*every, map[K]time.Time{}
}

// allows reports whether a family may be rotated, or a client be granted tokens, now.
func (o *allowance[K]) allows(of K, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	owes := o.owes[of].Sub(now)
	return owes <= o.atOnce-o.every || owes > o.atOnce // impossible value: the clock stepped back
}

func (o *allowance[K]) note(of K, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owes := o.owes[of]
	if owes.Before(now) || owes.Sub(now) > o.atOnce {
		owes = now
	}
	if len(o.owes) >= allowancesMax {
		o.forget(now)
	}
	o.owes[of] = owes.Add(o.every)
}

// forget makes room: first it drops entries that have expired, then an arbitrary half.
func (o *allowance[K]) forget(now time.Time) {
	for of, owes := range o.owes {
		if !owes.After(now) {
			delete(o.owes, of)
		}
	}
	for of := range o.owes {
		if len(o.owes) <= allowancesMax/2 {
			return
		}
		delete(o.owes, of)
	}
}

package store

import (
	"errors"
	"sync"
	"time"

	"tollhouse/store/secret"
)

// ErrTooOften means that a family has refreshed too often and must wait, at most
// RotationEvery. Nothing was changed.
var ErrTooOften = errors.New("refreshed too often")

// Spent refresh tokens are kept until their family ends, so a client that refreshes as
// fast as it can would fill the disk. A family therefore gets a large burst of
// rotations and then a slow rate. A normal client refreshes about once per access
// token lifetime and never reaches the limit.
const (
	rotationsAtOnce = 100_000
	RotationEvery   = 10 * time.Second
)

// rotations counts recent rotations of families, in memory only; a restart resets it.
// Each process that shares the engine allows the whole burst and rate: the limit bounds
// the disk that a client can fill, whatever the factor.
type rotations struct {
	mu     sync.Mutex
	atOnce time.Duration           // burst size, as the time to forget it
	owes   map[secret.ID]time.Time // when the family's rotations are all forgotten
}

const rotatingMax = 16_384 // families in memory, under 1 MiB

func (o *rotations) init(atOnce int) {
	if atOnce == 0 {
		atOnce = rotationsAtOnce
	}
	o.atOnce, o.owes = time.Duration(atOnce)*RotationEvery, map[secret.ID]time.Time{}
}

// allows reports whether a family may be rotated now.
func (o *rotations) allows(family secret.ID, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	owes := o.owes[family].Sub(now)
	return owes <= o.atOnce-RotationEvery || owes > o.atOnce // impossible value: the clock stepped back
}

func (o *rotations) note(family secret.ID, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	owes := o.owes[family]
	if owes.Before(now) || owes.Sub(now) > o.atOnce {
		owes = now
	}
	if len(o.owes) >= rotatingMax {
		o.forget(now)
	}
	o.owes[family] = owes.Add(RotationEvery)
}

// forget makes room: first it drops entries that have expired, then an arbitrary half.
func (o *rotations) forget(now time.Time) {
	for family, owes := range o.owes {
		if !owes.After(now) {
			delete(o.owes, family)
		}
	}
	for family := range o.owes {
		if len(o.owes) <= rotatingMax/2 {
			return
		}
		delete(o.owes, family)
	}
}

package store

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"tollhouse/store/secret"
)

// ErrTooOften means that a family has refreshed too often and must wait, at most
// RotationEvery, or that a client has requested tokens for itself, or been authorized by
// one user, too often and must wait, at most ClientGrantEvery. Nothing was changed.
var ErrTooOften = errors.New("too often")

// Spent refresh tokens are kept until their family ends, so a client that refreshes as
// fast as it can would fill the disk. A family therefore gets a large burst of
// rotations and then a slow rate. A normal client refreshes about once per access
// token lifetime and never reaches the limit.
//
// A grant to a client that acts for itself adds a line to the audit log, so each client gets
// the same burst. Its rate is higher, because all machines of a client share it.
//
// A password or an authorization code starts a family, which is kept for a year. One user
// gets as many of them for one client: a test suite that signs the same user in ten times a
// second is not slowed down for three hours.
const (
	allowedAtOnce    = 100_000
	RotationEvery    = 10 * time.Second // per family, after its burst
	ClientGrantEvery = time.Second      // per client, or user of a client, after its burst
)

// granted is whom a client acts for: a user, or, with a zero id, itself.
type granted struct {
	client string
	user   secret.ID
}

func (l lineage) granted() granted { return granted{client: l.client, user: l.user} }

// allowance counts recent rotations of families, or grants, in memory only; a
// restart resets it. Each process that shares the engine allows the whole burst and rate:
// the limit bounds the disk that a client can fill, whatever the factor.
type allowance[K comparable] struct {
	mu     sync.Mutex
	every  time.Duration
	atOnce time.Duration   // burst size, as the time to forget it
	owes   map[K]time.Time // when all that it was allowed is forgotten
}

const allowancesMax = 16_384 // families or grants in memory, under 2 MiB

func (o *allowance[K]) init(atOnce int, every time.Duration) {
	if atOnce == 0 {
		atOnce = allowedAtOnce
	}
	o.every, o.atOnce, o.owes = every, time.Duration(atOnce)*every, map[K]time.Time{}
}

// allows reports whether a family may be rotated, or a grant be given, now.
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
		o.forget()
	}
	o.owes[of] = owes.Add(o.every)
}

// forget makes room: it drops the half that owes least, so that those who have used up
// their allowance stay bounded.
func (o *allowance[K]) forget() {
	byOwed := slices.SortedFunc(maps.Values(o.owes), time.Time.Compare)
	kept := byOwed[len(byOwed)-allowancesMax/2]
	for of, owes := range o.owes {
		if len(o.owes) <= allowancesMax/2 {
			return
		}
		if !owes.After(kept) {
			delete(o.owes, of)
		}
	}
}

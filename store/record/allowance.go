package record

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Allowance counts recently used units per K, such as rotations of a family, in memory
// only; a restart resets it. Each process that shares the engine allows the whole burst
// and rate: the limit bounds the disk that a client can fill, whatever the factor. It
// is safe for concurrent use.
type Allowance[K comparable] struct {
	mu     sync.Mutex
	every  time.Duration   // in which a unit is forgotten
	atOnce time.Duration   // burst size, as the time to forget it
	most   time.Duration   // that is remembered
	owes   map[K]time.Time // when all that it used is forgotten
	latest time.Time       // of them, ever
}

const allowancesMax = 16_384 // in memory, under 2 MiB

// Init allows atOnce units, and then one in every. What is used beyond the burst, by
// those who do not ask, is remembered up to another burst if beyond is true.
func (o *Allowance[K]) Init(atOnce int64, every time.Duration, beyond bool) {
	o.every, o.atOnce, o.owes = every, time.Duration(atOnce)*every, map[K]time.Time{}
	if o.most = o.atOnce; beyond {
		o.most = 2 * o.atOnce
	}
}

// SetEvery changes the time in which a unit is forgotten. The burst stays the same number.
func (o *Allowance[K]) SetEvery(every time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.atOnce, o.most, o.every = o.atOnce/o.every*every, o.most/o.every*every, every
}

// Allows reports whether another unit may be used now.
func (o *Allowance[K]) Allows(of K, now time.Time) bool { return o.Wait(of, now) == 0 }

// Wait returns in what time another unit may be used.
func (o *Allowance[K]) Wait(of K, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, o.used(of, now)-(o.atOnce-o.every))
}

// used returns the time in which all is forgotten. Impossible values count as zero: the clock
// stepped back.
func (o *Allowance[K]) used(of K, now time.Time) time.Duration {
	if used := o.owes[of].Sub(now); used > 0 && used <= o.most {
		return used
	}
	return 0
}

// Note counts n units; less than 0 takes them back.
func (o *Allowance[K]) Note(of K, n int64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.owes) >= allowancesMax {
		o.forget()
	}
	used := min(o.used(of, now)+time.Duration(n)*o.every, o.most)
	o.owes[of] = now.Add(used)
	if o.owes[of].After(o.latest) || o.latest.Sub(now) > o.most {
		o.latest = o.owes[of]
	}
}

// IsBusiest reports whether it has used at least half of what the busiest one has, and at
// least that many units.
func (o *Allowance[K]) IsBusiest(of K, least int64, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	used := o.used(of, now)
	return used >= time.Duration(least)*o.every && used >= o.latest.Sub(now)/2
}

// forget makes room: it drops the half that used least, so that those who have used up
// their allowance stay bounded.
func (o *Allowance[K]) forget() {
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

package throttle

import (
	"hash/maphash"
	"net/netip"
	"time"

	"tollhouse/store/secret"
)

const (
	ownTurnsMax   = 20      // a minute and name, of all sources together
	ownNamesMax   = 1 << 12 // names with such turns
	ownAskedMax   = 9       // turns that a source leaves to those that asked less often
	tallyCells    = 1 << 19 // of a row
	tallyCountMax = 1<<8 - 1
)

// ownTurns lets a source try a name whose bucket must wait, if it has not failed for this
// name itself. All sources of a name share these turns. A turn goes to those that have asked
// in vain least often: sources that ask without end, however many, leave some turns to one
// that arrives later.
type ownTurns struct {
	names         buckets[secret.Hash]
	failing, vain *tally
}

func newOwnTurns(now time.Time) ownTurns {
	return ownTurns{names: newBuckets[secret.Hash](ownNamesMax, ownTurnsMax), failing: newTally(now), vain: newTally(now)}
}

// take takes a turn of the name for an attempt from source, or returns how long there is
// none, or false if the source has no turns of its own.
func (o ownTurns) take(name secret.Hash, source netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	asked := 0
	for n := range Networks(source) {
		if o.failing.count(name, n.Prefix, now) >= n.Sources {
			return 0, false
		}
		asked = max(asked, o.vain.count(name, n.Prefix, now)/n.Sources)
		ok = true
	}
	if !ok { // no address
		return 0, false
	}
	b, _ := o.names.cache.Get(name)
	if b.wait(now, ownTurnsMax, 1+min(asked, ownAskedMax)) == 0 {
		o.names.charge(name, 1, now)
		return 0, true
	}
	for n := range Networks(source) {
		o.vain.add(name, n.Prefix, now)
	}
	return b.wait(now, ownTurnsMax, 1+min(asked+1, ownAskedMax)), true
}

// giveBack returns a turn in which nothing was checked.
func (o ownTurns) giveBack(name secret.Hash, now time.Time) {
	b, _ := o.names.cache.Get(name)
	o.names.cache.Add(name, b.charged(now, ownTurnsMax, -1))
}

// anyName stands for all names in the counts of a source's failures.
var anyName secret.Hash

// failures returns how often a source of the network failed lately, up to the limit of a
// source.
func (o ownTurns) failures(n Network, now time.Time) int {
	return min(o.failing.count(anyName, n.Prefix, now)/n.Sources, sourceFailuresMax)
}

// failed ends the turns of a source for a name.
func (o ownTurns) failed(name secret.Hash, source netip.Addr, now time.Time) {
	for n := range Networks(source) {
		o.failing.add(name, n.Prefix, now)
	}
}

// tally counts by name and network in a fixed memory of 2 MiB: a count-min sketch of two
// rows, which may count too much for a few, and never too little. It forgets a count after
// one to two times userForgottenAfter.
type tally struct {
	seed        maphash.Seed
	since       time.Time
	now, before [2][]uint8
}

func newTally(now time.Time) *tally {
	t := &tally{seed: maphash.MakeSeed(), since: now}
	for i := range t.now {
		t.now[i], t.before[i] = make([]uint8, tallyCells), make([]uint8, tallyCells)
	}
	return t
}

type tallied struct {
	name    secret.Hash
	network netip.Prefix
}

// cells returns the cell of each row.
func (t *tally) cells(name secret.Hash, network netip.Prefix) [2]uint64 {
	sum := maphash.Comparable(t.seed, tallied{name, network})
	return [2]uint64{sum % tallyCells, sum >> 32 % tallyCells}
}

func (t *tally) count(name secret.Hash, network netip.Prefix, now time.Time) int {
	t.forget(now)
	least := 2 * tallyCountMax
	for row, cell := range t.cells(name, network) {
		least = min(least, int(t.now[row][cell])+int(t.before[row][cell]))
	}
	return least
}

func (t *tally) add(name secret.Hash, network netip.Prefix, now time.Time) {
	t.forget(now)
	for row, cell := range t.cells(name, network) {
		if count := &t.now[row][cell]; *count < tallyCountMax {
			*count++
		}
	}
}

// forget drops the older counts. A clock that was set back starts a new period.
func (t *tally) forget(now time.Time) {
	age := now.Sub(t.since)
	if age >= 0 && age < userForgottenAfter {
		return
	}
	t.since, t.now, t.before = now, t.before, t.now
	for row := range t.now {
		clear(t.now[row])
		if age >= 2*userForgottenAfter {
			clear(t.before[row])
		}
	}
}

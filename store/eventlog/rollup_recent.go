package eventlog

import (
	"slices"
)

// recentCounts has the events of the newest hours by slot, for the shortest plots.
// They are made from the log at start, and again whenever an hour is counted anew.
type recentCounts struct {
	from  uint32                      // the first hour
	slots map[uint32]map[string]Tally // by slot and account
	size  int                         // see sizeOf
	lost  map[uint32]struct{}         // slots with too many accounts
	seen  map[string]slotsSeen        // by account
}

// slotsSeen says what the slots of an account were made from. They hold while its
// records are the same.
type slotsSeen struct {
	whole   counted // the record of all accounts
	was     counted
	changes uint64 // the head's generation
}

// recentMax bounds the memory of recent counts to some 2 MiB: 40 accounts with events of
// eight kinds in every slot of three hours. A busier slot is unknown.
const recentMax = 1 << 15

// sizeOf is what a tally takes of recentMax: one for itself and one for each kind.
func sizeOf(t Tally) int { return 1 + len(t) }

func (rc *recentCounts) init() { rc.begin(0) }

// begin drops everything; accounts must be counted anew from the hour from on.
func (rc *recentCounts) begin(from uint32) {
	*rc = recentCounts{from: from, slots: map[uint32]map[string]Tally{}, lost: map[uint32]struct{}{}, seen: map[string]slotsSeen{}}
}

// advance drops the hours before from. It returns false if the clock was stepped back
// to an hour that has been dropped.
func (rc *recentCounts) advance(from uint32) bool {
	if from <= rc.from {
		return from == rc.from
	}
	for owner, s := range rc.seen {
		if ByHour.unit(s.was.position.Millis()) < from {
			delete(rc.seen, owner)
		}
	}
	for slot := range rc.slots {
		if slot/slotsOfHour < from {
			rc.drop(slot)
		}
	}
	for slot := range rc.lost {
		if slot/slotsOfHour < from {
			delete(rc.lost, slot)
		}
	}
	rc.from = from
	return true
}

// add adds events of an account to a slot.
func (rc *recentCounts) add(owner string, slot uint32, t Tally) {
	if _, lost := rc.lost[slot]; lost || len(t) == 0 {
		return
	}
	accounts := rc.slots[slot]
	if accounts == nil {
		accounts = map[string]Tally{}
		rc.slots[slot] = accounts
	}
	after := rc.take(owner, slot).Add(t)
	accounts[owner] = after
	rc.size += sizeOf(after)
	if rc.size > recentMax {
		rc.drop(slot)
		rc.lost[slot] = struct{}{}
	}
}

// take removes an account's events in a slot and returns them.
func (rc *recentCounts) take(owner string, slot uint32) Tally {
	t, has := rc.slots[slot][owner]
	if has {
		delete(rc.slots[slot], owner)
		rc.size -= sizeOf(t)
	}
	return t
}

// drop drops a slot.
func (rc *recentCounts) drop(slot uint32) {
	for _, t := range rc.slots[slot] {
		rc.size -= sizeOf(t)
	}
	delete(rc.slots, slot)
}

// forget drops an account's events in an hour.
func (rc *recentCounts) forget(owner string, hour uint32) {
	for slot := hour * slotsOfHour; slot < (hour+1)*slotsOfHour; slot++ {
		rc.take(owner, slot)
	}
}

// forgetAll drops an account.
func (rc *recentCounts) forgetAll(owner string) {
	for slot := range rc.slots {
		rc.take(owner, slot)
	}
	delete(rc.seen, owner)
}

// recentUnits returns the slots from first on and before end that have events.
func (ru *rollup) recentUnits(owner string, first, end uint32) (units []CountedUnit) {
	ru.mu.Lock()
	defer ru.mu.Unlock()
	for slot := first; slot < end; slot++ {
		var t Tally
		if owner != allAccounts {
			t = slices.Clone(ru.recent.slots[slot][owner])
		} else {
			for _, each := range ru.recent.slots[slot] {
				t = t.Add(each)
			}
		}
		_, lost := ru.recent.lost[slot]
		if len(t) > 0 || lost {
			units = append(units, CountedUnit{Start: BySlot.start(slot), Tally: t, Unknown: lost})
		}
	}
	return units
}

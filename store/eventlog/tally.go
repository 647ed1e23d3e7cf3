package eventlog

import (
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Tally counts events by the kind of their resource, sorted by kind. The kind
// [OtherKinds] sums up the kinds beyond tallyKindsMax.
type Tally []KindCount

// KindCount is the number of events of a kind.
type KindCount struct {
	Kind  string
	Count uint64
}

// OtherKinds represents the kinds that a Tally does not list.
const OtherKinds = ""

const (
	tallyKindsMax = 64 // keeps a record below 3 KiB
	tallySizeMax  = 3 << 10
	tallyRecord   = 1
)

// Total returns the number of events of all kinds.
func (t Tally) Total() (n uint64) {
	for _, c := range t {
		n += c.Count
	}
	return n
}

func (t Tally) find(kind string) (int, bool) {
	return slices.BinarySearchFunc(t, kind, func(c KindCount, kind string) int { return strings.Compare(c.Kind, kind) })
}

// others returns the count of the kinds that t does not list.
func (t Tally) others() uint64 {
	if len(t) > 0 && t[0].Kind == OtherKinds {
		return t[0].Count
	}
	return 0
}

func (t Tally) isFull() bool {
	return len(t) > tallyKindsMax || len(t) == tallyKindsMax && t.others() == 0
}

// with returns t with n more events of a kind. It may change t.
func (t Tally) with(kind string, n uint64) Tally {
	i, has := t.find(kind)
	switch {
	case n == 0:
		return t
	case has:
		t[i].Count += n
		return t
	case kind != OtherKinds && t.isFull():
		return t.with(OtherKinds, n)
	}
	return slices.Insert(t, i, KindCount{kind, n})
}

// without returns t with n fewer events of a kind, or false if t has not as many. A
// kind may have been counted among the others before it was listed. It may change t.
func (t Tally) without(kind string, n uint64) (Tally, bool) {
	if i, has := t.find(kind); has {
		taken := min(n, t[i].Count)
		n -= taken
		if t[i].Count -= taken; t[i].Count == 0 {
			t = slices.Delete(t, i, i+1)
		}
	}
	if n == 0 || kind == OtherKinds {
		return t, n == 0
	}
	return t.without(OtherKinds, n)
}

// plus returns t with n more events of a kind, or -n fewer. It may change t.
func (t Tally) plus(kind string, n int64) Tally {
	if n < 0 {
		t, _ = t.without(kind, uint64(-n)) // fewer than that only if the record was damaged
		return t
	}
	return t.with(kind, uint64(n))
}

// Add returns t with the events of u added. It may change t, not u.
func (t Tally) Add(u Tally) Tally {
	for _, c := range u {
		t = t.with(c.Kind, c.Count)
	}
	return t
}

// agrees reports whether t and u count the same events. Which kinds are listed
// depends on the order of counting once there are too many.
func (t Tally) agrees(u Tally) bool {
	if t.others() > 0 || u.others() > 0 {
		return t.Total() == u.Total()
	}
	return slices.Equal(t, u)
}

func encodeTally(t Tally) []byte {
	e := record.NewEncoder(tallyRecord)
	e.Uint(uint64(len(t)))
	for _, c := range t {
		e.Str(c.Kind).Uint(c.Count)
	}
	return e.B
}

func decodeTally(v []byte) (Tally, error) {
	d := record.NewDecoder("counts", tallyRecord, v)
	n := d.Uint()
	if n > tallyKindsMax+1 {
		d.Fail("has too many kinds")
		n = 0
	}
	t := make(Tally, 0, n)
	for range n {
		c := KindCount{Kind: d.Str(), Count: d.Uint()}
		if len(t) > 0 && t[len(t)-1].Kind >= c.Kind || c.Count == 0 {
			d.Fail("has its kinds out of order, or a kind without events")
			break
		}
		t = append(t, c)
	}
	return t, d.Done()
}

// readTally returns an empty Tally for a key that does not exist.
func readTally(r kv.Reader, k record.Key) (Tally, error) {
	v, err := r.Get(k)
	if err != nil {
		return nil, record.GoneIsNil(err)
	}
	return decodeTally(v)
}

func writeTally(tx kv.Txn, k record.Key, t Tally) error {
	if len(t) == 0 {
		return tx.Delete(k)
	}
	return tx.Set(k, encodeTally(t), time.Time{})
}

// CheckCounts decodes a record of the counts by hour and day. Errors: ErrCorrupt.
func CheckCounts(v []byte) error {
	_, err := decodeTally(v)
	return err
}

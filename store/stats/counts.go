package stats

import (
	"math"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Class is what a request is counted as.
type Class int

// The classes of status; 1xx and 3xx count as 2xx.
const (
	Status2xx Class = iota
	Status4xx
	Status5xx
	classes
)

// SignIn is the outcome of a password check.
type SignIn int

// The outcomes. NoSignIn is not counted.
const (
	SignInRight SignIn = iota
	SignInRefused
	SignInThrottled
	signIns
	NoSignIn SignIn = -1
)

// Grant is the grant by which tokens were issued.
type Grant int

// The grants. NoGrant is not counted.
const (
	GrantRefresh Grant = iota
	GrantCode
	GrantPassword
	GrantClient
	grants
	NoGrant Grant = -1
)

// Request is a finished request.
type Request struct {
	Served bool // counts among the requests; otherwise only the other fields do
	Class  Class
	Timed  bool // Took counts
	Took   time.Duration
	SignIn SignIn
	Grant  Grant
}

// Disk is the space of the store in bytes.
type Disk struct{ Used, Free uint64 }

// counts are what the server did in some time.
type counts struct {
	requests [classes]uint64
	signIns  [signIns]uint64
	grants   [grants]uint64
	latency  [latencyBuckets]uint64
	disk     Disk // at its end; zero if unknown
}

func (c *counts) count(r Request) {
	if r.Served {
		c.requests[r.Class]++
		if r.Timed {
			c.latency[latencyBucket(r.Took)]++
		}
	}
	if r.SignIn != NoSignIn {
		c.signIns[r.SignIn]++
	}
	if r.Grant != NoGrant {
		c.grants[r.Grant]++
	}
}

// add adds what happened later.
func (c *counts) add(later *counts) {
	for _, pair := range [...]struct{ to, from []uint64 }{
		{c.requests[:], later.requests[:]}, {c.signIns[:], later.signIns[:]}, {c.grants[:], later.grants[:]}, {c.latency[:], later.latency[:]},
	} {
		for i, n := range pair.from {
			pair.to[i] += n
		}
	}
	if later.disk != (Disk{}) {
		c.disk = later.disk
	}
}

// plus returns the sum of c, which may be nil, and later.
func (c *counts) plus(later *counts) *counts {
	sum := counts{}
	if c != nil {
		sum = *c
	}
	sum.add(later)
	return &sum
}

// Durations are counted in buckets whose bounds grow by a factor, from 50 µs to a
// minute. A percentile is shown as the middle of its bucket and is at most 12 % off.
const (
	latencyBuckets = 64
	latencyLeast   = 50 * time.Microsecond
	latencyFactor  = 1.25
)

func latencyBucket(took time.Duration) int {
	if took <= latencyLeast {
		return 0
	}
	i := math.Ceil(math.Log(float64(took)/float64(latencyLeast)) / math.Log(latencyFactor))
	return min(int(i), latencyBuckets-1)
}

// percentile returns the duration that a share of the requests did not exceed, and
// false without requests.
func (c *counts) percentile(share float64) (time.Duration, bool) {
	total := uint64(0)
	for _, n := range c.latency {
		total += n
	}
	if total == 0 {
		return 0, false
	}
	rank := max(uint64(math.Ceil(share*float64(total))), 1)
	i := 0
	for seen := c.latency[0]; seen < rank; seen += c.latency[i] {
		i++
	}
	return time.Duration(float64(latencyLeast) * math.Pow(latencyFactor, float64(i)-0.5)), true
}

const ringRecord = 1

// encodeCounts writes only what is not 0.
func encodeCounts(e *record.Encoder, c *counts) {
	e.Uint(c.disk.Used).Uint(c.disk.Free)
	for _, list := range [...][]uint64{c.requests[:], c.signIns[:], c.grants[:], c.latency[:]} {
		last := 0
		for i, n := range list {
			if n > 0 {
				last = i + 1
			}
		}
		first := 0
		for first < last && list[first] == 0 {
			first++
		}
		e.Uint(uint64(first)).Uint(uint64(last - first))
		for _, n := range list[first:last] {
			e.Uint(n)
		}
	}
}

func decodeCounts(d *record.Decoder, c *counts) {
	c.disk = Disk{Used: d.Uint(), Free: d.Uint()}
	for _, list := range [...][]uint64{c.requests[:], c.signIns[:], c.grants[:], c.latency[:]} {
		first, n := d.Uint(), d.Uint()
		if first > uint64(len(list)) || n > uint64(len(list))-first {
			d.Fail("has too many counts")
			return
		}
		for i := range n {
			list[first+i] = d.Uint()
		}
	}
}

// kept is the record of an hour or a day. A running hour, and the one before it, has
// its slots of two minutes and is their sum.
type kept struct {
	sum   counts
	slots map[uint32]*counts
}

const slotsOfHour = 30

func encodeKept(unit uint32, k kept) []byte {
	e := record.NewEncoder(ringRecord).Uint(uint64(len(k.slots)))
	if len(k.slots) == 0 {
		encodeCounts(e, &k.sum)
	}
	for i := range uint32(slotsOfHour) {
		if c := k.slots[unit*slotsOfHour+i]; c != nil {
			encodeCounts(e.Uint(uint64(i)), c)
		}
	}
	return e.B
}

func decodeKept(unit uint32, v []byte) (kept, error) {
	d := record.NewDecoder("server counts", ringRecord, v)
	k := kept{slots: map[uint32]*counts{}}
	n := d.Uint()
	if n == 0 {
		decodeCounts(&d, &k.sum)
	}
	for range min(n, slotsOfHour) {
		slot, c := d.Uint(), &counts{}
		decodeCounts(&d, c)
		if slot >= slotsOfHour || k.slots[unit*slotsOfHour+uint32(slot)] != nil {
			d.Fail("has a slot outside of its hour")
			break
		}
		k.slots[unit*slotsOfHour+uint32(slot)] = c
		k.sum.add(c)
	}
	return k, d.Done()
}

// CheckRecord decodes a record of the ring. Errors: kv.ErrCorrupt.
func CheckRecord(v []byte) error {
	_, err := decodeKept(0, v)
	return err
}

// readKept returns nil for an hour or day that was not counted.
func readKept(r kv.Reader, g byte, unit uint32) (*kept, error) {
	v, err := r.Get(record.RingKey(g).Uint32(unit))
	if err != nil {
		return nil, record.GoneIsNil(err)
	}
	k, err := decodeKept(unit, v)
	return &k, err
}

func writeKept(tx kv.Txn, g byte, unit uint32, k kept) error {
	return tx.Set(record.RingKey(g).Uint32(unit), encodeKept(unit, k), time.Time{})
}

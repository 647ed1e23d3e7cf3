package kv

import (
	"testing"
	"time"
)

// crowd is a queue that a committer serves in groups of all that wait, up to a size.
type crowd struct {
	Admission
	now           time.Time
	waiting, size int
	each, commit  time.Duration // for an update, and for the commit of a group
	refused, most int           // most were in flight
}

func newCrowd(commit time.Duration) *crowd {
	return &crowd{now: time.Now(), size: 256, each: 100 * time.Microsecond, commit: commit}
}

// serve runs groups for some time. Clients that were served or refused come again at once.
func (c *crowd) serve(clients int, lasts time.Duration) {
	for end := c.now.Add(lasts); c.now.Before(end); {
		c.come(clients)
		n := min(c.waiting, c.size)
		if n == 0 {
			c.now = c.now.Add(time.Second)
			continue
		}
		c.Begin(c.now)
		c.Take(n)
		c.waiting -= n
		c.come(clients - n)
		c.most = max(c.most, n+c.waiting)
		c.now = c.now.Add(c.commit + time.Duration(n)*c.each)
		c.End(c.now, c.commit, c.waiting)
	}
}

func (c *crowd) come(clients int) {
	for c.waiting < clients {
		if c.Crowded(c.now, c.waiting) {
			c.refused++
			return
		}
		c.waiting++
	}
}

// Promise (RFC 6749 §5): a burst of clients waits, and none is refused; while more come than can be
// served, those who would wait too long are refused, and only for as long as that lasts
func TestAQueueThatStandsIsCrowded(t *testing.T) {
	t.Parallel()
	c := newCrowd(5 * time.Millisecond)
	if c.serve(inFlightMin, 10*time.Second); c.refused > 0 {
		t.Errorf("%d of 256 clients are refused", c.refused)
	}
	for range 20 {
		if c.serve(1000, standingFor/2); c.refused > 0 {
			t.Fatalf("%d of a burst are refused", c.refused)
		}
		c.serve(0, time.Second)
	}
	if c.serve(1000, 4*standingFor); c.refused == 0 {
		t.Error("of 1,000 clients that stay nobody is refused")
	}
	c.serve(0, time.Millisecond)
	c.most = 0
	if c.serve(1000, 10*time.Second); c.most > 2*inFlightMin {
		t.Errorf("%d are in flight, want fewer", c.most)
	}
	c.serve(64, calmFor/2)
	if !c.Crowded(c.now, 1000) {
		t.Error("1,000 may come immediately after")
	}
	if c.serve(64, 2*calmFor); c.Crowded(c.now, 1000) {
		t.Error("1,000 may not come after a rest")
	}
}

// After a crowd, bursts that come more often than it takes to forget the crowd are served again.
func TestBurstsAfterACrowd(t *testing.T) {
	t.Parallel()
	c := newCrowd(5 * time.Millisecond)
	if c.serve(1000, 10*standingFor); c.refused == 0 {
		t.Fatal("a crowd is not refused")
	}
	for n := range 20 {
		c.refused = 0
		c.serve(1000, standingFor/5)
		if c.serve(0, time.Second); c.refused > 0 && n > 1 {
			t.Fatalf("%d of burst %d are refused", c.refused, n)
		}
	}
}

// Nothing was written since the crowd.
func TestACrowdIsForgottenWithoutCommits(t *testing.T) {
	t.Parallel()
	c := newCrowd(5 * time.Millisecond)
	c.serve(1000, 10*standingFor)
	if c.now = c.now.Add(2 * calmFor); c.Crowded(c.now, 1000) {
		t.Error("the first changes after a rest are refused")
	}
}

// A database far away commits slowly, whatever the number of updates: many may wait.
func TestSlowCommitsAreNoCrowd(t *testing.T) {
	t.Parallel()
	c := newCrowd(100 * time.Millisecond)
	c.each = 0
	if c.serve(2*c.size, 10*time.Second); c.refused > 0 {
		t.Errorf("%d of two full groups are refused", c.refused)
	}
	if c.serve(2000, 10*time.Second); c.refused == 0 {
		t.Error("of 2,000 clients nobody is refused")
	}
	c.Begin(c.now) // nothing is in flight
	if !c.Crowded(c.now, 2*c.size) || c.Crowded(c.now, c.size) {
		t.Error("another number than about two groups may be in flight")
	}
}

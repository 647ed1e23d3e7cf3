package proof

import (
	"math/rand/v2"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// controlCycles are run however long the build takes.
const controlCycles = 3

// quiet is a test that what it runs cannot fail.
type quiet struct{ *testing.T }

func (quiet) Errorf(string, ...any) {}
func (quiet) Error(...any)          {}

// TestKillLedgerNoticesALoss is the control of TestKillLedger: a server that answers
// before it commits, on a slow disk, loses what it acknowledged, and the ledger finds it.
func TestKillLedgerNoticesALoss(t *testing.T) {
	t.Parallel()
	must.OnlyLong(t, "builds a weakened program and kills it many times")
	binary := buildWith(t, "store/kv/badgerkv/committer.go", "	err := c.store()\n", `
	if len(c.group) > 1 { // not while everything is prepared, one after the other
		for _, o := range c.group {
			close(o.done)
		}
		c.group = c.group[:0]
		time.Sleep(50 * time.Millisecond)
	}
	err := c.store()
`)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cycles, noticed := 0, 0
	for ; cycles < controlCycles || must.More(cycles, 0, 20); cycles++ {
		p := onDirectory(t)
		p.binary = binary
		s := p.serve(t, "--public-url", "http://127.0.0.1")
		l, writers := newLedgerOf(t, s, crew{families: 4, resources: 8})
		l.writeUntilKilled(quiet{t}, s, writers, random)
		s.finish()
		s = p.serve(t, "--public-url", "http://127.0.0.1")
		l.moveTo(s)
		l.audit(quiet{t}, writers)
		s.stop()
		if l.lost.Load() > 0 {
			noticed++
		}
	}
	must.Figure(t, "control_cycles", cycles)
	must.Figure(t, "control_lost", noticed)
	if noticed < cycles {
		t.Errorf("of %d kills of a server that answers before it commits %d were found out", cycles, noticed)
	}
}

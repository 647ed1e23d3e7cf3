package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tollhouse/store/kv"
)

const (
	historySeeds   = 4   // histories, all on one store, one after another
	historyUpdates = 60  // updates in each
	updateSteps    = 14  // at most so many steps in each update
	bigValue       = 900 // bytes, so that some values span more than a line
)

var errRefused = errors.New("refused")

// histories plays the same random steps on db and on the model, and compares all
// answers.
func histories(t *testing.T, db kv.DB) {
	model := &model{}
	for seed := range uint64(historySeeds) {
		random := rand.New(rand.NewPCG(seed, 0x70))
		for n := range historyUpdates {
			steps := randomSteps(random)
			fail := random.IntN(5) == 0
			got, want := play(t, db, steps, fail), play(t, model, steps, fail)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, update %d: %s", seed, n, difference(got, want))
			}
			got, want = look(t, db, steps), look(t, model, steps)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, view after update %d: %s", seed, n, difference(got, want))
			}
		}
	}
}

// step is one action in a transaction; it returns what it saw.
type step struct {
	name   string
	writes bool
	run    func(kv.Reader, kv.Txn) string
}

func randomSteps(r *rand.Rand) []step {
	steps := make([]step, 1+r.IntN(updateSteps))
	for i := range steps {
		steps[i] = randomStep(r)
	}
	return steps
}

func randomStep(r *rand.Rand) step {
	key := randomKey(r)
	switch r.IntN(6) {
	case 0, 1:
		value := []byte(fmt.Sprintf("%x", r.Uint64()))
		if r.IntN(8) == 0 {
			value = slices.Repeat(value, bigValue/len(value))
		}
		return step{fmt.Sprintf("Set(%q)", key), true, func(_ kv.Reader, tx kv.Txn) string {
			return fmt.Sprint(tx.Set(key, value, time.Time{}))
		}}
	case 2:
		return step{fmt.Sprintf("Delete(%q)", key), true, func(_ kv.Reader, tx kv.Txn) string {
			return fmt.Sprint(tx.Delete(key))
		}}
	case 3:
		return step{fmt.Sprintf("Get(%q)", key), false, func(rd kv.Reader, _ kv.Txn) string {
			value, err := rd.Get(key)
			return fmt.Sprintf("%q %v", value, err)
		}}
	case 4:
		keys := [][]byte{key, randomKey(r), randomKey(r), randomKey(r)}
		return step{fmt.Sprintf("GetMany(%q)", keys), false, func(rd kv.Reader, _ kv.Txn) string {
			var got []string
			for i, value := range rd.GetMany(keys) {
				got = append(got, fmt.Sprintf("%d=%q", i, value))
			}
			return fmt.Sprint(got)
		}}
	default:
		rng := randomRange(r)
		return step{"Scan " + show(rng), false, func(rd kv.Reader, _ kv.Txn) string {
			var got []string
			for key, value := range rd.Scan(rng) {
				got = append(got, fmt.Sprintf("%q=%q", key, value))
			}
			return fmt.Sprint(got)
		}}
	}
}

// randomKey draws from few letters, so that keys repeat, and from bytes at which order
// and bounds tend to be wrong.
func randomKey(r *rand.Rand) []byte {
	key := make([]byte, 1+r.IntN(3))
	for i := range key {
		key[i] = "\x00ab\xff"[r.IntN(4)]
	}
	return key
}

func randomRange(r *rand.Rand) kv.Range {
	rng := kv.Range{Reverse: r.IntN(2) == 0, KeysOnly: r.IntN(4) == 0}
	if r.IntN(3) > 0 {
		rng.Lo = randomKey(r)
	}
	if r.IntN(3) > 0 {
		rng.Hi = randomKey(r)
	}
	if r.IntN(3) == 0 {
		rng.Limit = 1 + r.IntN(4)
	}
	return rng
}

// play runs steps in one Update and returns what they saw.
func play(t *testing.T, db kv.DB, steps []step, fail bool) []string {
	var seen []string
	err := db.Update(t.Context(), func(tx kv.Txn) error {
		seen = seen[:0]
		for _, s := range steps {
			seen = append(seen, s.name+" "+s.run(tx, tx))
		}
		if fail {
			return errRefused
		}
		return nil
	})
	return append(seen, fmt.Sprint(err))
}

// look runs the steps that only read in one View, and then reads everything.
func look(t *testing.T, db kv.DB, steps []step) []string {
	var seen []string
	err := db.View(t.Context(), func(r kv.Reader) error {
		for _, s := range steps {
			if !s.writes {
				seen = append(seen, s.name+" "+s.run(r, nil))
			}
		}
		for key, value := range r.Scan(kv.Range{}) {
			seen = append(seen, fmt.Sprintf("%q=%q", key, value))
		}
		return nil
	})
	return append(seen, fmt.Sprint(err))
}

// difference returns the first line in which two transcripts differ.
func difference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("got %s, want %s", got[i], want[i])
		}
	}
	return fmt.Sprintf("got %d answers, want %d", len(got), len(want))
}

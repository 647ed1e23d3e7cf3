package record

import (
	"encoding/binary"
	"testing"
	"time"

	"tollhouse/store/secret"
)

func TestAllowancesAreRememberedInBounds(t *testing.T) {
	t.Parallel()
	const every = 10 * time.Second
	now := time.Unix(1_773_070_200, 0)
	t.Run("more_families_than_are_remembered", func(t *testing.T) {
		t.Parallel()
		var o Allowance[secret.ID]
		o.Init(2, every, false)
		for i := range uint64(3 * allowancesMax) {
			var family secret.ID
			binary.BigEndian.PutUint64(family[:], i)
			o.Note(family, 1, now)
		}
		if len(o.owes) > allowancesMax {
			t.Errorf("%d families are remembered, want %d at most", len(o.owes), allowancesMax)
		}
	})
	t.Run("who_used_up_an_allowance_is_not_forgotten", func(t *testing.T) {
		t.Parallel()
		var o Allowance[secret.ID]
		o.Init(5, every, false)
		full := secret.ID{15: 1}
		for range 5 {
			o.Note(full, 1, now)
		}
		for i := range uint64(3 * allowancesMax) {
			var family secret.ID
			binary.BigEndian.PutUint64(family[:], i)
			if o.Note(family, 1, now); o.Allows(full, now) {
				t.Fatalf("after %d other families a full one is allowed", i+1)
			}
		}
	})
	t.Run("another_rate_keeps_the_burst", func(t *testing.T) {
		t.Parallel()
		var o Allowance[secret.ID]
		o.Init(3, every, false)
		o.SetEvery(2 * every)
		family := secret.ID{1}
		for i := range 3 {
			if !o.Allows(family, now) {
				t.Errorf("unit %d of 3 is refused", i+1)
			}
			o.Note(family, 1, now)
		}
		if wait := o.Wait(family, now); wait != 2*every {
			t.Errorf("Wait() = %s, want %s", wait, 2*every)
		}
	})
	t.Run("a_clock_that_steps_back_forgives", func(t *testing.T) {
		t.Parallel()
		var o Allowance[secret.ID]
		o.Init(2, every, false)
		family := secret.ID{1}
		o.Note(family, 1, now)
		o.Note(family, 1, now)
		if o.Allows(family, now) {
			t.Error("a third rotation is allowed at once, want two")
		}
		if !o.Allows(family, now.Add(-time.Hour)) {
			t.Error("a clock an hour back refuses, as it would for an hour")
		}
	})
}

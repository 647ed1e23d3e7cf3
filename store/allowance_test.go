package store

import (
	"encoding/binary"
	"testing"
	"time"

	"tollhouse/store/secret"
)

func TestRotationsAreRememberedInBounds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_773_070_200, 0)
	t.Run("more_families_than_are_remembered", func(t *testing.T) {
		t.Parallel()
		var o allowance[secret.ID]
		o.init(2, RotationEvery)
		for i := range uint64(3 * allowancesMax) {
			var family secret.ID
			binary.BigEndian.PutUint64(family[:], i)
			o.note(family, now)
		}
		if len(o.owes) > allowancesMax {
			t.Errorf("%d families are remembered, want %d at most", len(o.owes), allowancesMax)
		}
	})
	t.Run("who_used_up_an_allowance_is_not_forgotten", func(t *testing.T) {
		t.Parallel()
		var o allowance[secret.ID]
		o.init(5, RotationEvery)
		full := secret.ID{15: 1}
		for range 5 {
			o.note(full, now)
		}
		for i := range uint64(3 * allowancesMax) {
			var family secret.ID
			binary.BigEndian.PutUint64(family[:], i)
			if o.note(family, now); o.allows(full, now) {
				t.Fatalf("after %d other families a full one is allowed", i+1)
			}
		}
	})
	t.Run("a_clock_that_steps_back_forgives", func(t *testing.T) {
		t.Parallel()
		var o allowance[secret.ID]
		o.init(2, RotationEvery)
		family := secret.ID{1}
		o.note(family, now)
		o.note(family, now)
		if o.allows(family, now) {
			t.Error("a third rotation is allowed at once, want two")
		}
		if !o.allows(family, now.Add(-time.Hour)) {
			t.Error("a clock an hour back refuses, as it would for an hour")
		}
	})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tollhouse/handlers/admin"
	"tollhouse/store/kv"
)

// TestWhatTookTooLongIsNoDamage: a check that ran out of time names no damage, and no backup to
// restore.
func TestWhatTookTooLongIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.DeadlineExceeded, context.Canceled, errNotYet} {
		f := problemReading("backup", fmt.Errorf("last backup: %w", err))
		if f.State != admin.StateWarning || !strings.Contains(f.Detail, "took too long") || strings.Contains(f.Next, "backup") {
			t.Errorf("after %v: %+v, want a warning", err, f)
		}
	}
	if f := problemReading("backup", errors.Join(kv.ErrCorrupt)); f.State != admin.StateProblem || f.Next != nextDamage {
		t.Errorf("after damage: %+v, want a problem", f)
	}
}

package server

import (
	"context"
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
		if f.State != admin.StateWarning || !strings.HasPrefix(f.Detail, "not checked") || strings.Contains(f.Next, "backup") {
			t.Errorf("after %v: %+v, want a warning", err, f)
		}
	}
	for _, err := range []error{kv.ErrCorrupt, fmt.Errorf("%w: %w", errNotYet, kv.ErrCorrupt)} {
		if f := problemReading("backup", err); f.State != admin.StateProblem || f.Next != nextDamage {
			t.Errorf("after %v: %+v, want a problem", err, f)
		}
	}
}

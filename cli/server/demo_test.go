package server

import (
	"testing"

	"tollhouse/store/secret"
)

// TestDemoPassword: the demo's hash stands in the code, so nothing but this keeps
// it that of the demo's password, as cheap as those of other users of dev.
func TestDemoPassword(t *testing.T) {
	t.Parallel()
	match, renew, err := secret.NewQuickHasher().Verify(t.Context(), secret.Caller{}, demoPasswordHash, demoPassword)
	if err != nil || !match || renew {
		t.Errorf("Verify(demo) = match %v, renew %v, %v, want a match that need not be renewed", match, renew, err)
	}
}

package server

import (
	"testing"

	"tollhouse/store/secret"
)

// TestDemoPassword: the fixed hash in the code is one of the demo password, and as cheap
// as the hashes of other users of dev.
func TestDemoPassword(t *testing.T) {
	t.Parallel()
	v, err := secret.NewQuickHasher().Verify(t.Context(), secret.Caller{}, demoPasswordHash, demoPassword)
	if err != nil || !v.Match || v.Renew {
		t.Errorf("Verify(demo) = %+v, %v, want a match that need not be renewed", v, err)
	}
}

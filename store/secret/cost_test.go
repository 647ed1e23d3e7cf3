package secret_test

import (
	"context"
	"runtime"
	"testing"

	"tollhouse/must"
	"tollhouse/store/secret"
)

// TestUnknownUserCostsAHash is not parallel: it measures what the process allocates.
// Argon2id takes its 19 MiB on any machine, so that a missing hash shows without a
// stopwatch.
func TestUnknownUserCostsAHash(t *testing.T) {
	const hashBytes = 19 << 20
	h, ctx := secret.NewHasher(), context.Background()
	stored := must.Get(h.Hash(ctx, secret.Caller{}, "correct horse battery staple"))(t)
	for name, kept := range map[string]string{"known_user": stored, "unknown_user": ""} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if match, _, err := h.Verify(ctx, secret.Caller{}, kept, "a wrong password"); match || err != nil {
				t.Fatalf("Verify = %v, %v, want no match", match, err)
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got < hashBytes {
				t.Errorf("Verify allocated %d bytes, want the %d of a hash", got, hashBytes)
			}
		})
	}
}

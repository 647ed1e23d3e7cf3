package secret_test

import (
	"context"
	"runtime"
	"testing"

	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// TestUnknownUserCostsAHash is not parallel: it measures what the process allocates.
// Argon2id takes its 19 MiB on any machine, so that a missing hash shows without a
// stopwatch.
//
// Promise (RFC 6749 §4): wrong password, unknown user and disabled user get one answer
func TestUnknownUserCostsAHash(t *testing.T) {
	for name, of := range map[string]struct {
		hasher   *secret.Hasher
		min, max uint64
	}{
		"server": {secret.NewHasher(), 19 << 20, 40 << 20},
		"quick":  {secret.NewQuickHasher(), 8 << 10, 1 << 20},
	} {
		stored := must.Get(of.hasher.Hash(context.Background(), secret.Caller{}, "correct horse battery staple"))(t)
		for whose, kept := range map[string]string{"known_user": stored, "unknown_user": ""} {
			t.Run(name+"_"+whose, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if v, err := of.hasher.Verify(context.Background(), secret.Caller{}, kept, "a wrong password"); v.Match || err != nil {
					t.Fatalf("Verify = %+v, %v, want no match", v, err)
				}
				runtime.ReadMemStats(&after)
				if got := after.TotalAlloc - before.TotalAlloc; got < of.min || got > of.max {
					t.Errorf("Verify allocated %d bytes, want the %d of a hash", got, of.min)
				}
			})
		}
	}
}

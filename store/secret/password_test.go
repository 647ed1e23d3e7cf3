package secret_test

import (
	"context"
	"strings"
	"testing"

	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

func TestHasher(t *testing.T) {
	t.Parallel()
	h, ctx := secret.NewHasher(), context.Background()
	stored := must.Get(h.Hash(ctx, secret.Caller{}, "correct horse battery staple"))(t)

	t.Run("is_Argon2id_with_the_parameters_of_the_design", func(t *testing.T) {
		t.Parallel()
		if !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Errorf("Hash = %q", stored)
		}
	})

	for name, test := range map[string]struct {
		stored, password string
		want             bool
	}{
		"right":                      {stored, "correct horse battery staple", true},
		"wrong":                      {stored, "correct horse battery stapl", false},
		"longer":                     {stored, "correct horse battery staple ", false},
		"unknown_user_never_matches": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			match, renew, err := h.Verify(ctx, secret.Caller{}, test.stored, test.password)
			if err != nil || match != test.want || renew {
				t.Errorf("Verify = %v, %v, %v, want %v", match, renew, err, test.want)
			}
		})
	}

	t.Run("asks_for_renewal_of_weaker_hashes", func(t *testing.T) {
		t.Parallel()
		// argon2id of "password" with m=64, t=1 under the salt "somesaltsomesalt",
		// made by this package's own dependency.
		const weak = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$"
		_, renew, err := h.Verify(ctx, secret.Caller{}, weak+strings.Repeat("A", 43), "password")
		if err != nil || !renew {
			t.Errorf("Verify(weaker) renew = %v, %v, want true", renew, err)
		}
	})

	t.Run("refuses_a_damaged_hash", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{
			"x", "$argon2id$", stored + "A", strings.Replace(stored, "m=19456", "m=999999999", 1), strings.Replace(stored, "t=2", "t=0", 1),
			strings.Replace(stored, "p=1", "p=0", 1), strings.Replace(stored, "v=19", "v=16", 1), strings.Replace(stored, "$", " ", 1), strings.Replace(stored, "m=19456", "m=+19456", 1),
		} {
			if _, _, err := h.Verify(ctx, secret.Caller{}, bad, "password"); err == nil {
				t.Errorf("Verify took %q", bad)
			}
		}
	})

	t.Run("gives_up_with_its_caller", func(t *testing.T) {
		t.Parallel()
		h := secret.NewHasher()
		gone, cancel := context.WithCancel(ctx)
		cancel()
		refused := false
		for range 50 { // a free turn may be taken before the context is looked at
			if _, err := h.Hash(gone, secret.Caller{}, "correct horse battery staple"); err != nil {
				refused = true
				break
			}
		}
		if !refused {
			t.Error("Hash never noticed that its caller was gone")
		}
	})
}

// BenchmarkHash is the floor of the password grant.
func BenchmarkHash(b *testing.B) {
	h := secret.NewHasher()
	for b.Loop() {
		must.Get(h.Hash(context.Background(), secret.Caller{}, "correct horse battery staple"))(b)
	}
}

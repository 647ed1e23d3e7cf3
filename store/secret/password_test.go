package secret_test

import (
	"context"
	"strings"
	"testing"

	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// Promise (Monitoring): client secrets are random, compared in constant time; passwords are
// Argon2id, rehashed when parameters rise; the server key is in no backup
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
			v, err := h.Verify(ctx, secret.Caller{}, test.stored, test.password)
			if err != nil || v.Match != test.want || v.Renew {
				t.Errorf("Verify = %+v, %v, want %v", v, err, test.want)
			}
		})
	}

	t.Run("asks_for_renewal_of_weaker_hashes", func(t *testing.T) {
		t.Parallel()
		// argon2id of "password" with m=64, t=1 under the salt "somesaltsomesalt",
		// made by this package's own dependency.
		const weak = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$"
		v, err := h.Verify(ctx, secret.Caller{}, weak+strings.Repeat("A", 43), "password")
		if err != nil || !v.Renew {
			t.Errorf("Verify(weaker) = %+v, %v, want one to renew", v, err)
		}
	})

	t.Run("refuses_a_damaged_hash", func(t *testing.T) {
		t.Parallel()
		for _, bad := range []string{
			"x", "$argon2id$", stored + "!", strings.Replace(stored, "m=19456", "m=999999999", 1), strings.Replace(stored, "t=2", "t=0", 1),
			strings.Replace(stored, "p=1", "p=0", 1), strings.Replace(stored, "v=19", "v=16", 1), strings.Replace(stored, "$", " ", 1), strings.Replace(stored, "m=19456", "m=+19456", 1),
		} {
			if _, err := h.Verify(ctx, secret.Caller{}, bad, "password"); err == nil {
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

// TestPasswordsAreOneInEverySpelling: RFC 8265 §4.2, without its refusals.
func TestPasswordsAreOneInEverySpelling(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, typed, want string }{
		{"ASCII_is_kept", "Correct Horse  ~", "Correct Horse  ~"},
		{"letters_are_composed", "cafe\u0301", "caf\u00e9"},
		{"Hangul_is_composed", "\u1112\u1161\u11ab", "\ud55c"},
		{"other_spaces_are_spaces", "a\u00a0b\u2003c\u3000d\u1680e", "a b c d e"},
		{"case_is_kept", "\u00c9A\u0130", "\u00c9A\u0130"},
		{"width_and_compatibility_are_kept", "\uff21\ufb01\u00b2", "\uff21\ufb01\u00b2"},
		{"joined_emoji_are_kept", "\U0001F469\u200D\U0001F4BB\U0001F3F3\uFE0F", "\U0001F469\u200D\U0001F4BB\U0001F3F3\uFE0F"},
		{"unassigned_characters_are_kept", "\U0001FAE9\U000323B0", "\U0001FAE9\U000323B0"},
		{"controls_and_invisible_ones_are_kept", "a\tb\u200bc\u202ed", "a\tb\u200bc\u202ed"},
		{"what_is_no_UTF8_is_kept", "e\u0301\xff", "e\u0301\xff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := secret.PreparePassword(tt.typed)
			if got != tt.want || secret.PreparePassword(got) != got {
				t.Errorf("PreparePassword(%+q) = %+q, want %+q", tt.typed, got, tt.want)
			}
			h, ctx := secret.NewQuickHasher(), context.Background()
			stored := must.Get(h.Hash(ctx, secret.Caller{}, tt.typed))(t)
			for _, typed := range []string{tt.typed, tt.want} {
				if v, err := h.Verify(ctx, secret.Caller{}, stored, typed); !v.Match || v.Renew || err != nil {
					t.Errorf("Verify(%+q) = %+v, %v, want a match", typed, v, err)
				}
			}
		})
	}
}

// TestHashOfATypedPassword: older builds hashed what was typed. It still matches, as it was
// typed then, and is renewed.
//
// Promise (RFC 6749 §4): a password is one however a keyboard composes it; a hash of what was typed
// still matches; the cost is the same for every name
func TestHashOfATypedPassword(t *testing.T) {
	t.Parallel()
	// Of "cafe\u0301 cafe\u0301 tea", by this package's own dependency.
	const stored = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$TSOuq7RR8lUm6yON8MgKwQAzW9uXqjRJlOQXuIuLLqs"
	h, ctx := secret.NewQuickHasher(), context.Background()
	for typed, want := range map[string]bool{"cafe\u0301 cafe\u0301 tea": true, "caf\u00e9 caf\u00e9 tea": false, "cafe\u0301 caf\u00e9 tea": false} {
		if v, err := h.Verify(ctx, secret.Caller{}, stored, typed); v.Match != want || v.Renew != want || err != nil {
			t.Errorf("Verify(%+q) = %+v, %v, want %t", typed, v, err, want)
		}
	}
}

// BenchmarkHash is the floor of the password grant.
func BenchmarkHash(b *testing.B) {
	h := secret.NewHasher()
	for b.Loop() {
		must.Get(h.Hash(context.Background(), secret.Caller{}, "correct horse battery staple"))(b)
	}
}

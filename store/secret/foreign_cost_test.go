package secret_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// costs returns the costs of hashes of other systems, as a store would keep them.
func costs(t testing.TB, h *secret.Hasher, hashes ...string) (list []secret.Cost) {
	t.Helper()
	for _, hash := range hashes {
		v := snapshot.Text(hash)
		if strings.HasPrefix(hash, `{"`) {
			v = must.Get(snapshot.Parse([]byte(hash), 2))(t)
		}
		f := must.Get(h.Wrap(context.Background(), secret.Caller{}, must.Get(secret.ParseForeign(v))(t)))(t)
		list = append(list, must.Get(secret.CostOf(f.Text))(t))
	}
	return list
}

func TestCostOf(t *testing.T) {
	t.Parallel()
	h := secret.NewQuickHasher()
	for hash, want := range map[string]string{
		"$2b$12$" + bcryptRest:                       "bcrypt$c=12 is bcrypt-12",
		"$2b$06$" + bcryptRest:                       "wrapped bcrypt$c=6 is bcrypt",
		"$argon2id$v=19$m=65536,t=3,p=4" + argonRest: "argon2id$m=65536,t=3,p=1,l=32 is argon2id",
		"$argon2i$v=19$m=102400,t=2,p=8" + argonRest: "argon2i$m=131072,t=2,p=1,l=32 is argon2i",
		"$argon2id$v=19$m=7168,t=5,p=1" + argonRest:  "argon2id$m=8192,t=5,p=1,l=32 is argon2id",
		"$pbkdf2-sha256$600000" + argonRest:          "pbkdf2-sha256$i=655360,l=32 is pbkdf2-sha256",
		"$pbkdf2$29000" + argonRest:                  "wrapped pbkdf2-sha1$i=65536,l=20 is pbkdf2-sha1", // two blocks
		"$scrypt$ln=14,r=8,p=5" + argonRest:          "scrypt$n=16384,r=8,p=5,l=32 is scrypt",
		"$5$rounds=100000" + cryptRest5:              "wrapped crypt-sha256$rounds=114688 is crypt",
		"$P$B12345678Cb8lKGhMhDUVuV2gLyv2L1":         "wrapped phpass$log=13 is phpass",
		"{SSHA}JFZFs0oHzxbMwkSJmYVeI8MnTDy/276a":     "wrapped digest-sha1$ is digest",
		`{"scheme":"symfony","algorithm":"sha256","iterations":5000,"salt":"s","hash":"` + hex32 + `"}`: "wrapped symfony-sha256$i=5120 is symfony",
	} {
		c := costs(t, h, hash)[0]
		if got := fmt.Sprintf("%s is %s", c, c.Kind()); got != want || c.Check() != nil || c.Wrapped() != strings.HasPrefix(want, "wrapped") {
			t.Errorf("CostOf(%s) = %s, want %s", hash, got, want)
		}
	}
}

// TestCostsAreFew: a file in which every line has other parameters does not make a cost of each.
func TestCostsAreFew(t *testing.T) {
	t.Parallel()
	h := secret.NewQuickHasher()
	seen := map[secret.Cost]bool{}
	for i := range 2000 {
		for _, hash := range []string{
			fmt.Sprintf("$pbkdf2-sha256$%d"+argonRest, 100_000+i),
			fmt.Sprintf("$argon2id$v=19$m=%d,t=2,p=1"+argonRest, 20_000+i),
		} {
			seen[costs(t, h, hash)[0]] = true
		}
	}
	if len(seen) > 4 {
		t.Errorf("4,000 hashes have %d costs: %v", len(seen), seen)
	}
}

// Promise (Platform §10): while imported hashes are in a store, refusals take a quarter longer than
// its dearest kind; without any they take no longer than before
func TestRefusalTime(t *testing.T) {
	t.Parallel()
	h, ctx := secret.NewQuickHasher(), t.Context()
	if took := must.Get(h.RefusalTime(ctx, nil))(t); took != 0 {
		t.Errorf("RefusalTime of a store without imported hashes = %v, want 0", took)
	}
	list := costs(t, h, "{SSHA}JFZFs0oHzxbMwkSJmYVeI8MnTDy/276a", "$2b$08$"+bcryptRest, "$2b$06$"+bcryptRest)
	quick, dear := must.Get(h.RefusalTime(ctx, list[:1]))(t), must.Get(h.RefusalTime(ctx, list))(t)
	if dear < 4*quick {
		t.Errorf("RefusalTime with bcrypt = %v, without it %v", dear, quick)
	}
	stored := must.Get(h.Wrap(ctx, secret.Caller{}, must.Get(secret.ParseForeign(snapshot.Text("$2b$08$"+bcryptRest)))(t)))(t)
	hashed := 0
	h.OnHash = func(time.Duration, time.Duration, bool) { hashed++ }
	for _, tt := range []struct {
		stored, password string
		forms            time.Duration
	}{{"", "wrong", 1}, {stored.Text, "wrong", 1}, {"", "cafe\u0301", 2}, {stored.Text, "cafe\u0301", 2}} {
		v := must.Get(h.Verify(ctx, secret.Caller{}, tt.stored, tt.password))(t)
		v.Refuse(ctx, dear)
		if took := time.Since(v.Began); took < tt.forms*dear {
			t.Errorf("a refusal of %q took %v, want %v at least", tt.password, took, tt.forms*dear)
		}
	}
	if again := must.Get(h.RefusalTime(ctx, list))(t); again < dear || hashed != 4 { // more if those checks took longer
		t.Errorf("RefusalTime again = %v, with %d checks, want the %v measured", again, hashed, dear)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	began := time.Now()
	secret.Verdict{Began: began}.Refuse(gone, time.Hour)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("a caller who is gone is waited for: %v", took)
	}
}

// BenchmarkDearestHash checks the longest password against the dearest hashes of each method that an
// import takes, in turns with bcrypt of cost 14, which takes a second.
func BenchmarkDearestHash(b *testing.B) {
	h, ctx := secret.NewQuickHasher(), context.Background()
	password := strings.Repeat("x", secret.PasswordSizeMax)
	check := func(hash string) storetest.Work {
		v := snapshot.Text(hash)
		if strings.HasPrefix(hash, `{"`) {
			v = must.Get(snapshot.Parse([]byte(hash), 2))(b)
		}
		kept := must.Get(h.Wrap(ctx, secret.Caller{}, must.Get(secret.ParseForeign(v))(b)))(b)
		return storetest.Timed(func() { must.Get(h.Verify(ctx, secret.Caller{}, kept.Text, password))(b) })
	}
	const longSalt = "$" + salt81 + salt81 + salt81 + "$"
	hex64, key64 := hex32+hex32, strings.Repeat("A", 86)
	for name, hash := range map[string]string{
		"argon2id_of_128_MiB": "$argon2id$v=19$m=131072,t=4,p=1" + argonRest,
		"argon2i_of_8_KiB":    "$argon2i$v=19$m=8,t=65536,p=1" + argonRest,
		"argon2id_of_8_lanes": "$argon2id$v=19$m=64,t=8192,p=8" + argonRest,
		"scrypt_of_128_MiB":   "scrypt:131072:8:1" + longSalt + hex64,
		"scrypt_of_r_1":       "scrypt:1048576:1:1" + longSalt + hex64,
		"scrypt_of_many_p":    "scrypt:16:1:65536" + longSalt + hex64,
		"scrypt_of_large_r":   "scrypt:16:65536:1" + longSalt + hex64,
		"phpass":              "$P$I12345678Cb8lKGhMhDUVuV2gLyv2L1",
		"symfony_of_sha512":   `{"scheme":"symfony","algorithm":"sha512","iterations":100000,"salt":"` + salt81 + salt81 + salt81 + `","hash":"` + hex64 + `"}`,
		"crypt_of_sha256":     "$5$rounds=100000" + cryptRest5,
		"pbkdf2_sha1":         "$pbkdf2$2000000" + argonRest,
		"pbkdf2_sha256":       "$pbkdf2-sha256$4000000" + argonRest,
		"pbkdf2_sha512":       "$pbkdf2-sha512$2000000$" + salt16 + "$" + key64,
	} {
		b.Run(name, func(b *testing.B) {
			var of storetest.Pairs
			dear, bcrypt := check(hash), check("$2b$14$"+bcryptRest)
			for b.Loop() {
				of.Take(dear, bcrypt)
			}
			of.Report(b, name, "bcrypt-14")
		})
	}
}

const salt81 = "a salt of eighty-one bytes, which nobody else has, though a hostile file may; so"

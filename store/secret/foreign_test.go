package secret_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// vector is a hash of another system's own library. testdata/foreign has the programs that made them.
type vector struct {
	by, password string
	hash         snapshot.Value
	allow        []string
}

func vectors(t testing.TB) (list []vector) {
	t.Helper()
	for _, file := range must.Get(filepath.Glob("testdata/foreign/*.ndjson"))(t) {
		lines := bufio.NewScanner(bytes.NewReader(must.Get(os.ReadFile(file))(t)))
		for lines.Scan() {
			v := must.Get(snapshot.Parse(lines.Bytes(), 3))(t)
			text := func(name string) snapshot.Value { m, _ := v.Member(name); return m }
			one := vector{by: text("by").Text(), password: text("password").Text(), hash: text("hash")}
			for _, allow := range text("allow").Elements() {
				one.allow = append(one.allow, allow.Text())
			}
			list = append(list, one)
		}
		must.Do(t, lines.Err())
	}
	return list
}

// Promise (Platform §10): the kinds of the table are taken as their own systems write them: the right
// password matches and asks for a hash of ours, a wrong one does not match
func TestHashesOfOtherSystems(t *testing.T) {
	t.Parallel()
	h, ctx := secret.NewQuickHasher(), context.Background()
	kinds := map[string]bool{}
	for _, v := range vectors(t) {
		f, err := secret.ParseForeign(v.hash)
		if err != nil {
			t.Errorf("%s: ParseForeign(%s) = %v", v.by, v.hash, err)
			continue
		}
		kinds[f.Kind] = true
		if !slices.Equal(f.Needs, v.allow) || f.Ours {
			t.Errorf("%s: %s needs %v, want %v", v.by, v.hash, f.Needs, v.allow)
		}
		kept := must.Get(h.Wrap(ctx, secret.Caller{}, f))(t)
		if err := secret.CheckPasswordHash(kept.Text, true); err != nil {
			t.Errorf("%s: CheckPasswordHash(%s) = %v", v.by, kept.Text, err)
		}
		if testing.Short() && !f.Wrapped && f.Kind != "pbkdf2-sha256" {
			continue // takes too long: the wrapped ones of its kind, and this kind, are checked
		}
		cuts := strings.HasPrefix(f.Kind, "bcrypt") && !strings.HasPrefix(v.hash.Text(), "bcrypt_sha256")
		if got := must.Get(h.Verify(ctx, secret.Caller{}, kept.Text, v.password))(t); !got.Match || got.Renew != (!cuts || len(v.password) <= 72) {
			t.Errorf("%s: Verify(%s, %q) = %+v, want a match", v.by, kept.Text, v.password, got)
		}
		if got := must.Get(h.Verify(ctx, secret.Caller{}, kept.Text, "wrong "+v.password))(t); got.Match {
			t.Errorf("%s: Verify(%s) accepts a wrong password", v.by, kept.Text)
		}
	}
	for _, kind := range []string{"bcrypt", "bcrypt-10", "bcrypt-12", "argon2id", "argon2i", "pbkdf2-sha1", "pbkdf2-sha256", "pbkdf2-sha512", "scrypt", "symfony", "crypt", "phpass", "digest"} {
		if !kinds[kind] {
			t.Errorf("no vector is of the kind %s, only %v", kind, kinds)
		}
	}
}

// Texts of each kind behind their parameters.
const (
	bcryptRest = "Bqriii12e9KfinuYScWI/uSRtXXzRKYM63MgVz8Uo1mBeGrMsKstm"
	key32      = "gt74kerSACiaERIef9/CD8l5HECxXOdB8sk7Y0P62Kw"
	salt16     = "RYhxjtF6jw0ok88ck4gskQ"
	argonRest  = "$" + salt16 + "$" + key32
	cryptRest5 = "$IL1Ya1x9DzcbYcmo$K9hjGQBc/AaxBpeKBF8T56VC9ucNQPCG3mmY83zeatB"
	hex32      = "82def8bde2b3b0289a11121e7fd0820fc9791c40b15ce741f2c93b6343fad8ac"
)

// Promise (Platform §10): costs outside the bounds are refused at import: bcrypt 3 and 15, 129 MiB,
// 9 lanes, 4 M iterations, N·r·p above 2²⁰, 100,001 rounds
// Promise (Platform §10): $2x$, $2z$, argon2d and version 16 are refused; nothing is guessed
// Promise (Platform §10): bcrypt of cost 31, argon2 of 4 GiB, pbkdf2 of 2³¹, scrypt of N=2³⁰
func TestForeignBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, hash string // JSON, or a text
		want       string // kind, with " wrapped", or "" if it is refused
	}{
		{"bcrypt_3", "$2b$03$" + bcryptRest, ""},
		{"bcrypt_4", "$2b$04$" + bcryptRest, "bcrypt wrapped"},
		{"bcrypt_9", "$2a$09$" + bcryptRest, "bcrypt wrapped"},
		{"bcrypt_10", "$2y$10$" + bcryptRest, "bcrypt-10"},
		{"bcrypt_14", "$2y$14$" + bcryptRest, "bcrypt-14"},
		{"bcrypt_15", "$2y$15$" + bcryptRest, ""},
		{"bcrypt_31", "$2y$31$" + bcryptRest, ""},
		{"bcrypt_of_Django_31", "bcrypt$$2b$31$" + bcryptRest, ""},
		{"bcrypt_x", "$2x$10$" + bcryptRest, ""},
		{"bcrypt_z", "$2z$10$" + bcryptRest, ""},
		{"bcrypt_without_a_letter", "$2$10$" + bcryptRest, ""},
		{"bcrypt_short", "$2y$10$" + bcryptRest[1:], ""},
		{"bcrypt_cost_of_one_digit", "$2y$4$" + bcryptRest, ""},
		{"bcrypt_cost_with_a_sign", "$2y$+9$" + bcryptRest, ""},

		{"argon2_ours", "$argon2id$v=19$m=19456,t=2,p=1" + argonRest, "argon2id ours"},
		{"argon2i_with_our_parameters", "$argon2i$v=19$m=19456,t=2,p=1" + argonRest, "argon2i"},
		{"argon2_cheap", "$argon2id$v=19$m=30719,t=1,p=1" + argonRest, "argon2id wrapped"},
		{"argon2_from_30_MiB", "$argon2id$v=19$m=30720,t=1,p=1" + argonRest, "argon2id"},
		{"argon2_of_128_MiB", "$argon2id$v=19$m=131072,t=4,p=8" + argonRest, "argon2id"},
		{"argon2_of_more", "$argon2id$v=19$m=131073,t=1,p=1" + argonRest, ""},
		{"argon2_of_4_GiB", "$argon2id$v=19$m=4194304,t=1,p=1" + argonRest, ""},
		{"argon2_of_many_passes", "$argon2id$v=19$m=131072,t=5,p=1" + argonRest, ""},
		{"argon2_that_overflows", "$argon2id$v=19$m=65536,t=65537,p=1" + argonRest, ""},
		{"argon2_without_passes", "$argon2id$v=19$m=65536,t=0,p=1" + argonRest, ""},
		{"argon2_without_lanes", "$argon2id$v=19$m=65536,t=2,p=0" + argonRest, ""},
		{"argon2_of_9_lanes", "$argon2id$v=19$m=65536,t=2,p=9" + argonRest, ""},
		{"argon2_of_257_lanes", "$argon2id$v=19$m=65536,t=2,p=257" + argonRest, ""},
		{"argon2d", "$argon2d$v=19$m=65536,t=2,p=1" + argonRest, ""},
		{"argon2_version_16", "$argon2id$v=16$m=65536,t=2,p=1" + argonRest, ""},
		{"argon2_without_a_version", "$argon2id$m=65536,t=2,p=1" + argonRest, ""},
		{"argon2_key_id", "$argon2id$v=19$m=65536,t=2,p=1,keyid=AAAA" + argonRest, ""},
		{"argon2_salt_of_7_bytes", "$argon2id$v=19$m=65536,t=2,p=1$AAAAAAAAAA$" + key32, ""},
		{"argon2_key_of_11_bytes", "$argon2id$v=19$m=65536,t=2,p=1$" + salt16 + "$AAAAAAAAAAAAAAA", ""},
		{"argon2_key_of_12_bytes", "$argon2id$v=19$m=65536,t=2,p=1$" + salt16 + "$AAAAAAAAAAAAAAAA", "argon2id"},
		{"argon2_of_Django", "argon2$argon2id$v=19$m=102400,t=2,p=8" + argonRest, "argon2id"},

		{"pbkdf2_cheap", "$pbkdf2-sha256$99999" + argonRest, "pbkdf2-sha256 wrapped"},
		{"pbkdf2_from_100_k", "$pbkdf2-sha256$100000" + argonRest, "pbkdf2-sha256"},
		{"pbkdf2_of_4_M", "$pbkdf2-sha256$4000000" + argonRest, "pbkdf2-sha256"},
		{"pbkdf2_of_more", "$pbkdf2-sha256$4000001" + argonRest, ""},
		{"pbkdf2_of_2_31", "$pbkdf2-sha256$2147483648" + argonRest, ""},
		{"pbkdf2_of_2_32", "$pbkdf2-sha256$4294967296" + argonRest, ""},
		{"pbkdf2_none", "$pbkdf2-sha256$0" + argonRest, ""},
		{"pbkdf2_leading_zero", "$pbkdf2-sha256$0100000" + argonRest, ""},
		{"pbkdf2_sha1_from_200_k", "$pbkdf2$200000" + argonRest, "pbkdf2-sha1"},
		{"pbkdf2_sha1_cheap", "$pbkdf2$199999" + argonRest, "pbkdf2-sha1 wrapped"},
		{"pbkdf2_sha1_two_blocks", "$pbkdf2$2000001" + argonRest, ""},
		{"pbkdf2_sha512_from_50_k", "$pbkdf2-sha512$50000" + argonRest, "pbkdf2-sha512"},
		{"pbkdf2_sha512_cheap", "$pbkdf2-sha512$49999" + argonRest, "pbkdf2-sha512 wrapped"},
		{"pbkdf2_sha512_of_more_than_2_M", "$pbkdf2-sha512$2000001" + argonRest, ""},
		{"pbkdf2_of_Ory", "$pbkdf2-sha256$i=100000,l=32" + argonRest, "pbkdf2-sha256"},
		{"pbkdf2_of_Ory_wrong_size", "$pbkdf2-sha256$i=100000,l=31" + argonRest, ""},
		{"pbkdf2_of_Django", "pbkdf2_sha256$600000$seasalt$" + key32 + "=", "pbkdf2-sha256"},
		{"pbkdf2_of_Django_without_a_salt", "pbkdf2_sha256$600000$$" + key32 + "=", ""},
		{"pbkdf2_of_Werkzeug", "pbkdf2:sha256:600000$seasalt$" + hex32, "pbkdf2-sha256"},
		{"pbkdf2_of_md5", "pbkdf2:md5:600000$seasalt$" + hex32, ""},
		{"pbkdf2_object", `{"scheme":"pbkdf2-sha256","iterations":27500,"salt":"c2FsdA==","key":"` + key32 + `="}`, "pbkdf2-sha256 wrapped"},
		{"pbkdf2_object_key_of_15_bytes", `{"scheme":"pbkdf2-sha256","iterations":27500,"salt":"c2FsdA==","key":"AAAAAAAAAAAAAAAAAAAA"}`, ""},
		{"pbkdf2_object_of_a_fraction", `{"scheme":"pbkdf2-sha256","iterations":27500.0,"salt":"c2FsdA==","key":"` + key32 + `="}`, ""},
		{"pbkdf2_object_of_a_text", `{"scheme":"pbkdf2-sha256","iterations":"27500","salt":"c2FsdA==","key":"` + key32 + `="}`, ""},
		{"pbkdf2_object_more", `{"scheme":"pbkdf2-sha256","iterations":27500,"salt":"c2FsdA==","key":"` + key32 + `=","type":"password"}`, ""},
		{"pbkdf2_object_less", `{"scheme":"pbkdf2-sha256","iterations":27500,"salt":"c2FsdA=="}`, ""},
		{"aspnet_of_2_31", `{"scheme":"aspnet","hash":"AQAAAAGAAAAAAAAAEAABAgMEBQYHCAkKCwwNDg+C3vi94rOwKJoREh5/0IIPyXkcQLFc50HyyTtjQ/rYrA=="}`, ""},
		{"aspnet_whose_salt_is_all", `{"scheme":"aspnet","hash":"AQAAAAEAACcQ/////wABAgMEBQYHCAkKCwwNDg+C3vi94rOwKJoREh5/0IIPyXkcQLFc50HyyTtjQ/rYrA=="}`, ""},
		{"aspnet_version_9", `{"scheme":"aspnet","hash":"CQAAAAEAACcQAAAAEAABAgMEBQYHCAkKCwwNDg+C3vi94rOwKJoREh5/0IIPyXkcQLFc50HyyTtjQ/rYrA=="}`, ""},

		{"scrypt_cheap", "$scrypt$ln=13,r=8,p=1" + argonRest, "scrypt wrapped"},
		{"scrypt_from_2_17", "$scrypt$ln=14,r=8,p=1" + argonRest, "scrypt"},
		{"scrypt_of_128_MiB", "$scrypt$ln=17,r=8,p=1" + argonRest, "scrypt"},
		{"scrypt_of_256_MiB", "$scrypt$ln=18,r=8,p=1" + argonRest, ""},
		{"scrypt_of_2_30", "$scrypt$ln=30,r=1,p=1" + argonRest, ""},
		{"scrypt_of_2_64", "$scrypt$ln=64,r=8,p=1" + argonRest, ""},
		{"scrypt_of_2_30_of_Django", "scrypt$1073741824$seasalt$1$1$" + key32 + "=", ""},
		{"scrypt_parallel", "$scrypt$ln=17,r=8,p=2" + argonRest, ""},
		{"scrypt_of_many_ends", "scrypt:16:1:65536$seasalt$" + hex32, "scrypt wrapped"},
		{"scrypt_of_too_many_ends", "scrypt:2:1:65537$seasalt$" + hex32, ""},
		{"scrypt_of_large_ends", "scrypt:2:131072:1$seasalt$" + hex32, ""},
		{"scrypt_that_overflows", "scrypt:2:2147483648:2147483648$seasalt$" + hex32, ""},
		{"scrypt_no_power_of_two", "scrypt:24576:8:1$seasalt$" + hex32, ""},
		{"scrypt_of_Werkzeug", "scrypt:32768:8:1$seasalt$" + hex32, "scrypt"},

		{"symfony", `{"scheme":"symfony","algorithm":"sha256","iterations":100000,"salt":"s","hash":"` + hex32 + `"}`, "symfony wrapped"},
		{"symfony_of_more", `{"scheme":"symfony","algorithm":"sha256","iterations":100001,"salt":"s","hash":"` + hex32 + `"}`, ""},
		{"symfony_of_none", `{"scheme":"symfony","algorithm":"sha256","iterations":0,"salt":"s","hash":"` + hex32 + `"}`, ""},
		{"symfony_brace", `{"scheme":"symfony","algorithm":"sha256","iterations":5000,"salt":"s}","hash":"` + hex32 + `"}`, ""},
		{"symfony_wrong_size", `{"scheme":"symfony","algorithm":"sha512","iterations":5000,"salt":"s","hash":"` + hex32 + `"}`, ""},
		{"symfony_algorithm", `{"scheme":"symfony","algorithm":"sha3-256","iterations":5000,"salt":"s","hash":"` + hex32 + `"}`, ""},
		{"symfony_not_in_base64", `{"scheme":"symfony","algorithm":"sha256","iterations":5000,"base64":true,"salt":"s","hash":"` + hex32 + `=="}`, ""},

		{"crypt", "$5$rounds=100000" + cryptRest5, "crypt wrapped"},
		{"crypt_of_more", "$5$rounds=100001" + cryptRest5, ""},
		{"crypt_of_fewer", "$5$rounds=999" + cryptRest5, ""},
		{"crypt_of_a_billion", "$5$rounds=999999999" + cryptRest5, ""},
		{"crypt_salt_of_17_bytes", "$5$1" + cryptRest5[1:], ""},
		{"crypt_another_size", "$6" + cryptRest5, ""},
		{"crypt_md5", "$1$saltsalt$qjXMvbEw8oaL.CzflDtaK/", ""},
		{"phpass", "$P$I12345678Cb8lKGhMhDUVuV2gLyv2L1", "phpass wrapped"},
		{"phpass_of_more", "$P$J12345678Cb8lKGhMhDUVuV2gLyv2L1", ""},
		{"phpass_of_fewer", "$P$412345678Cb8lKGhMhDUVuV2gLyv2L1", ""},
		{"phpass_no_character", "$P$!12345678Cb8lKGhMhDUVuV2gLyv2L1", ""},

		{"LDAP", "{SSHA}JFZFs0oHzxbMwkSJmYVeI8MnTDy/276a", "digest wrapped"},
		{"LDAP_in_small_letters", "{ssha}JFZFs0oHzxbMwkSJmYVeI8MnTDy/276a", "digest wrapped"},
		{"LDAP_without_a_salt", "{SSHA}JFZFs0oHzxbMwkSJmYVeI8MnTDw=", ""},
		{"LDAP_with_a_salt", "{SHA}JFZFs0oHzxbMwkSJmYVeI8MnTDy/276a", ""},
		{"LDAP_unknown", "{CLEARTEXT}secret", ""},
		{"hexadecimal_alone", hex32, ""},
		{"plain", "correct horse battery staple", ""},
		{"nothing", "", ""},
		{"a_number", "12", ""},
		{"a_scheme_that_nobody_knows", `{"scheme":"sha256","hash":"` + hex32 + `"}`, ""},
		{"an_object_without_a_scheme", `{"hash":"` + hex32 + `"}`, ""},
		{"salt_of_256_bytes", `{"scheme":"digest","algorithm":"sha256","salt":"` + strings.Repeat("s", 256) + `","hash":"` + hex32 + `"}`, ""},
		{"text_of_513_bytes", "pbkdf2_sha256$600000$" + strings.Repeat("s", 448) + "$" + key32 + "=", ""},

		{"wrapped", "$wrapped$symfony-sha512$i=5000$c2FsdA$argon2id$v=19$m=19456,t=2,p=1" + argonRest, "symfony ours wrapped"},
		{"wrapped_cheaply", "$wrapped$symfony-sha512$i=5000$c2FsdA$argon2id$v=19$m=8,t=1,p=1" + argonRest, ""},
		{"wrapped_in_argon2i", "$wrapped$symfony-sha512$i=5000$c2FsdA$argon2i$v=19$m=19456,t=2,p=1" + argonRest, ""},
		{"wrapped_dear", "$wrapped$bcrypt$c=31$" + salt16 + "$argon2id$v=19$m=19456,t=2,p=1" + argonRest, ""},
		{"wrapped_twice", "$wrapped$wrapped$$c2FsdA$argon2id$v=19$m=19456,t=2,p=1" + argonRest, ""},
		{"wrapped_without_parameters", "$wrapped$symfony-sha512$$c2FsdA$argon2id$v=19$m=19456,t=2,p=1" + argonRest, ""},
		{"wrapped_bcrypt_of_another_salt", "$wrapped$bcrypt$c=4$c2FsdA$argon2id$v=19$m=19456,t=2,p=1" + argonRest, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := snapshot.Text(tt.hash)
			if strings.HasPrefix(tt.hash, `{"`) || tt.name == "a_number" {
				v = must.Get(snapshot.Parse([]byte(tt.hash), 2))(t)
			}
			f, err := secret.ParseForeign(v)
			got := f.Kind
			if f.Ours || f.Wrapped && f.Text != "" {
				got += " ours"
			}
			if f.Wrapped {
				got += " wrapped"
			}
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("ParseForeign(%s) = %q, %v, want %q", tt.hash, got, err, tt.want)
			}
			if err != nil && len(tt.hash) > 8 && strings.Contains(err.Error(), tt.hash[len(tt.hash)-8:]) {
				t.Errorf("the error repeats the hash: %v", err)
			}
		})
	}
}

// TestVectorsOfRFCs: RFC 7914 §11 (PBKDF2) and §12 (scrypt).
func TestVectorsOfRFCs(t *testing.T) {
	t.Parallel()
	h, ctx := secret.NewQuickHasher(), context.Background()
	for password, hash := range map[string]string{
		"pleaseletmein": "scrypt:16384:8:1$SodiumChloride$7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887",
		"password":      "scrypt:1024:8:16$NaCl$fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b3731622eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640",
		"passwd":        "pbkdf2:sha256:1$salt$55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783",
		"Password":      "pbkdf2:sha256:80000$NaCl$4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d",
	} {
		f, err := secret.ParseForeign(snapshot.Text(hash))
		if err != nil {
			t.Errorf("ParseForeign(%s) = %v", hash, err)
			continue
		}
		kept := must.Get(h.Wrap(ctx, secret.Caller{}, f))(t)
		if got := must.Get(h.Verify(ctx, secret.Caller{}, kept.Text, password))(t); !got.Match {
			t.Errorf("Verify(%s, %q) = %+v, want a match", hash, password, got)
		}
	}
}

// Promise (Platform §10): a kept hash goes out as the text or object that came in; a wrapped one
// says what it wraps, and comes in again as it is
func TestForeignHashesGoOutAgain(t *testing.T) {
	t.Parallel()
	h, ctx := secret.NewHasher(), context.Background()
	wrapped := map[string]bool{}
	for _, v := range vectors(t) {
		f := must.Get(secret.ParseForeign(v.hash))(t)
		if testing.Short() && wrapped[f.Kind] {
			continue // one of each kind: to wrap takes a hash of ours
		}
		wrapped[f.Kind] = f.Wrapped
		kept := must.Get(h.Wrap(ctx, secret.Caller{}, f))(t)
		out := secret.ExportHash(kept.Text)
		if !f.Wrapped && out.String() != v.hash.String() {
			t.Errorf("ExportHash(%s) = %s, want %s", kept.Text, out, v.hash)
		}
		again, err := secret.ParseForeign(out)
		if err != nil || again.Text != kept.Text || again.Kind != kept.Kind || again.Wrapped != f.Wrapped || f.Wrapped && len(again.Needs) > 0 {
			t.Errorf("ParseForeign(%s) = %+v, %v, want what went out", out, again, err)
		}
		if salt, wraps := strings.CutPrefix(kept.Text, "$wrapped$"); f.Wrapped && (!wraps || !strings.Contains(salt, strings.Fields(f.Kind)[0])) {
			t.Errorf("the text of a wrapped %s is %s", f.Kind, kept.Text)
		}
	}
}

// FuzzParseForeign: whatever is taken is checked within a second and 128 MiB, and a text that a
// record keeps matches or does not, without an error.
func FuzzParseForeign(f *testing.F) {
	for _, v := range vectors(f) {
		if hash := must.Get(secret.ParseForeign(v.hash))(f); hash.Wrapped || !testing.Short() {
			f.Add(v.hash.Append(nil), v.password)
		}
	}
	f.Add([]byte(`"$2b$31$`+bcryptRest+`"`), "x")
	f.Add([]byte(`"$P$I12345678Cb8lKGhMhDUVuV2gLyv2L1"`), "x")
	f.Add([]byte(`"$wrapped$digest-md5$$$argon2id$v=19$m=19456,t=2,p=1`+argonRest+`"`), "x")
	h := secret.NewQuickHasher()
	f.Fuzz(func(t *testing.T, data []byte, password string) {
		v, err := snapshot.Parse(data, 2)
		if err != nil || len(password) > secret.PasswordSizeMax {
			return
		}
		hash, err := secret.ParseForeign(v)
		if err != nil {
			return
		}
		kept := must.Get(h.Wrap(t.Context(), secret.Caller{}, hash))(t)
		if kept.Text == "" || secret.CheckPasswordHash(kept.Text, true) != nil {
			t.Fatalf("ParseForeign(%s) keeps %q", data, kept.Text)
		}
		began := time.Now()
		if _, err := h.Verify(t.Context(), secret.Caller{}, kept.Text, password); err != nil {
			t.Fatalf("Verify(%s) = %v", kept.Text, err)
		}
		if took := time.Since(began); took > 20*2*time.Second { // two forms, on a busy machine
			t.Fatalf("Verify(%s) took %v", kept.Text, took)
		}
		if out := secret.ExportHash(kept.Text); !hash.Wrapped && !out.Equal(v) {
			t.Fatalf("ExportHash(%s) = %s", kept.Text, out)
		}
	})
}

package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"

	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// Promise (Credentials, memory, connections): 64 sign-ins at once; tokens changed by a character
func TestToken(t *testing.T) {
	t.Parallel()
	kinds := []secret.Kind{secret.AccessToken, secret.RefreshToken, secret.Code, secret.ClientSecret, secret.SessionToken}

	t.Run("comes_back_through_Parse_as_its_own_kind_only", func(t *testing.T) {
		t.Parallel()
		for _, kind := range kinds {
			token := secret.New(nil, kind)
			for _, other := range kinds {
				back, ok := secret.Parse(other, token.Reveal())
				if ok != (other == kind) {
					t.Errorf("Parse(%q, a %q token) = %v", other, kind, ok)
				}
				if ok && !back.Equal(token) {
					t.Errorf("Parse(%q) gave another token", kind)
				}
			}
		}
	})

	t.Run("every_single_character_edit_is_refused", func(t *testing.T) {
		t.Parallel()
		text := secret.New(nil, secret.AccessToken).Reveal()
		const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_+/=. "
		for i := range text {
			for _, c := range []byte(alphabet) {
				if text[i] == c {
					continue
				}
				bent := text[:i] + string(c) + text[i+1:]
				if _, ok := secret.Parse(secret.AccessToken, bent); ok {
					t.Fatalf("Parse took a token with character %d changed to %q", i, c)
				}
			}
		}
		for _, bent := range []string{text[:len(text)-1], text + "0", text + "=", strings.ToUpper(text), " " + text, ""} {
			if _, ok := secret.Parse(secret.AccessToken, bent); ok {
				t.Errorf("Parse took a token of another length or case (%d bytes)", len(bent))
			}
		}
	})

	t.Run("cannot_print_itself", func(t *testing.T) {
		t.Parallel()
		token := secret.New(nil, secret.ClientSecret)
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token)
		asJSON := must.Get(json.Marshal(map[string]any{"token": token}))(t)
		within := struct{ inner secret.Token }{token}
		shown := fmt.Sprintf("%v %+v %#v %s %q %x", token, token, token, token, token, token) + log.String() + string(asJSON) +
			fmt.Sprintf("%v %+v %#v", within, within, within) + token.String() + token.GoString()
		if strings.Contains(shown, token.Reveal()[7:]) || strings.Contains(shown, fmt.Sprintf("%x", token.Reveal())) {
			t.Errorf("a token shows in %q", shown)
		}
	})

	t.Run("has_256_bits_and_no_two_equal_in_a_million", func(t *testing.T) {
		t.Parallel()
		if space := new(big.Int).Exp(big.NewInt(62), big.NewInt(43), nil); space.BitLen() <= 256 {
			t.Fatalf("43 base62 characters hold %d bits", space.BitLen()-1)
		}
		count := 1_000_000
		if testing.Short() {
			count = 100_000
		}
		seen := make(map[secret.Hash]struct{}, count)
		for range count {
			seen[secret.New(nil, secret.Code).Hash()] = struct{}{}
		}
		if len(seen) != count {
			t.Errorf("%d tokens, %d of them different", count, len(seen))
		}
	})
}

// Promise (Platform §12): the text of an imported token is 20 to 512 visible ASCII characters and begins
// with none of our prefixes
func TestParseImported(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("aZ9-._~+/=!", 3)
	for _, text := range []string{body[:20], body, strings.Repeat("x", 512), "toll_" + body, "TOLLAT_" + body} {
		if token, ok := secret.ParseImported(text); !ok || token.Reveal() != text {
			t.Errorf("ParseImported(%q) is refused", text)
		}
	}
	refused := []string{"", body[:19], strings.Repeat("x", 513), body + " ", body + "\n", "\x00" + body, body + "\x7f", body + "ä"}
	for _, kind := range []secret.Kind{secret.AccessToken, secret.RefreshToken, secret.Code, secret.ClientSecret, secret.SessionToken} {
		refused = append(refused, string(kind)+body)
	}
	for _, text := range refused {
		if _, ok := secret.ParseImported(text); ok {
			t.Errorf("ParseImported(%q) is taken", text)
		}
	}
}

func TestSuccessors(t *testing.T) {
	t.Parallel()
	key, old, nonce := secret.NewKey(nil), secret.New(nil, secret.RefreshToken), secret.NewNonce(nil)
	access, refresh := key.Successors(old, nonce)
	if again, _ := key.Successors(old, nonce); !again.Equal(access) {
		t.Error("Successors gave two tokens for one input")
	}
	if _, ok := secret.Parse(secret.AccessToken, access.Reveal()); !ok {
		t.Error("Parse refuses a successor")
	}
	first := func(access, _ secret.Token) secret.Token { return access }
	for name, other := range map[string]secret.Token{
		"key":   first(secret.NewKey(nil).Successors(old, nonce)),
		"kind":  refresh,
		"token": first(key.Successors(secret.New(nil, secret.RefreshToken), nonce)),
		"nonce": first(key.Successors(old, secret.NewNonce(nil))),
	} {
		if other.Reveal()[7:] == access.Reveal()[7:] {
			t.Errorf("Successors does not depend on the %s", name)
		}
	}
	// A retry that comes after an upgrade gets the pair from before it.
	known := must.Get(secret.ParseKey(bytes.Repeat([]byte("0f"), secret.KeySize)))(t)
	text, _ := secret.Fixture("old")
	access, refresh = known.Successors(text, secret.Nonce{1})
	for want, got := range map[string]secret.Token{
		"tollat_3bP2YBuv68qNlLgd9ZgwmJYaCr7bPYNlZSSKLdYESlt07gqQt": access,
		"tollrt_10g7l7UAmuRXxy1Eoc3jzpis1mrnTE7dK8ekXzzKcnu2ezFjb": refresh,
	} {
		if got.Reveal() != want {
			t.Errorf("Successors gives %s, want %s as in earlier releases", got.Reveal(), want)
		}
	}
}

// TestSuccessorsOfManyCallers: the states that callers share keep nothing of another's key or token.
func TestSuccessorsOfManyCallers(t *testing.T) {
	t.Parallel()
	type call struct {
		key   secret.Key
		old   secret.Token
		nonce secret.Nonce
		want  [2]string
	}
	derive := func(c call) [2]string {
		access, refresh := c.key.Successors(c.old, c.nonce)
		return [2]string{access.Reveal(), refresh.Reveal()}
	}
	long, _ := secret.Fixture(strings.Repeat("x", secret.FixtureSizeMax))
	keys := []secret.Key{secret.NewKey(nil), secret.NewKey(nil)}
	var calls []call
	for i := range 64 {
		c := call{key: keys[i%2], old: secret.New(nil, secret.RefreshToken), nonce: secret.NewNonce(nil)}
		if i%5 == 0 {
			c.old = long
		}
		c.want = derive(c)
		calls = append(calls, c)
	}
	var callers sync.WaitGroup
	for first := range 8 {
		callers.Go(func() {
			for i := range 500 {
				if c := calls[(first*7+i*13)%len(calls)]; derive(c) != c.want {
					t.Errorf("call %d of caller %d got other tokens than alone", i, first)
					return
				}
			}
		})
	}
	callers.Wait()
}

// BenchmarkSuccessors derives the pair of a rotation.
func BenchmarkSuccessors(b *testing.B) {
	key, old, nonce := secret.NewKey(nil), secret.New(nil, secret.RefreshToken), secret.NewNonce(nil)
	b.ReportAllocs()
	for b.Loop() {
		key.Successors(old, nonce)
	}
}

// Promise (Monitoring): client secrets are random, compared in constant time; passwords are
// Argon2id, rehashed when parameters rise; the server key is in no backup
func TestKey(t *testing.T) {
	t.Parallel()
	key := secret.NewKey(nil)

	t.Run("opens_what_it_sealed_for_the_same_label_only", func(t *testing.T) {
		t.Parallel()
		sealed := key.Seal("a", []byte("plain"))
		if plain, ok := key.Open("a", sealed); !ok || string(plain) != "plain" {
			t.Errorf("Open = %q, %v", plain, ok)
		}
		if _, ok := key.Open("b", sealed); ok {
			t.Error("Open took another label's text")
		}
		if _, ok := secret.NewKey(nil).Open("a", sealed); ok {
			t.Error("Open took another key's text")
		}
	})

	t.Run("every_bent_character_is_refused", func(t *testing.T) {
		t.Parallel()
		sealed := key.Seal("a", []byte("a plain text of some length"))
		for i := range sealed {
			c := byte('A')
			if sealed[i] == 'A' {
				c = 'B'
			}
			if _, ok := key.Open("a", sealed[:i]+string(c)+sealed[i+1:]); ok {
				t.Fatalf("Open took a text with character %d changed", i)
			}
		}
	})

	t.Run("keeps_its_bytes_through_its_file_and_shows_them_nowhere_else", func(t *testing.T) {
		t.Parallel()
		back, err := secret.ParseKey(key.Text())
		if err != nil || back != key {
			t.Fatalf("ParseKey(Text) = %v", err)
		}
		text := strings.TrimSpace(string(key.Text()))
		for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s", key, key, key, key), key.Fingerprint()} {
			if strings.Contains(shown, text[:16]) {
				t.Errorf("the key shows in %q", shown)
			}
		}
		for _, bad := range []string{"", "00", text[:62], text + "00", "zz" + text[2:]} {
			if _, err := secret.ParseKey([]byte(bad)); err == nil {
				t.Errorf("ParseKey took %d characters", len(bad))
			}
		}
	})

	t.Run("MAC_parts_cannot_be_shifted", func(t *testing.T) {
		t.Parallel()
		if key.MAC("l", "ab", "c") == key.MAC("l", "a", "bc") || key.MAC("l", "a") == key.MAC("m", "a") {
			t.Error("two inputs have one MAC")
		}
	})
}

func TestS256(t *testing.T) {
	t.Parallel()
	// RFC 7636, appendix B.
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	if got := secret.S256(verifier); got != challenge {
		t.Errorf("S256 = %q, want %q", got, challenge)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(secret.New(nil, secret.AccessToken).Reveal())
	f.Add("tollat_")
	f.Add(strings.Repeat("0", 56))
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := secret.Parse(secret.AccessToken, text)
		if ok && token.Reveal() != text {
			t.Errorf("Parse(%q) spells %q", text, token.Reveal())
		}
		if !ok && !token.IsZero() {
			t.Error("a refused text gave a token")
		}
	})
}

func FuzzParseCrockford(f *testing.F) {
	f.Add("01kk9kgbjj00023m5qehe9m3gk")
	f.Add(strings.Repeat("z", 26))
	f.Add(strings.Repeat("7", 26))
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := secret.ParseCrockford(text)
		if ok && string(secret.AppendCrockford(nil, id)) != text {
			t.Errorf("%q is spelt %q", text, secret.AppendCrockford(nil, id))
		}
	})
}

// BenchmarkNew is the floor of PERFORMANCE.md for an opaque token: random bits,
// base62 and SHA-256.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		_ = secret.New(nil, secret.AccessToken).Hash()
	}
}

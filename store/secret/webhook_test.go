package secret_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

func TestWebhookSecret(t *testing.T) {
	t.Parallel()
	const key = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	ofSize := func(n int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n))
	}

	t.Run("signs_as_the_official_library_does", func(t *testing.T) {
		t.Parallel()
		answer := must.Get(os.ReadFile("../../handlers/testdata/events/1_retrieve.http"))(t)
		_, body, _ := bytes.Cut(answer, []byte("\n\n"))
		body = bytes.TrimSuffix(body, []byte("\n"))
		first, ok := secret.ParseWebhookSecret(key)
		second, also := secret.ParseWebhookSecret(ofSize(24))
		if !ok || !also {
			t.Fatal("a valid secret is refused")
		}
		const id, want = "evt_01kk9kgbjj00023m5qehe9m3gk", "v1,VN6iIRyNJ0c7jv4OZeA9OhGSOzgmLfoAWk9UXUrXeqs="
		at := time.Unix(1773070201, 999)
		if got := secret.SignWebhook([]secret.Token{first}, id, at, body); got != want {
			t.Errorf("SignWebhook(%d bytes) = %s, want %s", len(body), got, want)
		}
		alone := secret.SignWebhook([]secret.Token{second}, id, at, body)
		if got := secret.SignWebhook([]secret.Token{second, first}, id, at, body); got != alone+" "+want {
			t.Errorf("SignWebhook with two secrets = %s, want %s %s", got, alone, want)
		}
	})

	t.Run("a_new_one_has_32_bytes_and_is_redacted", func(t *testing.T) {
		t.Parallel()
		made := secret.NewWebhookSecret(nil)
		back, ok := secret.ParseWebhookSecret(made.Reveal())
		if !ok || !back.Equal(made) || len(made.Reveal()) != len(ofSize(32)) {
			t.Errorf("a new secret has %d characters and is valid: %v", len(made.Reveal()), ok)
		}
		if made.Equal(secret.NewWebhookSecret(nil)) {
			t.Error("two new secrets are equal")
		}
		if shown := fmt.Sprintf("%v %+v %#v", made, made, made); strings.Contains(shown, made.Reveal()) {
			t.Errorf("it prints itself: %s", shown)
		}
	})

	t.Run("24_to_64_bytes_in_standard_base64_only", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]bool{
			ofSize(23): false, ofSize(24): true, ofSize(64): true, ofSize(65): false, key: true, "": false, "whsec_": false,
			key[6:]: false, "WHSEC_" + key[6:]: false, key[:len(key)-1]: false, key + "\n": false, key + " ": false,
			strings.ReplaceAll(ofSize(24), "+", "-"): false, strings.Replace(key, "h8=", "h9=", 1): false,
		} {
			if _, ok := secret.ParseWebhookSecret(text); ok != want {
				t.Errorf("ParseWebhookSecret(%q) = %v, want %v", text, ok, want)
			}
		}
	})
}

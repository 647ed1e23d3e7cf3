package oauth

import (
	"encoding/base64"
	"testing"
)

// Promise (RFC 6749 §2.3): Basic credentials are form-decoded before they are compared; Basic and a
// secret in the body together are refused, even when equal
// Promise (RFC 6749 §2.3): Basic may accompany the same client_id in the body, no other; a
// confidential client may use either
func TestParseBasic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pair, wantID, wantSecret string }{
		{"plain", "id:secret", "id", "secret"},
		{"an_encoded_colon_belongs_to_the_id", "a%3Ab:secret", "a:b", "secret"},
		{"a_second_colon_belongs_to_the_secret", "id:a:b", "id", "a:b"},
		{"a_plus_is_a_blank", "an+id:a+secret", "an id", "a secret"},
		{"an_encoded_plus_is_a_plus", "id:a%2Bb", "id", "a+b"},
		{"an_encoded_percent_is_decoded_once", "id:%2541", "id", "%41"},
		{"letters_of_any_script", "%C3%A9:%E2%82%AC", "é", "€"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := ParseBasic("Basic " + base64.StdEncoding.EncodeToString([]byte(c.pair)))
			if !ok || got.ID != c.wantID || got.Secret != c.wantSecret {
				t.Errorf("ParseBasic(%q) = %q, %q, %t, want %q, %q", c.pair, got.ID, got.Secret, ok, c.wantID, c.wantSecret)
			}
		})
	}
}

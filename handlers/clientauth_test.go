package handlers

import (
	"encoding/base64"
	"testing"
)

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
			got, ok := parseBasic("Basic " + base64.StdEncoding.EncodeToString([]byte(c.pair)))
			if !ok || got.id != c.wantID || got.secret != c.wantSecret || !got.basic {
				t.Errorf("parseBasic(%q) = %q, %q, %t, want %q, %q", c.pair, got.id, got.secret, ok, c.wantID, c.wantSecret)
			}
		})
	}
}

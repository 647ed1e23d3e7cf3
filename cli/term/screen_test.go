package term

import (
	"encoding/json"
	"testing"

	"tollhouse/store/storetest/must"
	"unicode"
)

// Promise (Attacks on operations): terminal controls in events, names and arguments; JSON to a pipe
// stays byte for byte
func TestVisible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"plain_text_stays", "Voss & Söhne 会計 ١٢٣ 👍🏽 ❤️ a\u00a0b\u3000c", "Voss & Söhne 会計 ١٢٣ 👍🏽 ❤️ a\u00a0b\u3000c"},
		{"controls", "a\x1b[2Jb\x00\n\t\r\x07", `a\u001b[2Jb\u0000\n\t\r\u0007`},
		{"delete", "a\x7fb", `a\u007fb`},
		{"C1_controls", "\u009b31m\u0085", `\u009b31m\u0085`},
		{"C1_controls_as_bytes", "a\x9b31m", `a\x9b31m`},
		{"what_turns_text_around", "\u202a\u202e\u2066\u2069\u200e\u200f\u061c", `\u202a\u202e\u2066\u2069\u200e\u200f\u061c`},
		{"separators_of_lines_and_paragraphs", "\u2028\u2029", `\u2028\u2029`},
		{"what_is_not_seen", "a\u200bb\u00adc\u2060\ufeff\u3164\u115f", `a\u200bb\u00adc\u2060\ufeff\u3164\u115f`},
		{"tags_in_two_units", "\U000e0041", `\udb40\udc41`},
		{"a_replacement_character_stays", "a\ufffdb", "a\ufffdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Visible(c.text); got != c.want {
				t.Errorf("visible(%q) = %s, want %s", c.text, got, c.want)
			}
			if again := Visible(c.want); again != c.want {
				t.Errorf("visible(%s) = %s, want the same", c.want, again)
			}
		})
	}
}

// FuzzVisible: whatever is shown steers nothing, and JSON means the same.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"a\x9b", "\u202e\\\u007f", "\U000e0041\"", "\xef\xbf"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Visible(text) {
			if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("visible(%q) holds %U", text, r)
			}
		}
		document := must.Get(json.Marshal(text))(t)
		var want, got string
		must.Do(t, json.Unmarshal(document, &want))
		if err := json.Unmarshal([]byte(Visible(string(document))), &got); err != nil || got != want {
			t.Fatalf("visible(%s) reads as %q, %v; want %q", document, got, err, want)
		}
	})
}

package spelling

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"type", "type[]", "createdAt", "createdAt[gte]", "limit", "order", "after", "before"}
	tests := []struct{ name, word, want string }{
		{"a_letter_too_many", "types[]", "type[]"},
		{"another_case", "createdat", "createdAt"},
		{"a_letter_missing", "limt", "limit"},
		{"two_letters_swapped", "oredr", "order"},
		{"the_word_itself", "after", "after"},
		{"nothing_like_it", "webhooks", ""},
		{"a_single_letter_is_no_slip_for_a_long_word", "x", ""},
		{"the_empty_word", "", ""},
		{"a_word_past_the_bound", strings.Repeat("type", 25), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := Nearest(tt.word, slices.Values(known))
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("Nearest(%q) = %q, %v, want %q", tt.word, got, ok, tt.want)
			}
		})
	}
}

func FuzzDistance(f *testing.F) {
	f.Add("type", "types")
	f.Add("ab", "ba")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > wordSizeMax || len(b) > wordSizeMax {
			return // such words are never compared
		}
		d := distance(a, b)
		if d != distance(b, a) {
			t.Errorf("distance(%q, %q) = %d, and %d the other way round", a, b, d, distance(b, a))
		}
		if (d == 0) != (a == b) {
			t.Errorf("distance(%q, %q) = %d", a, b, d)
		}
		if least, most := max(len(a), len(b))-min(len(a), len(b)), max(len(a), len(b)); d < least || d > most {
			t.Errorf("distance(%q, %q) = %d, outside %d to %d", a, b, d, least, most)
		}
	})
}

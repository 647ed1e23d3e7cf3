package secret

import (
	"regexp"
	"strings"
	"testing"
)

func TestUserCode(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^([0-9a-hjkmnp-tv-z]{5}-){3}[0-9a-hjkmnp-tv-z]{5}$`)
	seen := map[string]bool{}
	for range 1000 {
		code := NewUserCode(nil).Reveal()
		if !form.MatchString(code) || seen[code] {
			t.Fatalf("NewUserCode() = %q, want four new groups of five characters", code)
		}
		seen[code] = true
	}
	code := NewUserCode(func(_ string, b []byte) {
		for i := range b {
			b[i] = byte(i)
		}
	})
	if code.Reveal() != "01234-56789-abcde-fghjk" {
		t.Fatalf("NewUserCode(0…19) = %q", code.Reveal())
	}
	for _, typed := range []string{"01234-56789-abcde-fghjk", "0123456789ABCDEFGHJK", " o1234 56789 ABCDE FGHJK ", "OL234-56789-abcde-fghjk", "0i234-56789-abcde-fghjk"} {
		if got, ok := ParseUserCode(typed); !ok || !got.Equal(code) {
			t.Errorf("ParseUserCode(%q) = %q, %t, want the code", typed, got.Reveal(), ok)
		}
	}
	for _, typed := range []string{"", "-", "01234-56789-abcde-fghj", "01234-56789-abcde-fghjkm", "01234-56789-abcde-fghju", "01234-56789-abcde-fghj\xff", strings.Repeat("é", 20), strings.Repeat("0", 1<<16)} {
		if got, ok := ParseUserCode(typed); ok || !got.IsZero() {
			t.Errorf("ParseUserCode(%.30q) = %q, %t, want none", typed, got.Reveal(), ok)
		}
	}
}

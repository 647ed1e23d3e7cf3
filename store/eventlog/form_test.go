package eventlog

import (
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/record"
)

// TestForms compares the forms with the patterns in the documents.
func TestForms(t *testing.T) {
	t.Parallel()
	forms := []struct {
		name    string
		judge   func(string) bool
		pattern string
	}{
		{"event_type", IsEventType, `^[a-z][a-z0-9_]{0,31}\.[a-z][a-z0-9_]{0,47}$`},
		{"kind", IsKind, `^[a-z][a-z0-9_]{0,31}$`},
		{"action", IsAction, `^[a-z][a-z0-9_]{0,47}$`},
		{"id", IsID, `^[A-Za-z0-9_-]{1,64}$`},
		{"account", func(id string) bool { return record.CheckAccountID(id) == nil }, `^[a-z0-9][a-z0-9_-]{0,63}$`},
	}
	var texts []string
	for c := range 256 { // each byte alone, first, in the middle, last
		b := string([]byte{byte(c)})
		texts = append(texts, b, b+"a", "a"+b+"a", "a"+b, "a.b"+b, b+".b", "a."+b)
	}
	for _, size := range []int{0, 1, 31, 32, 33, 47, 48, 49, 63, 64, 65} {
		long := strings.Repeat("a", size)
		texts = append(texts, long, long+".a", "a."+long, long+"."+long, long+"\n", "A"+long, "_"+long, "0"+long)
	}
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			pattern, taken := regexp.MustCompile(form.pattern), 0
			for _, text := range texts {
				want := pattern.MatchString(text)
				if got := form.judge(text); got != want {
					t.Errorf("%q: %v, want %v as by %s", text, got, want, form.pattern)
				}
				if want {
					taken++
				}
			}
			if taken == 0 {
				t.Error("no text has the form")
			}
		})
	}
}

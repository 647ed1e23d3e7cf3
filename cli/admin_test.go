package cli

import "testing"

func TestAsClause(t *testing.T) {
	t.Parallel()
	for sentence, want := range map[string]string{
		"The name is empty.": "the name is empty", "OAuth is spelt so.": "OAuth is spelt so", "": "", "A": "a", "X.": "x",
		"JSON is not read": "JSON is not read",
	} {
		if got := asClause(sentence); got != want {
			t.Errorf("asClause(%q) = %q, want %q", sentence, got, want)
		}
	}
}

package term

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLayOut: rows fit the terminal, and nothing of them is lost.
//
// Promise (Commands and settings): long work shows one progress line, on a terminal only; tables
// fit it without loss
func TestLayOut(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"USER", "SCOPES", "ID"}, {"mara", "events:read resources:read", "fam_0123456789"}, {"晴子", "-", "fam_1"}}
	widths := []int{4, 26, 14}
	for _, c := range []struct {
		name  string
		limit int
		want  string
	}{
		{"no_terminal", 0, `
USER  SCOPES                      ID
mara  events:read resources:read  fam_0123456789
晴子  -                           fam_1
`}, {"just_wide_enough", 48, `
USER  SCOPES                      ID
mara  events:read resources:read  fam_0123456789
晴子  -                           fam_1
`}, {"a_column_below", 47, `
USER  SCOPES
  ID
mara  events:read resources:read
  fam_0123456789
晴子  -
  fam_1
`}, {"a_text_longer_than_a_line", 16, `
USER
  SCOPES
  ID
mara
  events:read
  resources:read
  fam_0123456789
晴子
  -
  fam_1
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := string(layOut(rows, widths, c.limit)); got != c.want[1:] {
				t.Errorf("laid out in %d columns:\n%swant%s", c.limit, got, c.want)
			}
		})
	}
	t.Run("one_column_gives_way", func(t *testing.T) {
		t.Parallel()
		table := &Table{Widths: []int{4, 40, 7}, Breaks: 2}
		for limit, want := range map[int]int{0: 40, 100: 40, 55: 40, 54: 39, 31: 16, 30: 40} {
			if got := table.narrowed(limit)[1]; got != want {
				t.Errorf("in %d columns it has %d, want %d", limit, got, want)
			}
		}
	})
	t.Run("any_rows_in_any_width", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			columns := rapid.IntRange(1, 5).Draw(t, "columns")
			cell := rapid.StringOfN(rapid.RuneFrom([]rune("ab晴 é\u0301_")), 0, 30, -1)
			rows := rapid.SliceOfN(rapid.SliceOfN(cell, columns, columns), 1, 4).Draw(t, "rows")
			limit := rapid.IntRange(5, 80).Draw(t, "limit")
			widths, want := make([]int, columns), ""
			for _, cells := range rows {
				for i, text := range cells {
					widths[i] = max(widths[i], Cells(text))
					want += text
				}
			}
			got := string(layOut(rows, widths, limit))
			for line := range strings.Lines(got) {
				if n := Cells(strings.TrimSuffix(line, "\n")); n > limit {
					t.Fatalf("a line of %d cells in %d: %q", n, limit, line)
				}
			}
			if a, b := letters(got), letters(want); !slices.Equal(a, b) {
				t.Fatalf("%q holds not what %q does", got, want)
			}
		})
	})
}

// letters are the characters of a text but spaces, sorted: a wrapped cell stands
// between the lines of its neighbours.
func letters(text string) []rune {
	all := []rune(strings.Join(strings.Fields(text), ""))
	slices.Sort(all)
	return all
}

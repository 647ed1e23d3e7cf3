// Package spelling finds the word that a caller probably meant, for the "did you mean"
// at the end of an error. Commands, handlers and the store use it for flags,
// parameters, event types and fields.
package spelling

import (
	"iter"
	"strings"
)

// wordSizeMax bounds the work of one comparison; a longer word has no near word.
const wordSizeMax = 96

// Nearest returns the known word closest to word, ignoring case. It returns false when
// more than a third of the letters would have to change. On a tie the first word wins.
func Nearest(word string, known iter.Seq[string]) (string, bool) {
	if len(word) > wordSizeMax {
		return "", false
	}
	folded := strings.ToLower(word)
	best, bestDistance := "", -1
	for candidate := range known {
		if len(candidate) > wordSizeMax {
			continue
		}
		d := distance(folded, strings.ToLower(candidate))
		if d > max(1, max(len(word), len(candidate))/3) {
			continue
		}
		if bestDistance < 0 || d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best, bestDistance >= 0
}

// distance counts the insertions, deletions, replacements and swaps of adjacent bytes
// that turn a into b.
func distance(a, b string) int {
	before := make([]int, len(b)+1) // the row two above
	above := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}

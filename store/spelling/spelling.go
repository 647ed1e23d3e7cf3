// Package spelling finds the word that somebody probably meant, for the "did
// you mean" at the end of a refusal. It is a package of its own because three
// rooms ask it, about parameters, event types and fields, and none of them owns
// the question.
package spelling

import (
	"iter"
	"strings"
)

// wordSizeMax bounds the work of one comparison; a longer word is near nothing.
const wordSizeMax = 96

// Nearest returns the known word that word is most likely a slip for, and false
// when none is near: more than a third of the letters would have to change.
// Case does not count. Of equally near words the first is taken.
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

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b, byte by byte.
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

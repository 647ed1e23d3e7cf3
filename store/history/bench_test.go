package history_test

import (
	"testing"

	"tollhouse/store/history"
)

// BenchmarkNext is the time per event of a million:
// go test ./store/history -run - -bench Next -benchtime 300000x
func BenchmarkNext(b *testing.B) {
	g := history.New(planOf(1, 1_000_000))
	for b.Loop() {
		if _, more := g.Next(); !more {
			b.Fatal("the history has ended")
		}
	}
}

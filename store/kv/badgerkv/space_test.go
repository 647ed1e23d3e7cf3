package badgerkv

import (
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestMergedNext: what the engine may merge at once are the newest tables, and those
// below that lie between the ends of their keys.
func TestMergedNext(t *testing.T) {
	t.Parallel()
	newest := func(left, right string) badger.TableInfo {
		return badger.TableInfo{Level: 0, Left: []byte(left), Right: []byte(right), OnDiskSize: 10}
	}
	table := func(level int, left, right string) badger.TableInfo {
		return badger.TableInfo{Level: level, Left: []byte(left), Right: []byte(right), OnDiskSize: 100}
	}
	for _, c := range []struct {
		name   string
		tables []badger.TableInfo
		want   uint64
	}{
		{"nothing", nil, 0},
		{"no newest", []badger.TableInfo{table(6, "a", "z")}, 0},
		{"newest alone", []badger.TableInfo{newest("a", "z"), newest("b", "c")}, 20},
		{"what lies aside stays", []badger.TableInfo{newest("f", "m"), newest("k", "p"), table(5, "a", "e"), table(5, "e", "f"), table(5, "g", "h"), table(5, "p", "q"), table(5, "r", "z")}, 320},
		{"further down nothing is merged yet", []badger.TableInfo{newest("f", "m"), table(5, "a", "g"), table(6, "a", "z")}, 110},
	} {
		if got := mergedNext(c.tables); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

package eventlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// fullest is an engine that notes the most bytes that an update has written.
type fullest struct {
	kv.DB
	most int
}

func (e *fullest) Update(ctx context.Context, fn func(kv.Txn) error) error {
	return e.DB.Update(ctx, func(tx kv.Txn) error {
		err := fn(tx)
		e.most = max(e.most, tx.Written())
		return err
	})
}

// An import of lines of any size and time records each batch whole: none is larger than its
// update may be.
func TestABatchOfAnyLinesFitsItsUpdate(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const lines = 600
	account, of := strings.Repeat("a", 64), strings.Repeat("r", 60)
	for name, c := range map[string]struct{ seconds, note, previous int }{
		"small_in_an_hour":          {1, 1, 1},
		"small_in_hours_of_its_own": {3600, 1, 1},
		"usual":                     {1, 500, 100},
		"large":                     {1, 20_000, 30_000},
		"large_in_hours_of_its_own": {3600, 20_000, 30_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &fullest{DB: storetest.EmptyInMemory()}
			f := storetest.Open(t, e, storetest.NewClock())
			im := must.Get(f.Events.NewImporter(account, eventlog.ImportOptions{}))(t)
			for i := range lines {
				line := fmt.Appendf(nil, `{"id":"%s%04d","type":"kind_%d.%s","resource":"%s%04d","eventData":{"object":{"note":%q},"previousAttributes":{"note":%q}},"createdAt":%d}`,
					of, i, i%70, strings.Repeat("c", 48), of, i, strings.Repeat("n", c.note), strings.Repeat("p", c.previous), f.Now().Unix()-int64(c.seconds*(lines-i)))
				if refused := must.Get(im.Add(t.Context(), line, 0))(t); len(refused) > 0 {
					t.Fatal(refused)
				}
			}
			if refused := must.Get(im.Flush(t.Context()))(t); len(refused) > 0 || im.Summary().Recorded != lines {
				t.Errorf("%+v %+v, want all recorded", refused, im.Summary())
			}
			t.Logf("at most %d bytes an update", e.most)
		})
	}
}

// The record of a type has the counts of its last three hours, however many types share few hours of
// a batch. Else it grows until no batch fits its update.
func TestCountsOfADenseHistoryStaySmall(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	// Few types are frequent. The slots of three hours take some 270 bytes.
	countsStaySmall(t, 150, 400, 400, func(draw *rand.Rand) int { return min(int(draw.ExpFloat64()*5), 47) })
}

// The records also stay small with 800 types, each of which occurs about every five hours.
func TestCountsOfManyRareTypesStaySmall(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	countsStaySmall(t, 450, 160, 60, func(draw *rand.Rand) int { return draw.IntN(800) })
}

func countsStaySmall(t *testing.T, hours, lines, most int, drawn func(*rand.Rand) int) {
	t.Helper()
	f := storetest.Open(t, storetest.EmptyInMemory(), storetest.NewClock())
	im := must.Get(f.Events.NewImporter("acct_a", eventlog.ImportOptions{}))(t)
	begun := f.Now().Unix() - int64(hours)*3600
	draw := rand.New(rand.NewPCG(7, 7))
	for i := range hours * lines {
		typ := drawn(draw)
		line := fmt.Appendf(nil, `{"id":"e%d","type":"kind_%d.changed","resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, i, typ, i%1000, begun+int64(i)*3600/int64(lines))
		if refused := must.Get(im.Add(t.Context(), line, 0))(t); len(refused) > 0 {
			t.Fatal(refused)
		}
	}
	must.Get(im.Flush(t.Context()))(t)
	largest := 0
	must.Do(t, f.DB.View(t.Context(), func(r kv.Reader) error {
		for _, v := range r.Scan(record.KnownTypesKey("acct_a").All()) {
			largest = max(largest, len(v))
		}
		return nil
	}))
	if largest > most {
		t.Errorf("the record of a type has %d bytes", largest)
	}
}

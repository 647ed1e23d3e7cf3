package eventlog

import (
	"context"
	"errors"
	"iter"
	"testing"

	"tollhouse/store/kv"
)

// cutDB is an engine on a remote database, which goes away in the middle of a scan.
type cutDB struct {
	kv.DB
	cut bool
}

type cutReader struct {
	kv.Reader
	db *cutDB
}

func (d *cutDB) View(ctx context.Context, fn func(kv.Reader) error) error {
	err := d.DB.View(ctx, func(r kv.Reader) error { return fn(cutReader{r, d}) })
	if d.cut {
		return kv.ErrAway
	}
	return err
}

func (r cutReader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	if r.db.cut {
		return func(func(k, v []byte) bool) {}
	}
	return r.Reader.Scan(rng)
}

// TestFailedPageIsForgotten: a scan that fails ends early, as if the account had fewer
// types. Later pages must not build on it.
func TestFailedPageIsForgotten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := openTest(t)
	ImportEvery(t, s, 10, 10, func(int) string { return "plan.renewed" })
	broken := &cutDB{DB: s.db, cut: true}
	s.db = broken
	wildcard := Filter{Types: []string{"plan.*"}, To: CreatedAtMax, Ascending: true, Limit: 100}
	if _, err := s.ListEvents(ctx, "a", wildcard, nil); !errors.Is(err, kv.ErrAway) {
		t.Fatalf("ListEvents() = %v, want that the database is away", err)
	}
	broken.cut = false
	if page, err := s.ListEvents(ctx, "a", wildcard, nil); err != nil || page.Count != 10 {
		t.Errorf("ListEvents() = %d events, %v; want 10", page.Count, err)
	}
}

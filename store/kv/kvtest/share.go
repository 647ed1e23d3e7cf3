package kvtest

import (
	"context"
	"errors"
	"testing"

	"tollhouse/store/kv"
)

func sharedViews(t *testing.T, db kv.DB) {
	put(t, db, "a", "1")
	ctx, end := kv.Share(context.Background())
	defer end()
	view := func(fn func(r kv.Reader) error) {
		t.Helper()
		if err := db.View(ctx, fn); err != nil {
			t.Errorf("View(shared) = %v, want nil", err)
		}
	}
	view(func(r kv.Reader) error { wantValue(t, r, "a", "1"); return nil })
	broken := errors.New("broken")
	if err := db.View(ctx, func(kv.Reader) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("View(shared, fn fails) = %v, want its error", err)
	}
	view(func(r kv.Reader) error { wantValue(t, r, "a", "1"); return nil })
	// An update with the context ends it: what follows sees the update.
	err := db.Update(ctx, func(tx kv.Txn) error { set(tx, "a", "2"); return nil })
	if err != nil {
		t.Errorf("Update(shared) = %v, want nil", err)
	}
	view(func(r kv.Reader) error { wantValue(t, r, "a", "2"); return nil })

	ctx, end = kv.Share(context.Background())
	view(func(r kv.Reader) error { wantValue(t, r, "a", "2"); wantAbsent(t, r, "b"); return nil })
	put(t, db, "a", "3", "b", "3")
	end()
	end()
	view(func(r kv.Reader) error { wantValue(t, r, "a", "3"); wantValue(t, r, "b", "3"); return nil })
}

func namedKeys(t *testing.T, db kv.DB) {
	put(t, db, "a", "1", "b", "1")
	outer := kv.Naming(context.Background(), func() [][]byte { return [][]byte{[]byte("b"), []byte("none")} })
	ctx := kv.Naming(outer, func() [][]byte {
		return [][]byte{[]byte("a"), []byte("a"), nil, []byte("!"), make([]byte, kv.KeySizeMax+1)}
	})
	err := db.Update(ctx, func(tx kv.Txn) error {
		wantValue(t, tx, "a", "1")
		wantValue(t, tx, "b", "1")
		wantAbsent(t, tx, "none")
		wantAbsent(t, tx, "unnamed")
		set(tx, "a", "2")
		wantValue(t, tx, "a", "2")
		return nil
	})
	if err != nil {
		t.Errorf("Update(keys named) = %v, want nil", err)
	}
	wantContent(t, db, "a=2", "b=1")
}

package badgerkv

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"tollhouse/store/kv"
)

// TestBuildersKeepFewBuffers: while the store is open the engine has a small pool
// of builders' buffers, which tables use, and its own pool is back in time to be
// ended with the engine (TestMain finds what it leaves behind).
func TestBuildersKeepFewBuffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := mustOpen(t, Options{Dir: dir})
	field := builderPool(db.engine)
	if field == nil {
		t.Fatal("Badger keeps its builders' buffers elsewhere now: look whether they still pile up in an import (bench -ingest), and mend builders.go")
	}
	ours := db.builders.ours
	if *field != unsafe.Pointer(ours) || db.builders.engines == nil || ours == nil {
		t.Fatalf("the pool is %v, ours %v, and %v was set aside", *field, ours, db.builders.engines)
	}
	value := make([]byte, 60<<10)
	for i := range 600 { // two memtables' worth
		err := db.Update(t.Context(), func(tx kv.Txn) error {
			return tx.Set(fmt.Appendf(nil, "k%04d", i), value, time.Time{})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, db)
	if *field != db.builders.engines {
		t.Error("the pool was not given back, so nothing ends it")
	}
	db = mustOpen(t, Options{Dir: dir})
	defer mustClose(t, db)
	if len(db.engine.Tables()) == 0 {
		t.Error("no table was built")
	}
	wantValue(t, db, "k0599", string(value))
}

package pgkv

import (
	"encoding/binary"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv/pgtest"
)

// TestAViewForgetsWhatItWentThrough: a View that reads many keys a few hundred at a time
// holds only those that it reads together.
func TestAViewForgetsWhatItWentThrough(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Options{URL: pgtest.Start(t), patience: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(t.Context(), func(tx kv.Reader) error {
		r := tx.(*reader)
		for batch := range 20 {
			var keys [][]byte
			for i := range 250 {
				keys = append(keys, binary.BigEndian.AppendUint32([]byte{'x'}, uint32(batch*250+i)))
			}
			for range r.GetMany(keys) {
				t.Error("an empty store has values")
			}
			if len(r.known) > keptMax {
				t.Fatalf("after %d batches it holds %d values, want at most %d", batch+1, len(r.known), keptMax)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

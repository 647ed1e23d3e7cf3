package eventlog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// remote is an engine that counts the round trips of an update: one for each Prefetch and
// one for each Get of a key that was not announced.
type remote struct {
	kv.DB
	trips int
}

func (e *remote) Update(ctx context.Context, fn func(kv.Txn) error) error {
	return e.DB.Update(ctx, func(tx kv.Txn) error {
		e.trips = 0
		return fn(&remoteTxn{Txn: tx, engine: e, read: map[string]bool{}})
	})
}

type remoteTxn struct {
	kv.Txn
	engine *remote
	read   map[string]bool
}

func (t *remoteTxn) Prefetch(keys [][]byte) {
	t.engine.trips++
	for _, k := range keys {
		t.read[string(k)] = true
	}
}

func (t *remoteTxn) Get(key []byte) ([]byte, error) {
	if !t.read[string(key)] {
		t.engine.trips++
		t.read[string(key)] = true
	}
	return t.Txn.Get(key)
}

func TestImportTakesFewRoundTripsABatch(t *testing.T) {
	t.Parallel()
	engine := &remote{DB: storetest.EmptyInMemory()}
	f := storetest.Open(t, engine, storetest.NewClock())
	recordOne(t, f, "plan.created")
	f.Rest()
	const lines, tripsMax = 100, 3
	for _, history := range []time.Duration{90 * 24 * time.Hour, -time.Hour} { // below the head and after it
		f.Clock.Advance(2 * time.Hour)
		for _, again := range []bool{false, true} {
			im := must.Get(f.Events.NewImporter("acct_a", eventlog.ImportOptions{}))(t)
			for i := range lines {
				id := ""
				if i%2 == 0 {
					id = fmt.Sprintf(`"id":"old_%d_%d",`, i, history)
				}
				line := fmt.Sprintf(`{%s"type":"plan.created","resource":"p%d","eventData":{"object":{}},"createdAt":%d}`, id, i, f.Now().Add(-2*time.Hour-history).Unix()+int64(i))
				if refused, err := im.Add(t.Context(), []byte(line), 0); err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
			}
			engine.trips = 0
			if refused, err := im.Flush(t.Context()); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			if sum := im.Summary(); again && sum.Unchanged != lines || !again && sum.Recorded != lines {
				t.Errorf("%+v", sum)
			}
			if engine.trips > tripsMax {
				t.Errorf("history of %s, again %t: %d lines took %d round trips, want at most %d", history, again, lines, engine.trips, tripsMax)
			}
		}
	}
}

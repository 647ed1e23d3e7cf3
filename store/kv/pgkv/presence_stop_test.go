package pgkv_test

import (
	"context"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv"
	"tollhouse/store/storetest/must"
)

// TestAStopLetsABeatEnd: a server that is stopped in the middle of a look at the others has
// given up its locks once it has left. The next server starts alone then.
func TestAStopLetsABeatEnd(t *testing.T) {
	t.Parallel()
	a := madeDatabase(t)
	p := must.Get(pgkv.Join(t.Context(), quiet(a, "first")))(t)
	defer p.Leave()

	tx := must.Get(sql(t, a.URL()).Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	must.Get(tx.Exec(t.Context(), "lock table tollhouse.server in access exclusive mode"))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	beaten := make(chan error, 1)
	go func() { beaten <- p.BeatToTheEnd(ctx) }()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		must.Do(t, tx.QueryRow(t.Context(), "select exists (select from pg_locks where not granted and relation = 'tollhouse.server'::regclass)").Scan(&waits))
	}
	stop()
	must.Do(t, tx.Rollback(t.Context()))
	if err := <-beaten; err != nil {
		t.Errorf("the look ended with %v when the server was stopped, want nil", err)
	}

	p.Leave()
	if alone := must.Get(dial(t, a).ServerAlone(t.Context()))(t); !alone {
		t.Error("the server's lock is still held after it left")
	}
}

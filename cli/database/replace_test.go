package database

import (
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// TestReplaceNoticesThatItIsNotAlone: the session that keeps servers off ends before the new
// data is complete. A server may have written since, so the old data stays in use.
func TestReplaceNoticesThatItIsNotAlone(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	ctx, dsn := t.Context(), pgtest.Start(t)
	o := Options{Address: must.Get(pgkv.ParseAddress(dsn))(t)}
	generation := func() int {
		db := must.Get(pgkv.Open(ctx, pgkv.Options{URL: dsn}))(t)
		defer db.Close()
		return db.Generation()
	}
	before := generation()
	_, err := Replace(ctx, o, func(_, _ *pgkv.DB) error { return pgtest.EndLocks(dsn) })
	if err == nil || term.FailureOf(err).Code != term.ExitBusy {
		t.Errorf("Replace() = %v, want exit code %d", err, term.ExitBusy)
	}
	if now := generation(); now != before {
		t.Errorf("generation %d is in use, want %d", now, before)
	}
	must.Get(Replace(ctx, o, func(_, _ *pgkv.DB) error { return nil }))(t)
	if now := generation(); now != before+1 {
		t.Errorf("generation %d is in use, want %d", now, before+1)
	}
}

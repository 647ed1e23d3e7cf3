package store_test

import (
	"fmt"
	"runtime"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// eachNoun calls add with n lines: of an account and a client, and then of users, tokens, resources and
// events in equal parts.
func eachNoun(n int, add func(line []byte)) {
	add([]byte(`{"account":{"account":"default"}}`))
	add([]byte(`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","redirect_uris":["https://books.example/cb"]}}`))
	for _, form := range []string{
		`{"user":{"username":"user%d","password_hash":"` + bcryptOfHarriet + `"}}`,
		`{"token":{"client_id":"books","username":"user%d","access_token":"access-of-the-old-one-%[1]d","refresh_token":"refresh-of-the-old-one-%[1]d"}}`,
		`{"resource":{"kind":"plan","id":"p%d","object":{"price":9.50},"createdAt":1600000001}}`,
		`{"event":{"id":"ev-%d","type":"plan.updated","resource":"p%[1]d","createdAt":1600000002,"eventData":{"object":{"price":9.50}}}}`,
	} {
		for i := range n / 4 {
			add(fmt.Appendf(nil, form, i))
		}
	}
}

// holds imports n lines and returns how many bytes the importer itself holds in the end.
func holds(t *testing.T, f *storetest.Fixture, o store.ImportOptions, n int) int64 {
	t.Helper()
	ctx := store.WithActor(t.Context(), store.Actor{})
	im := f.NewImport(ctx, o)
	eachNoun(n, func(line []byte) { must.Do(t, im.Add(ctx, line, 0)) })
	must.Do(t, im.Flush(ctx))
	if sum := im.Summary(); sum.Errors > 0 || sum.Lines < n {
		t.Fatalf("%+v, want no line refused", sum)
	}
	with := storetest.Heap()
	runtime.KeepAlive(im)
	im = nil
	return with - storetest.Heap()
}

// TestImportHoldsNoLine is not parallel: it measures the heap of the process.
//
// Promise (Platform §9): the memory of an import does not grow with the file, and of a dry run by the
// names and hashes of the lines before alone, 100 bytes a line
func TestImportHoldsNoLine(t *testing.T) {
	const few, many, slack = 400, 8000, 128 << 10
	for name, c := range map[string]struct {
		options store.ImportOptions
		aLine   int64
	}{"import": {store.ImportOptions{}, 0}, "dry_run": {store.ImportOptions{DryRun: true}, 100}} {
		t.Run(name, func(t *testing.T) {
			f := storetest.New(t)
			for try := 1; ; try++ { // a connection of the database that ends meanwhile counts too
				less, more := holds(t, f, c.options, few), holds(t, f, c.options, many)
				t.Logf("of %d lines an importer holds %d bytes, of %d %d", few, less, many, more)
				if more <= less+slack+c.aLine*many {
					return
				}
				if try == 3 {
					t.Fatalf("of %d lines an importer holds %d bytes, of %d %d, want no more than %d a line", few, less, many, more, c.aLine)
				}
			}
		})
	}
}

package server

import (
	"fmt"
	"log/slog"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// BenchmarkSeedUsers creates the 50 users of a seed file, as a start of dev does.
func BenchmarkSeedUsers(b *testing.B) {
	var lines [][]byte
	for i := range 50 {
		lines = append(lines, fmt.Appendf(nil, `{"user":{"username":"user%d","password":"pw"}}`, i))
	}
	for b.Loop() {
		b.StopTimer()
		data := must.Get(datadir.Open(b.Context(), datadir.Options{Engine: datadir.EngineMemory, Key: secret.NewKey(nil), Log: slog.New(slog.DiscardHandler), Dev: &datadir.DevOptions{}}))(b)
		b.StartTimer()
		parsed := must.Get(parseSeed(lines))(b)
		must.Get(parsed.apply(b.Context(), data.Store, nil, nil))(b)
		b.StopTimer()
		must.Do(b, data.Close())
		b.StartTimer()
	}
}

// TestDevOptionsNeedMemory: nothing on disk is opened for fixtures.
func TestDevOptionsNeedMemory(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a directory was opened for test fixtures")
		}
	}()
	_, _ = datadir.Open(t.Context(), datadir.Options{Dir: t.TempDir(), Dev: &datadir.DevOptions{}})
}

package server

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"tollhouse/cli/datadir"
	"tollhouse/handlers/dev"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
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
		parsed := must.Get(parseSeed(lines, snapshot.Rules{}))(b)
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

// FuzzSeedLine: a line of a seed file becomes one thing, or an error that names the line
// and the next step.
func FuzzSeedLine(f *testing.F) {
	for _, seed := range []string{
		`{"user":{"username":"ines","password":"pw"}}`, `{"client":{"name":"Larkspur","redirect_uris":["https://a.example/"]}}`, `{"account":{"id":"acct_a"}}`,
		`{"event":{"type":"customer.created","resource":"cus_1","eventData":{"object":{}}}}`, `{"resource":{"kind":"customer","id":"cus_1","object":{}}}`,
		`{"webhook":{"url":"https://a.example/"}}`, `{"token":{"client":"a","username":"ines"}}`, `{"usr":{}}`, `{"user":[]}`, `[`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parseSeed([][]byte{[]byte(line)}, snapshot.Rules{})
		var of *seedError
		switch {
		case err == nil:
			if n := len(s.clients) + len(s.users) + len(s.accounts) + len(s.events) + len(s.webhooks) + len(s.tokens); n != 1 {
				t.Errorf("%q is %d things, want 1", line, n)
			}
		case !errors.As(err, &of) || of.line != 1 || of.hint == "":
			t.Errorf("%q: %v, want an error of line 1 with a hint", line, err)
		}
	})
}

// A seed cannot bring in what common readers cannot hold; the answer names the member.
//
// Promise (§2.4): a number beyond binary64 and U+0000 are 400 `invalid_json` with the path of the
// member, in every body and line; all other numbers stay exact
func TestSeedRefusesWhatReadersCannotHold(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`1e400`, `123e999999999`, `"\u0000"`, `"\ud800"`} {
		line := `{"resource":{"kind":"plan","id":"p1","object":{"a":[` + value + `]}}}`
		_, err := parseSeed([][]byte{[]byte(line)}, snapshot.Rules{})
		var refused *dev.SeedError
		if !errors.As(ofSeed(err), &refused) || !refused.Unheld || refused.Param != "resource.object.a[0]" {
			t.Errorf("%s: %v (%+v)", line, err, refused)
		}
	}
	if _, err := parseSeed([][]byte{[]byte(`{"resource":{"kind":"plan","id":"p1","object":{"a":1e308}}}`)}, snapshot.Rules{}); err != nil {
		t.Errorf("1e308: %v", err)
	}
}

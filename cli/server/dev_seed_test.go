package server

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/handlers/dev"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook/target"
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

// Promise (Platform §9): a seed line of dev takes what a line of an import takes, as it does: ids,
// times of creation, hashes of secrets and tokens, a resource without an event; accounts are made as needed
func TestSeedLinesTakeWhatAnImportTakes(t *testing.T) {
	t.Parallel()
	data := must.Get(datadir.Open(t.Context(), datadir.Options{Engine: datadir.EngineMemory, Key: secret.NewKey(nil), Log: slog.New(slog.DiscardHandler), Dev: &datadir.DevOptions{}}))(t)
	defer func() { must.Do(t, data.Close()) }()
	const user, access, refresh = "usr_00000000000000000000000001", "an access token of the old system", "a refresh token of the old one"
	sum := func(text string) string { return fmt.Sprintf("%x", secret.HashOf(text)) }
	lines := [][]byte{
		[]byte(`{"account":{"account":"acct_old","created_at":1600000000}}`),
		[]byte(`{"client":{"client_id":"books","client_secret_hash":{"scheme":"sha256","hash":"` + sum("s3cret") + `"},"account":"acct_books","grants":["client_credentials"],"created_at":1600000000}}`),
		[]byte(`{"user":{"user_id":"` + user + `","username":"ines","password":"pw","account":"acct_new","created_at":1600000000}}`),
		[]byte(`{"resource":{"kind":"plan","id":"basic","account":"acct_old","object":{"price":1},"event":"none"}}`),
		[]byte(`{"webhook":{"url":"https://hooks.example/","account":"acct_old","state":"disabled"}}`),
		[]byte(`{"token":{"access_token_sha256":"` + sum(access) + `","expires_in":3600,"refresh_token_sha256":"` + sum(refresh) + `","created_at":1600000000}}`),
	}
	s := must.Get(parseSeed(lines, snapshot.Rules{}))(t)
	must.Get(s.apply(t.Context(), data.Store, nil, new(target.Rules)))(t)
	ctx, then := t.Context(), time.Unix(1600000000, 0)
	if a := must.Get(data.Store.FindAccount(ctx, "acct_old"))(t); !a.CreatedAt.Equal(then) {
		t.Errorf("the account is of %v", a.CreatedAt)
	}
	c := must.Get(data.Store.AuthenticateClient(ctx, "books", "s3cret", nil))(t)
	u := must.Get(data.Store.AuthenticateUser(ctx, secret.Caller{}, "ines", "pw"))(t)
	if u.Subject() != user || !u.CreatedAt.Equal(then) || !c.CreatedAt.Equal(then) || u.Account != "acct_new" {
		t.Errorf("the user is %s of %v, the client of %v", u.Subject(), u.CreatedAt, c.CreatedAt)
	}
	if of := must.Get(data.Store.Introspect(ctx, c, access))(t); of.Username != "ines" || !of.IssuedAt.Equal(then) || of.ExpiresAt.Sub(data.Store.Now()) > time.Hour {
		t.Errorf("the token is %+v", of)
	}
	if totals := must.Get(data.Store.Totals(ctx))(t); totals.Events != 0 || totals.Resources != 1 {
		t.Errorf("%+v, want a resource without an event", totals)
	}
	for _, line := range []string{string(lines[2]), `{"user":{"username":"nobody","user_id":"usr_1"}}`, `{"token":{"access_token_sha256":"00"}}`, `{"client":{"client_id":"x","client_secret_hash":"md5"}}`,
		`{"token":{"access_token_sha256":"` + sum("over") + `","expires_in":0}}`, `{"account":{"account":"A B","created_at":1}}`} {
		bad := must.Get(parseSeed([][]byte{[]byte(line)}, snapshot.Rules{}))(t)
		var of *seedError
		if _, err := bad.apply(ctx, data.Store, nil, new(target.Rules)); err == nil || errors.As(err, &of) && of.hint == "" {
			t.Errorf("%s = %v, want an error with a hint", line, err)
		}
	}
}

package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// An Update holds as many lines as it may write, whatever they are.
func TestManyTokensAndKindsOfHashesFitTheirUpdates(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	lines := []string{`{"account":{"account":"default"}}`, `{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","redirect_uris":["https://books.example/cb"]}}`, `{"user":{"username":"harriet"}}`}
	for i := range 300 {
		lines = append(lines, fmt.Sprintf(`{"token":{"client_id":"books","username":"harriet","access_token":"access-of-the-old-one-%d","expires_at":4102444800,"refresh_token":"refresh-of-the-old-one-%d","refresh_expires_at":4102444800}}`, i, i))
	}
	iterations, kinds := 200_000, []string{"sha1", "sha256"}
	for i := range 600 {
		if iterations += iterations / 5; iterations > 3_900_000 {
			iterations = 200_000 + i
		}
		lines = append(lines, fmt.Sprintf(`{"user":{"username":"user%d","password_hash":{"scheme":"pbkdf2-%s","iterations":%d,"salt":"c2FsdA==","key":"AAAAAAAAAAAAAAAAAAAAAA=="}}}`, i, kinds[i%2], iterations))
	}
	if got := port(t, f.Store, store.ImportOptions{}, lines...); got.Created.Tokens != 300 || got.Created.Users != 601 {
		t.Errorf("%+v %v, want 300 tokens and 601 users", got.ImportSummary, got.reports[:min(len(got.reports), 3)])
	}
}

// A refused line leaves nothing behind in the Update of the lines beside it.
func TestARefusedLineWritesNothing(t *testing.T) {
	t.Parallel()
	f := storetest.New(t, func(o *store.Options) { o.Clients = 2 })
	client := func(id string) string {
		return `{"client":{"client_id":"` + id + `","client_secret":"a secret of the old system, 1","redirect_uris":["https://books.example/cb"]}}`
	}
	lines := []string{`{"account":{"account":"default"}}`, client("a"), client("b"), client("c"), client("d"), client("e"),
		`{"webhook":{"url":"https://hooks.example/","cursor":"po_nothing"}}`, `{"user":{"username":"harriet"}}`}
	got := port(t, f.Store, store.ImportOptions{SkipErrors: true}, lines...)
	if got.Errors != 4 || got.Created.Clients != 2 || got.Created.Users != 1 {
		t.Errorf("%+v %v, want three clients and the endpoint refused", got.ImportSummary, got.reports)
	}
	if in := must.Get(f.Webhooks.Instance(t.Context()))(t); in.Endpoints != 0 {
		t.Errorf("%d endpoints are counted, want none", in.Endpoints)
	}
	must.Do(t, f.DeleteClient(t.Context(), "a"))
	if again := port(t, f.Store, store.ImportOptions{}, client("c")); again.Created.Clients != 1 {
		t.Errorf("%+v %v, want the place of a deleted client", again.ImportSummary, again.reports)
	}
}

// Nobody's id is nobody's, and who is sent all events must be allowed.
func TestAnImportRaisesNoRight(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	got := port(t, f.Store, store.ImportOptions{SkipErrors: true}, `{"account":{"account":"default"}}`,
		`{"user":{"username":"nobody","user_id":"usr_`+strings.Repeat("0", 26)+`"}}`,
		`{"webhook":{"url":"https://hooks.example/","account":"*"}}`,
		`{"user":{"username":"empty","password_hash":"$wrapped$pbkdf2-sha256$i=4294967295,l=0$$argon2id$v=19$m=19456,t=2,p=1$`+strings.Repeat("A", 22)+"$"+strings.Repeat("A", 43)+`"}}`)
	want := []string{"2:invalid_parameter:user.user_id", "3:not_allowed:webhook.account", "4:invalid_hash:user.password_hash"}
	if !slices.Equal(got.reports, want) {
		t.Errorf("reports %v, want %v", got.reports, want)
	}
}

// A dry run is a list of what to do: a line that needs two leaves names both.
func TestARefusalNamesEveryLeaveOfAHash(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	line := `{"user":{"username":"u","password_hash":{"scheme":"digest","algorithm":"md5","hash":"5f4dcc3b5aa765d61d8327deb882cf99"}}}`
	for _, c := range []struct{ allow, want string }{{"", "digest,unsalted"}, {store.AllowDigest, "unsalted"}, {store.AllowUnsalted, "digest"}} {
		var hints []string
		im := f.NewImport(t.Context(), store.ImportOptions{Allow: []string{c.allow}, DryRun: true, Report: func(r store.ImportReport) { hints = append(hints, r.Refused.Hint) }})
		must.Do(t, errors.Join(im.Add(t.Context(), []byte(line), 0), im.Flush(t.Context())))
		if want := "allow it with --allow " + c.want + ", or leave such lines out"; len(hints) != 1 || hints[0] != want {
			t.Errorf("with %q: %q, want %q", c.allow, hints, want)
		}
	}
}

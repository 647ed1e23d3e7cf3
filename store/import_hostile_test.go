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
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
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

// What is wrong with a line is said without its secrets, wherever they stand in it.
//
// Promise (Platform §9): no refusal of a line repeats a password, hash, secret or token, whatever is wrong
// with it: its value, its type, its place or the members beside it
func TestARefusalRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-old-system"
	f := storetest.New(t)
	members := map[string][]string{
		"user":    {`"username":"u"`, "password", "password_hash"},
		"client":  {`"client_id":"c","redirect_uris":["https://c.example/"]`, "client_secret", "client_secret_hash"},
		"webhook": {`"url":"https://hooks.example/"`, "secret"},
		"token":   {`"client_id":"c","username":"u"`, "access_token", "access_token_sha256", "refresh_token", "refresh_token_sha256"},
	}
	values := []string{`"%s"`, `"$2b$31$%s"`, `"$argon2id$v=19$m=1,t=1,p=1$%s"`, `"{SSHA}%s"`, `"pbkdf2_sha256$%s$salt$key"`, `"$wrapped$%s"`, `["%s"]`, `{"%s":1}`, `{"a":"%s"}`,
		`{"scheme":"%s"}`, `{"scheme":"digest","algorithm":"%s","hash":"00"}`, `{"scheme":"pbkdf2-sha256","iterations":"%s","salt":"","key":""}`, `{"scheme":"digest","%s":1}`,
		`"%s\u0007"`, `"%s\u0000"`, `"%s\ud800"`, `"%s`, `"tollat_%s"`, `"%s","%[1]s":1`, `"%s","usernam":"%[1]s"`}
	refused := 0
	for noun, of := range members {
		for _, member := range of[1:] {
			for _, value := range values {
				line := fmt.Sprintf(`{%q:{%s,%q:`+value+`}}`, noun, of[0], member, canary)
				var said []string
				im := f.NewImport(t.Context(), store.ImportOptions{DryRun: true, ParseURL: new(target.Rules).ParseURL, Report: func(r store.ImportReport) {
					said = append(said, r.Refused.Code+r.Refused.Param+r.Refused.Reason+r.Refused.Hint+r.Refused.Error())
				}})
				must.Do(t, errors.Join(im.Add(t.Context(), []byte(line), 0), im.Flush(t.Context())))
				if refused += len(said); strings.Contains(strings.Join(said, " "), canary) {
					t.Errorf("%s: %q", line, said)
				}
			}
		}
	}
	if refused < 170 {
		t.Errorf("%d lines were refused, want all but the seven texts that a secret may be", refused)
	}
}

// Promise (Platform §9): a dry run refuses what the real run refuses because of the lines before, also where
// these were rolled back long ago: more endpoints or clients than there may be, and an id that another has
func TestADryRunKnowsTheLimits(t *testing.T) {
	t.Parallel()
	lines := []string{`{"account":{"account":"default"}}`}
	for i := range webhook.AccountMax + 5 {
		lines = append(lines, fmt.Sprintf(`{"webhook":{"url":"https://hooks.example/%d"}}`, i))
	}
	lines = append(lines, `{"webhook":{"id":"wep_00000000000000000000000001","url":"https://hooks.example/0"}}`, `{"account":{"account":"acct_a"}}`,
		`{"webhook":{"id":"wep_00000000000000000000000002","url":"https://hooks.example/a","account":"acct_a"}}`)
	for i := range 600 { // more than an Update has
		lines = append(lines, fmt.Sprintf(`{"client":{"client_id":"c%d","public":true,"redirect_uris":["https://books.example/cb"]}}`, i))
	}
	lines = append(lines, `{"webhook":{"id":"wep_00000000000000000000000002","url":"https://hooks.example/b","account":"acct_a"}}`,
		`{"webhook":{"id":"wep_00000000000000000000000003","url":"https://hooks.example/a","account":"acct_a"}}`, `{"webhook":{"url":"https://hooks.example/c"}}`)
	var want ported
	for _, dry := range []bool{false, true} {
		f := storetest.New(t, func(o *store.Options) { o.Clients = 590 })
		got := port(t, f.Store, store.ImportOptions{DryRun: dry, SkipErrors: true}, lines...)
		if !dry {
			want = got
		}
		if !slices.Equal(got.reports, want.reports) || got.Created != want.Created || got.Unchanged != want.Unchanged {
			t.Errorf("a dry run says %q, %+v, want %q, %+v", got.reports, got.ImportSummary, want.reports, want.ImportSummary)
		}
	}
	if want.Created.Webhooks != webhook.AccountMax+1 || want.Created.Clients != 590 {
		t.Errorf("the real run: %+v", want.ImportSummary)
	}
}

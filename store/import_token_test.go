package store_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Platform §12): tokens come in from the lines of an import, counted as created, unchanged,
// expired and cut; a dry run says the same of lines that name what only lines before have, and leaves nothing
func TestImportOfTokenLines(t *testing.T) {
	t.Parallel()
	now := storetest.NewClock().Now().Unix()
	hash := func(text string) string { return fmt.Sprintf("%x", secret.HashOf(text)) }
	token := func(client, user, members string) string {
		return fmt.Sprintf(`{"token":{"client_id":%q,"username":%q,%s}}`, client, user, members)
	}
	pair := fmt.Sprintf(`"access_token":%q,"expires_at":%d,"refresh_token_sha256":%q,"refresh_expires_at":%d,"scope":"events:read","created_at":1600000000`,
		oldAccess, now+3600, hash(oldRefresh), now+86400)
	again := fmt.Sprintf(`"access_token_sha256":%q,"refresh_token":%q`, hash(oldAccess), oldRefresh)
	second := fmt.Sprintf(`"refresh_token_sha256":%q,"refresh_expires_at":%d`, hash("second"), now+3600)
	event := `{"event":{"id":"po_%d","type":"customer.created","resource":"cus_1","createdAt":1600000002,"eventData":{"object":{"city":"Dunmere"}}}}`
	lines := []string{
		`{"account":{"account":"default"}}`,
		`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","redirect_uris":["https://books.example/cb"]}}`,
		`{"client":{"client_id":"off","public":true,"disabled":true,"redirect_uris":["https://books.example/cb"]}}`,
		`{"client":{"client_id":"back-office","client_secret":"a secret of the old system, 2","platform":true,"scopes":["users:read"]}}`,
		`{"user":{"username":"Harriet"}}`,
		`{"user":{"username":"odile"}}`,
		`{"user":{"username":"gone","disabled":true}}`,
		fmt.Sprintf(event, 1), // which ends the Update of the lines before
		token("books", "harriet", pair),
		token("books", "Harriet", again),
		token("books", "odile", second),
		fmt.Sprintf(event, 2),
		token("books", "HARRIET", again),
		token("books", "odile", pair),
		token("books", "odile", fmt.Sprintf(`"access_token":%q,"refresh_token_sha256":%q`, oldAccess, hash("second"))),
		token("books", "odile", fmt.Sprintf(`"access_token_sha256":%q`, hash("never ends"))),
		token("books", "odile", fmt.Sprintf(`"access_token_sha256":%q,"expires_at":%d`, hash("over"), now)),
		token("books", "gone", fmt.Sprintf(`"access_token_sha256":%q`, hash("of the disabled user"))),
		token("off", "odile", fmt.Sprintf(`"access_token_sha256":%q`, hash("of the disabled client"))),
		token("nobody", "odile", second),
		token("books", "nobody", second),
		token("back-office", "odile", second),
		token("books", "odile", `"access_token":"short"`),
		token("books", "odile", `"access_token_sha512":"00"`),
		`{"token":{"client_id":"books","access_token_sha256":"` + hash("nobody's") + `"}}`,
		fmt.Sprintf(event, 3),
		token("books", "odile", fmt.Sprintf(`"access_token_sha256":%q,"refresh_token_sha256":%q`, hash("never ends"), hash("second"))),
		`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","redirect_uris":["https://books.example/cb"]}}`,
	}
	wantReports := []string{"14:conflict:token", "15:conflict:token", "20:unknown_client:token.client_id", "21:unknown_user:token.username",
		"22:invalid_parameter:token.client_id", "23:invalid_parameter:token.access_token", "24:unknown_member:token.access_token_sha512", "25:invalid_parameter:token.username", "27:conflict:token"}
	var sums []store.ImportSummary
	for _, dry := range []bool{true, false} {
		f := storetest.New(t)
		before := f.CountAll(t)
		got := port(t, f.Store, store.ImportOptions{DryRun: dry, SkipErrors: true, Allow: []string{store.AllowPrivileged}}, lines...)
		if !reflect.DeepEqual(got.reports, wantReports) {
			t.Errorf("dry %v: reports\n%s, want\n%s", dry, strings.Join(got.reports, "\n"), strings.Join(wantReports, "\n"))
		}
		if got.Created.Tokens != 3 || got.Unchanged != 3 || got.Expired != 3 || got.Cut != 1 {
			t.Errorf("dry %v: %+v", dry, got.ImportSummary)
		}
		sums = append(sums, got.ImportSummary)
		if dry {
			if n := f.CountAll(t); n != before {
				t.Errorf("a dry run left %d records", n-before)
			}
			continue
		}
		c := must.Get(f.FindClient(t.Context(), "books"))(t)
		found := must.Get(f.Introspect(t.Context(), c, oldAccess))(t)
		if found.Username != "Harriet" || found.Scope != store.ScopeEventsRead || found.IssuedAt.Unix() != 1600000000 || found.ExpiresAt.Unix() != now+3600 {
			t.Errorf("Introspect() = %+v", found)
		}
		must.Get(f.RotateRefresh(t.Context(), store.Refresh{Client: c, Token: oldToken(oldRefresh)}))(t)
		audit, _ := f.AuditReasons(t, record.Position{}, 100)
		if all := strings.Join(audit, "; "); strings.Count(all, "imported") != 1 || !strings.Contains(all, "3 tokens") || strings.Contains(all, oldAccess) {
			t.Errorf("the audit record has %s, want one line that counts the tokens", all)
		}
		must.Get(f.CheckAll(t.Context()))(t)
	}
	if !reflect.DeepEqual(sums[0], sums[1]) {
		t.Errorf("the dry run says\n%+v, the import\n%+v", sums[0], sums[1])
	}
}

// Promise (Platform §9): a second run with update replaces a user and a client with tokens that nobody
// used here, which stay; once one was refreshed, they are unchanged
func TestUpdateKeepsImportedTokens(t *testing.T) {
	t.Parallel()
	lines := func(name string) []string {
		return []string{
			`{"account":{"account":"default"}}`,
			`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","name":"` + name + `","redirect_uris":["https://books.example/cb"]}}`,
			fmt.Sprintf(`{"user":{"username":"Harriet","created_at":%d}}`, 1600000000+int(name[0])),
			`{"token":{"client_id":"books","username":"harriet","access_token":"` + oldAccess + `","refresh_token":"` + oldRefresh + `"}}`,
		}
	}
	f := storetest.New(t)
	port(t, f.Store, store.ImportOptions{}, lines("Books")...)
	if got := port(t, f.Store, store.ImportOptions{Update: true}, lines("Ledger")...); got.Updated != 2 || got.Unchanged != 2 {
		t.Errorf("%+v, want the user and the client updated", got)
	}
	c := must.Get(f.FindClient(t.Context(), "books"))(t)
	if _, err := f.RotateRefresh(t.Context(), store.Refresh{Client: c, Token: oldToken(oldRefresh)}); err != nil || c.Name != "Ledger" {
		t.Errorf("RotateRefresh() = %v of %s", err, c.Name)
	}
	if got := port(t, f.Store, store.ImportOptions{Update: true}, lines("Abacus")...); got.Updated != 0 || got.Unchanged != 4 {
		t.Errorf("%+v, want all unchanged after a refresh", got)
	}
}

package store_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestImportUpdatesNobodyWhoWasUsed: what a use left behind, such as a session or a family of tokens,
// may be gone by the second run.
//
// Promise (Platform §9): --update leaves whoever was used: a client that only introspects, a user who
// signed in although the client of those tokens was deleted, one whose imported token was used or refreshed
// Promise (Platform §9): --update does not change a user or client whose imported token was revoked, nor a public
// client whose users were deleted first
func TestImportUpdatesNobodyWhoWasUsed(t *testing.T) {
	t.Parallel()
	const clientSecret, password = "a secret of the old system, 1", "a phrase of the old system"
	ours := passwordLine(t, "harriet", "default", password, "")
	for name, c := range map[string]struct {
		use         func(t testing.TB, f *storetest.Fixture)
		wantUpdated int // of the user, the client that introspects and the public one
	}{
		"nobody": {func(testing.TB, *storetest.Fixture) {}, 3},
		"a_client_that_introspects": {func(t testing.TB, f *storetest.Fixture) {
			c := must.Get(f.AuthenticateClient(t.Context(), "api", clientSecret, nil))(t)
			if _, err := f.Introspect(t.Context(), c, "a text that is no token"); err == nil {
				t.Error("no token is introspected")
			}
		}, 2},
		"a_wrong_secret": {func(t testing.TB, f *storetest.Fixture) {
			if _, err := f.AuthenticateClient(t.Context(), "api", "wrong", nil); err == nil {
				t.Error("a wrong secret is right")
			}
		}, 3},
		"a_public_client_that_anybody_names": {func(t testing.TB, f *storetest.Fixture) {
			must.Get(f.AuthenticateClient(t.Context(), "till", "", nil))(t)
		}, 3},
		"a_user_of_a_deleted_client": {func(t testing.TB, f *storetest.Fixture) {
			c, _ := f.Client(t)
			u := must.Get(f.AuthenticateUser(t.Context(), secret.Caller{}, "harriet", password))(t)
			must.Get(f.IssueForPassword(t.Context(), store.By{}, c, u, store.ScopeUnstated))(t)
			must.Do(t, f.DeleteClient(t.Context(), c.ID))
		}, 2},
		"a_user_who_signed_in": {func(t testing.TB, f *storetest.Fixture) {
			must.Get(f.AuthenticateUser(t.Context(), secret.Caller{}, "harriet", password))(t)
		}, 2},
		"a_wrong_password": {func(t testing.TB, f *storetest.Fixture) {
			if _, err := f.AuthenticateUser(t.Context(), secret.Caller{}, "harriet", "wrong"); err == nil {
				t.Error("a wrong password is right")
			}
		}, 3},
		"an_imported_token_of_a_deleted_client": {func(t testing.TB, f *storetest.Fixture) {
			must.Get(f.FindPrincipal(t.Context(), oldToken(oldAccess)))(t)
			f.FlushLastUsed(t.Context())
			must.Do(t, f.DeleteClient(t.Context(), "books"))
		}, 2},
		"an_imported_token_that_was_refreshed": {func(t testing.TB, f *storetest.Fixture) {
			c := must.Get(f.FindClient(t.Context(), "books"))(t)
			must.Get(f.RotateRefresh(t.Context(), store.Refresh{Client: c, Token: oldToken(oldRefresh)}))(t)
			must.Do(t, f.DeleteClient(t.Context(), "books"))
		}, 2},
		"an_imported_token_that_was_revoked": {func(t testing.TB, f *storetest.Fixture) {
			c := must.Get(f.FindClient(t.Context(), "books"))(t)
			must.Do(t, f.RevokeToken(t.Context(), store.By{}, c, oldAccess))
			must.Do(t, f.DeleteClient(t.Context(), "books"))
		}, 2},
		"an_imported_token_that_the_user_revoked": {func(t testing.TB, f *storetest.Fixture) {
			u := must.Get(f.FindUser(t.Context(), "harriet"))(t)
			must.Do(t, f.RevokeGranted(t.Context(), store.By{}, u, "books"))
			must.Do(t, f.DeleteClient(t.Context(), "books"))
		}, 2},
		"a_public_client_of_a_deleted_user": {func(t testing.TB, f *storetest.Fixture) {
			c, u := must.Get(f.FindClient(t.Context(), "till"))(t), f.User(t, "odile", "default")
			must.Get(f.IssueForPassword(t.Context(), store.By{}, c, u, store.ScopeUnstated))(t)
			must.Do(t, f.DeleteUser(t.Context(), "odile"))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.New(t)
			port(t, f.Store, store.ImportOptions{}, `{"account":{"account":"default"}}`, ours,
				`{"client":{"client_id":"api","client_secret":"`+clientSecret+`","redirect_uris":["https://api.example/"]}}`,
				`{"client":{"client_id":"till","public":true,"redirect_uris":["https://till.example/"]}}`,
				`{"client":{"client_id":"books","client_secret":"another secret of the old system","redirect_uris":["https://books.example/"]}}`,
				fmt.Sprintf(`{"token":{"client_id":"books","username":"harriet","access_token":%q,"refresh_token":%q}}`, oldAccess, oldRefresh))
			c.use(t, f)
			for _, dry := range []bool{true, false} {
				got := port(t, f.Store, store.ImportOptions{Update: true, DryRun: dry}, passwordLine(t, "harriet", "default", "a phrase of an attacker", ""),
					`{"client":{"client_id":"api","client_secret":"a secret of an attacker, 22","redirect_uris":["https://api.example/"]}}`,
					`{"client":{"client_id":"till","public":true,"redirect_uris":["https://evil.example/"]}}`)
				if got.Updated != c.wantUpdated || got.Unchanged != 3-c.wantUpdated {
					t.Errorf("dry %v: %d updated, %d unchanged, want %d updated of 3: %q", dry, got.Updated, got.Unchanged, c.wantUpdated, got.reports)
				}
			}
			must.Get(f.CheckAll(t.Context()))(t)
		})
	}
}

// Promise (Platform §9): an imported token counts as used only once it was used, refreshed or revoked here
func TestImportUpdatesNoClientWhoseTokenWasUsed(t *testing.T) {
	t.Parallel()
	books := func(uri string) string {
		return fmt.Sprintf(`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","redirect_uris":[%q]}}`, uri)
	}
	for name, use := range map[string]func(t testing.TB, f *storetest.Fixture, c store.Client){
		"nobody": nil,
		"used": func(t testing.TB, f *storetest.Fixture, _ store.Client) {
			must.Get(f.FindPrincipal(t.Context(), oldToken(oldAccess)))(t)
			f.FlushLastUsed(t.Context())
		},
		"refreshed": func(t testing.TB, f *storetest.Fixture, c store.Client) {
			must.Get(f.RotateRefresh(t.Context(), store.Refresh{Client: c, Token: oldToken(oldRefresh)}))(t)
		},
		"revoked": func(t testing.TB, f *storetest.Fixture, c store.Client) {
			must.Do(t, f.RevokeToken(t.Context(), store.By{}, c, oldAccess))
		},
		"another": func(t testing.TB, f *storetest.Fixture, c store.Client) {
			must.Get(f.IssueForPassword(t.Context(), store.By{}, c, f.User(t, "odile", "default"), store.ScopeUnstated))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, want := storetest.New(t), 1
			port(t, f.Store, store.ImportOptions{}, `{"account":{"account":"default"}}`, passwordLine(t, "harriet", "default", "a phrase of the old system", ""), books("https://books.example/"),
				fmt.Sprintf(`{"token":{"client_id":"books","username":"harriet","access_token":%q,"refresh_token":%q}}`, oldAccess, oldRefresh))
			if use != nil {
				use(t, f, must.Get(f.FindClient(t.Context(), "books"))(t))
				want = 0
			}
			for _, dry := range []bool{true, false} {
				if got := port(t, f.Store, store.ImportOptions{Update: true, DryRun: dry}, books("https://evil.example/")); got.Updated != want {
					t.Errorf("dry %v: %d updated, want %d: %q", dry, got.Updated, want, got.reports)
				}
			}
		})
	}
}

// Promise (Platform §9): --update of a wrapped hash or a password that is the one of before changes
// nothing, and a dry run says so; without it, another salt is reported as differing, also of a line before
func TestImportUpdatesNoPasswordThatIsTheSame(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	allow := []string{store.AllowPlain, store.AllowDigest}
	lines := func(first, second, salt string) []string {
		sum := sha256.Sum256([]byte(first + salt))
		return []string{
			fmt.Sprintf(`{"user":{"username":"wrapped","password_hash":{"scheme":"digest","algorithm":"sha256","hash":"%x","salt":%q}}}`, sum, salt),
			fmt.Sprintf(`{"user":{"username":"plain","password":%q}}`, second),
		}
	}
	old := lines("the first phrase", "the second phrase", "salt")
	port(t, f.Store, store.ImportOptions{Allow: allow}, append([]string{`{"account":{"account":"default"}}`}, old...)...)
	run := func(want string, o store.ImportOptions, lines []string) {
		t.Helper()
		o.Allow = allow
		for _, o.DryRun = range []bool{true, false} {
			p := port(t, f.Store, o, lines...)
			if got := fmt.Sprintf("%d updated, %d unchanged %v", p.Updated, p.Unchanged, p.reports); got != want {
				t.Errorf("dry %v: %s, want %s", o.DryRun, got, want)
			}
		}
	}
	both := append(lines("the first phrase", "the second phrase", "salt"), lines("another phrase", "the second phrase", "pepper")...)
	for _, dry := range []bool{true, false} {
		other := storetest.New(t)
		p := port(t, other.Store, store.ImportOptions{Allow: allow, DryRun: dry}, append([]string{`{"account":{"account":"default"}}`}, both...)...)
		if want := []string{"4:differs:password_hash"}; !slices.Equal(p.reports, want) || p.Created.Users != 2 {
			t.Errorf("dry %v, of one file: %q, want %q", dry, p.reports, want)
		}
	}
	before := f.CountAll(t)
	run("0 updated, 2 unchanged []", store.ImportOptions{Update: true}, old)
	run("0 updated, 2 unchanged []", store.ImportOptions{}, lines("another phrase", "another phrase", "salt"))
	run("0 updated, 2 unchanged [1:differs:password_hash]", store.ImportOptions{}, lines("another phrase", "another phrase", "pepper"))
	if n := f.CountAll(t); n != before {
		t.Errorf("%d records became %d", before, n)
	}
	run("2 updated, 0 unchanged []", store.ImportOptions{Update: true}, lines("another phrase", "another phrase", "salt"))
	for _, name := range []string{"wrapped", "plain"} {
		must.Get(f.AuthenticateUser(t.Context(), secret.Caller{}, name, "another phrase"))(t)
	}
	must.Get(f.CheckAll(t.Context()))(t)
}

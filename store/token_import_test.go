package store_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The tokens of another system in these tests.
const (
	oldAccess  = "MzUyYWM2ZjM5YTQ0YzY4NGFjY2Vzcw"
	oldRefresh = "NmQ3ZDk5YmI0YTM1ZjQyZXJlZnJlc2g"
)

func oldToken(text string) secret.Token {
	token, ok := secret.ParseImported(text)
	if !ok {
		panic("store_test: " + text + " is no token of another system")
	}
	return token
}

// importOf is a line of both tokens; the zero time is no end.
func importOf(c store.Client, u store.User, old store.Issued, accessEnds, refreshEnds time.Time) store.ImportedTokens {
	return store.ImportedTokens{ClientID: c.ID, Username: u.Username,
		Access:  store.ImportedToken{Hash: old.AccessToken.Hash(), ExpiresAt: accessEnds},
		Refresh: store.ImportedToken{Hash: old.RefreshToken.Hash(), ExpiresAt: refreshEnds}}
}

// imported begins a family with tokens of another system, which live as long as ours.
func (g grant) imported(t testing.TB) store.Issued {
	t.Helper()
	old := store.Issued{AccessToken: oldToken(oldAccess), RefreshToken: oldToken(oldRefresh)}
	given := importOf(g.client, g.user, old, g.Now().Add(lives.AccessToken), g.Now().Add(lives.RefreshToken))
	if outcome := must.Get(g.ImportTokens(context.Background(), given))(t); outcome != "created" {
		t.Fatalf("ImportTokens() = %q, want created", outcome)
	}
	old.FamilyID, old.Account = must.Get(g.Inspect(context.Background(), oldAccess))(t).Family.ID, g.user.Account
	return old
}

// line is the line of imported, which a test changes.
func (g grant) line(change func(*store.ImportedTokens)) store.ImportedTokens {
	old := store.Issued{AccessToken: oldToken(oldAccess), RefreshToken: oldToken(oldRefresh)}
	given := importOf(g.client, g.user, old, g.Now().Add(time.Hour), time.Time{})
	change(&given)
	return given
}

func (g grant) mustImport(t testing.TB, given store.ImportedTokens, want string) {
	t.Helper()
	outcome, err := g.ImportTokens(context.Background(), given)
	if err != nil || outcome != want {
		t.Errorf("ImportTokens() = %q, %v, want %s", outcome, err, want)
	}
}

func newImport(t *testing.T, change ...func(*store.Options)) grant {
	t.Helper()
	t.Parallel()
	return beginning{grant.imported}.in(t, storetest.New(t, change...))
}

// Promise (Platform §12): of an imported token only the SHA-256 is kept; its family is listed, used,
// introspected and revoked as any other, and the audit record has no line for each
func TestImportedTokensAreAFamily(t *testing.T) {
	ctx := context.Background()
	g := newImport(t)
	before, _ := g.AuditReasons(t, record.Position{}, 100)
	families := must.Get(g.ListFamilies(ctx, store.FamilyFilter{}, "", 10))(t)
	if len(families) != 1 || families[0].Username != "mara" || families[0].ClientID != g.client.ID || families[0].Account != "acct_larkspur" {
		t.Fatalf("ListFamilies() = %+v, want the imported one", families)
	}
	if lines := strings.Join(before, ", "); strings.Contains(lines, string(store.AuditGrant)) || strings.Contains(lines, families[0].ID) {
		t.Errorf("the audit record has %s, want no line of the tokens", lines)
	}
	for _, token := range []secret.Token{g.first.AccessToken, g.first.RefreshToken} {
		for key, value := range contents(t, g.DB) {
			if strings.Contains(key+value, token.Reveal()[4:]) {
				t.Errorf("the store has the text of a token under %q", key[:1])
			}
		}
		found, err := g.Introspect(ctx, g.client, token.Reveal())
		if err != nil || found.Username != "mara" || found.Access != token.Equal(g.first.AccessToken) {
			t.Errorf("Introspect() = %+v, %v", found, err)
		}
		if seen, err := g.Inspect(ctx, token.Reveal()); err != nil || seen.Family.ID != families[0].ID || seen.Ended != "" {
			t.Errorf("Inspect() = %+v, %v", seen, err)
		}
	}
	if !g.accessLives(t, g.first) {
		t.Error("the access token is refused")
	}
	must.Get(g.CheckAll(ctx))(t)
	must.Do(t, g.RevokeToken(ctx, store.By{}, g.client, oldRefresh))
	g.familyIsDead(t, g.first)
	if lines, _ := g.AuditReasons(t, record.Position{}, 100); !strings.Contains(strings.Join(lines, ", "), store.ReasonRevokedByClient) {
		t.Errorf("the audit record has %v, want the revocation", lines)
	}
}

// Promise (Platform §12): its own client revokes an imported access token alone, and another client
// neither revokes, introspects nor refreshes it
func TestImportedTokensAreTheirClients(t *testing.T) {
	ctx := context.Background()
	g := newImport(t)
	other, _ := g.Client(t)
	g.unchanged(t, func() {
		for _, text := range []string{oldAccess, oldRefresh} {
			must.Do(t, g.RevokeToken(ctx, store.By{}, other, text))
			_, err := g.Introspect(ctx, other, text)
			refused(t, "Introspect() by another client", err, record.ErrNotFound)
		}
		_, err := g.RotateRefresh(ctx, store.Refresh{Client: other, Token: g.first.RefreshToken})
		refused(t, "RotateRefresh() by another client", err, record.ErrMismatch)
		_, err = g.RotateRefresh(ctx, store.Refresh{Client: g.client, Token: g.first.AccessToken})
		refused(t, "RotateRefresh() of the access token", err, record.ErrNotFound)
		_, err = g.FindPrincipal(ctx, g.first.RefreshToken)
		refused(t, "FindPrincipal() of the refresh token", err, record.ErrNotFound)
	})
	must.Do(t, g.RevokeToken(ctx, store.By{}, g.client, oldAccess))
	if g.accessLives(t, g.first) {
		t.Error("the access token lives after it was revoked")
	}
	g.mustRefresh(t, g.first)
}

// Promise (Platform §12): tokens that are imported again are unchanged, whatever became of them: what
// has ended is never made live again
func TestImportingTokensAgainRevivesNone(t *testing.T) {
	ctx := context.Background()
	ends := map[string]func(t *testing.T, g grant){
		"live":                  func(*testing.T, grant) {},
		"refreshed":             func(t *testing.T, g grant) { g.mustRefresh(t, g.first) },
		"refresh_token_revoked": func(t *testing.T, g grant) { must.Do(t, g.RevokeToken(ctx, store.By{}, g.client, oldRefresh)) },
		"access_token_revoked":  func(t *testing.T, g grant) { must.Do(t, g.RevokeToken(ctx, store.By{}, g.client, oldAccess)) },
		"replayed": func(t *testing.T, g grant) {
			g.mustRefresh(t, g.mustRefresh(t, g.first))
			_, err := g.refresh(g.first)
			refused(t, "RotateRefresh()", err, record.ErrReplayed)
		},
		"user_revoked": func(t *testing.T, g grant) { must.Get(g.RevokeUser(ctx, "mara"))(t) },
		"its_end_was_cut_and_passed": func(t *testing.T, g grant) {
			g.mustRefresh(t, g.first)
			g.Clock.Advance(2 * lives.RefreshToken)
		},
		"its_family_ended": func(_ *testing.T, g grant) { g.Clock.Advance(2 * lives.Family) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for engine, f := range map[string]*storetest.Fixture{"keeps": storetest.NewKeeping(t), "drops": storetest.New(t)} {
				g := beginning{func(g grant, t testing.TB) store.Issued {
					// Without ends, so that the lines are never out of date.
					g.mustImport(t, importOf(g.client, g.user, store.Issued{AccessToken: oldToken(oldAccess), RefreshToken: oldToken(oldRefresh)}, time.Time{}, time.Time{}), "cut")
					return store.Issued{AccessToken: oldToken(oldAccess), RefreshToken: oldToken(oldRefresh)}
				}}.in(t, f)
				end(t, g)
				g.user = must.Get(g.FindUser(ctx, "mara"))(t)
				g.issue(t, store.ScopeUnstated) // after which an engine that drops what has expired has done so
				g.unchanged(t, func() {
					for _, given := range []store.ImportedTokens{
						importOf(g.client, g.user, g.first, time.Time{}, time.Time{}),
						{ClientID: g.client.ID, Username: "mara", Access: store.ImportedToken{Hash: g.first.AccessToken.Hash()}},
						{ClientID: g.client.ID, Username: "mara", Refresh: store.ImportedToken{Hash: g.first.RefreshToken.Hash()}},
					} {
						outcome, err := g.ImportTokens(ctx, given)
						if err != nil || outcome != "unchanged" {
							t.Errorf("%s: ImportTokens() = %q, %v, want unchanged", engine, outcome, err)
						}
					}
				})
			}
		})
	}
	t.Run("of_a_user_who_was_deleted_and_made_again", func(t *testing.T) {
		g := newImport(t)
		must.Do(t, g.DeleteUser(ctx, "mara"))
		g.user = g.User(t, "mara", "acct_larkspur")
		_, err := g.ImportTokens(ctx, g.line(func(*store.ImportedTokens) {}))
		refused(t, "ImportTokens()", err, store.ErrTextTaken)
	})
	t.Run("of_ours_that_was_revoked_after_an_export", func(t *testing.T) {
		g := parallelGrant(t)
		must.Do(t, g.RevokeToken(ctx, store.By{}, g.client, g.first.AccessToken.Reveal()))
		g.mustImport(t, store.ImportedTokens{ClientID: g.client.ID, Username: "mara", Access: store.ImportedToken{Hash: g.first.AccessToken.Hash()}}, "unchanged")
		if g.accessLives(t, g.first) {
			t.Error("the access token lives again")
		}
	})
}

// Promise (Platform §12): a text of another family, or of two, or the same as access and refresh
// token, is a conflict, and nothing is made
func TestImportedTokensConflict(t *testing.T) {
	ctx := context.Background()
	g := newImport(t)
	nils := g.User(t, "nils", "acct_larkspur")
	other, _ := g.Client(t)
	ours := g.issue(t, store.ScopeUnstated)
	code := secret.HashOf("another-text-of-another-system")
	g.mustImport(t, store.ImportedTokens{ClientID: g.client.ID, Username: "mara", Access: store.ImportedToken{Hash: code}}, "cut")
	cases := map[string]func(*store.ImportedTokens){
		"another_user":       func(l *store.ImportedTokens) { l.Username = nils.Username },
		"another_client":     func(l *store.ImportedTokens) { l.ClientID = other.ID },
		"two_families":       func(l *store.ImportedTokens) { l.Access.Hash = code },
		"one_of_ours":        func(l *store.ImportedTokens) { l.Access.Hash = ours.AccessToken.Hash() },
		"a_new_access_token": func(l *store.ImportedTokens) { l.Access.Hash = secret.HashOf("a-new-text-of-another-system") },
		"the_same_text":      func(l *store.ImportedTokens) { l.Access.Hash = secret.HashOf("x"); l.Refresh.Hash = l.Access.Hash },
		"refresh_as_access": func(l *store.ImportedTokens) {
			l.Username, l.Access.Hash, l.Refresh.Hash = nils.Username, g.first.RefreshToken.Hash(), secret.Hash{}
		},
	}
	g.unchanged(t, func() {
		for name, change := range cases {
			if outcome, err := g.ImportTokens(ctx, g.line(change)); !errors.Is(err, store.ErrTextTaken) {
				t.Errorf("%s: ImportTokens() = %q, %v, want a conflict", name, outcome, err)
			}
		}
	})
}

// Promise (Platform §12): a line of which nothing is live makes nothing; with one live token it is
// made with that one; access ends in 30 days at most, refresh in the store's own lifetime
func TestImportedTokensEnd(t *testing.T) {
	ctx := context.Background()
	day := 24 * time.Hour
	cases := map[string]struct {
		access, refresh time.Duration // until they end; 0 is never, and none is without the token
		want            string
		gotA, gotR      time.Duration
	}{
		"both_live":               {access: time.Hour, refresh: 2 * day, want: "created", gotA: time.Hour, gotR: 2 * day},
		"at_the_bounds":           {access: 30 * day, refresh: lives.RefreshToken, want: "created", gotA: 30 * day, gotR: lives.RefreshToken},
		"access_later":            {access: 30*day + time.Second, refresh: day, want: "cut", gotA: 30 * day, gotR: day},
		"refresh_later":           {access: day, refresh: 15 * day, want: "cut", gotA: day, gotR: lives.RefreshToken},
		"neither_ends":            {want: "cut", gotA: 30 * day, gotR: lives.RefreshToken},
		"access_expired":          {access: -time.Second, refresh: day, want: "created", gotR: day},
		"refresh_expired":         {access: day, refresh: -day, want: "created", gotA: day},
		"both_expired":            {access: -time.Second, refresh: -day, want: "expired"},
		"expires_now":             {access: time.Nanosecond, refresh: -day, want: "expired"}, // truncated to whole seconds
		"access_alone":            {access: day, refresh: none, want: "created", gotA: day},
		"access_alone_that_ended": {access: -day, refresh: none, want: "expired"},
		"refresh_alone":           {access: none, refresh: day, want: "created", gotR: day},
		"no_token":                {access: none, refresh: none, want: "expired"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			before := g.CountAll(t)
			given := store.ImportedTokens{ClientID: g.client.ID, Username: "MARA", Scope: store.ScopeEventsRead,
				Access: g.oldIn(oldAccess, c.access), Refresh: g.oldIn(oldRefresh, c.refresh)}
			g.mustImport(t, given, c.want)
			if n := g.CountAll(t); c.want == "expired" && n != before {
				t.Errorf("%d records were made, want none", n-before)
			}
			for text, want := range map[string]time.Duration{oldAccess: c.gotA, oldRefresh: c.gotR} {
				found, err := g.Introspect(ctx, g.client, text)
				if live := err == nil; live != (want != 0) || live && (!found.ExpiresAt.Equal(g.Now().Add(want)) || found.Scope != store.ScopeEventsRead) {
					t.Errorf("Introspect() = %+v, %v, want it to end in %s", found, err, want)
				}
			}
			must.Get(g.CheckAll(ctx))(t)
		})
	}
}

// none, in place of a duration, is no token; 0 is one that never ends.
const none = -1 << 62

func (g grant) oldIn(text string, ends time.Duration) (token store.ImportedToken) {
	if ends == none {
		return token
	}
	token.Hash = secret.HashOf(text)
	if ends != 0 {
		token.ExpiresAt = g.Now().Add(ends).Truncate(time.Second)
	}
	return token
}

// Promise (Platform §12): tokens of a disabled client, user or account are not live: they are not
// made, so that none comes alive when it is enabled
func TestTokensOfDisabledPartiesAreNotImported(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cases := map[string]struct{ disable, enable func(g grant) error }{
		"user": {func(g grant) error { _, err := g.DisableUser(ctx, "mara"); return err }, func(g grant) error { _, err := g.EnableUser(ctx, "mara"); return err }},
		"client": {func(g grant) error { _, err := g.DisableClient(ctx, g.client.ID); return err },
			func(g grant) error { _, err := g.EnableClient(ctx, g.client.ID); return err }},
		"account": {func(g grant) error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err },
			func(g grant) error { _, err := g.EnableAccount(ctx, "acct_larkspur"); return err }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			must.Do(t, c.disable(g))
			g.mustImport(t, g.line(func(*store.ImportedTokens) {}), "expired")
			must.Do(t, c.enable(g))
			for _, text := range []string{oldAccess, oldRefresh} {
				_, err := g.Introspect(ctx, g.client, text)
				refused(t, "Introspect()", err, record.ErrNotFound)
			}
		})
	}
}

// Promise (Platform §12): a token line names a client and a user that exist; tokens of platform
// clients and their scopes are not taken
func TestImportedTokensNeedTheirParties(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	platform, _ := g.Client(t, storetest.Platform("users:read", "events:read"))
	machine, _ := g.Client(t, func(c *store.ClientSpec) {
		c.Grants, c.Account, c.RedirectURIs = []string{string(store.GrantClientCredentials)}, "acct_larkspur", nil
	})
	cases := map[string]struct {
		change func(*store.ImportedTokens)
		want   error  // or
		field  string // that is invalid
	}{
		"unknown_client":             {change: func(l *store.ImportedTokens) { l.ClientID = "nobody" }, want: store.ErrUnknownClient},
		"unknown_user":               {change: func(l *store.ImportedTokens) { l.Username = "nobody" }, want: store.ErrUnknownUser},
		"a_name_that_cannot_be":      {change: func(l *store.ImportedTokens) { l.Username = "no body" }, want: store.ErrUnknownUser},
		"a_platform_client":          {change: func(l *store.ImportedTokens) { l.ClientID = platform.ID }, field: "client_id"},
		"a_scope_of_platform":        {change: func(l *store.ImportedTokens) { l.Scope = store.ScopeUsersRead | store.ScopeEventsRead }, field: "scope"},
		"no_user":                    {change: func(l *store.ImportedTokens) { l.Username = "" }, field: "username"},
		"a_refresh_token_of_no_user": {change: func(l *store.ImportedTokens) { l.ClientID, l.Username = machine.ID, "" }, field: "refresh_token"},
	}
	g.unchanged(t, func() {
		for name, c := range cases {
			var bad *record.InvalidError
			if _, err := g.ImportTokens(ctx, g.line(c.change)); c.want != nil && !errors.Is(err, c.want) || c.want == nil && (!errors.As(err, &bad) || bad.Field != c.field) {
				t.Errorf("%s: ImportTokens() = %v, want %v%s", name, err, c.want, c.field)
			}
		}
	})
	g.mustImport(t, g.line(func(l *store.ImportedTokens) {
		l.ClientID, l.Username, l.Refresh = machine.ID, "", store.ImportedToken{}
	}), "created")
	p := must.Get(g.FindPrincipal(ctx, oldToken(oldAccess)))(t)
	if p.ClientID != machine.ID || p.UserID != "" || p.Account != "acct_larkspur" {
		t.Errorf("FindPrincipal() = %+v, want the client for its account", p)
	}
}

// Promise (Platform §12): the texts of another system are looked up until the last family that had one
// ends, over restarts, on every server and after a restore; before and afterwards they are refused unread
func TestImportedTextsAreLookedUpUntilTheLastFamilyEnds(t *testing.T) {
	ctx := context.Background()
	isLookedUp := func(t *testing.T, s *store.Store) bool {
		t.Helper()
		_, err := s.ParseToken(ctx, secret.AccessToken, "some-text-that-is-no-token")
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Error(err)
		}
		return err == nil
	}
	g := parallelGrant(t)
	server := g.Reopened(t) // another one on the same database
	if isLookedUp(t, g.Store) || isLookedUp(t, server) {
		t.Error("a text is looked up before an import")
	}
	g.mustImport(t, g.line(func(l *store.ImportedTokens) { l.Refresh = store.ImportedToken{} }), "created")
	if !isLookedUp(t, g.Store) || !isLookedUp(t, server) || !isLookedUp(t, g.Reopened(t)) {
		t.Error("a text is not looked up after an import")
	}
	for _, text := range []string{"shorter-than-allowed"[1:], "tollat_" + oldAccess, strings.Repeat("x", 513), oldAccess + " "} {
		if _, err := g.ParseToken(ctx, secret.AccessToken, text); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("ParseToken(%d bytes) = %v, want it refused", len(text), err)
		}
	}
	g.Clock.Advance(time.Hour - tick)
	if !isLookedUp(t, g.Store) {
		t.Error("a text is not looked up while the access token lives")
	}
	g.Clock.Advance(tick)
	if isLookedUp(t, g.Store) || isLookedUp(t, server) {
		t.Error("a text is looked up after the only family has ended")
	}

	first := g.Now()
	g.mustImport(t, g.line(func(l *store.ImportedTokens) {
		l.Access, l.Refresh.Hash = store.ImportedToken{}, secret.HashOf("another")
	}), "cut")
	g.Clock.Advance(time.Hour)
	g.mustImport(t, g.line(func(l *store.ImportedTokens) {
		l.Refresh = store.ImportedToken{}
		l.Access.Hash = secret.HashOf("third")
	}), "created")
	must.Do(t, g.DeleteUser(ctx, "mara"))
	var file bytes.Buffer
	must.Get(g.Backup(ctx, &file, store.BackupNotes{}))(t)
	b := must.Get(store.OpenBackup(&file))(t)
	defer b.Close()
	restored := memkv.New(g.Clock.Now)
	must.Get(b.Load(ctx, restored, g.Now()))(t)
	stores := map[string]*store.Store{"itself": g.Store, "another_server": server, "restored": storetest.Open(t, restored, g.Clock).Store}
	g.Clock.Advance(first.Add(lives.Family).Sub(g.Now()) - tick)
	for name, s := range stores {
		if !isLookedUp(t, s) {
			t.Errorf("%s: a text is not looked up until the last family ends", name)
		}
	}
	g.Clock.Advance(tick)
	for name, s := range stores {
		if isLookedUp(t, s) {
			t.Errorf("%s: a text is looked up after the last family has ended", name)
		}
		must.Get(s.CheckAll(ctx))(t)
	}
}

// Promise (Platform §12): where no token was imported, a text of ours is never looked up as another's,
// and another's costs one read
func TestLookingForImportedTokensCostsNothingWithout(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	reads := &countedReads{DB: g.DB}
	s := storetest.Open(t, reads, g.Clock, func(o *store.Options) { o.Key = g.Key }).Store
	for text, want := range map[string]int{g.first.AccessToken.Reveal(): 0, "tollat_malformed": 0, oldAccess: 1} {
		reads.n = 0
		_, _ = s.ParseToken(ctx, secret.AccessToken, text)
		if reads.n != want {
			t.Errorf("ParseToken() of %d bytes reads %d records, want %d", len(text), reads.n, want)
		}
	}
}

// countedReads counts what is read from an engine.
type countedReads struct {
	kv.DB
	n int
}

func (c *countedReads) View(ctx context.Context, fn func(kv.Reader) error) error {
	return c.DB.View(ctx, func(r kv.Reader) error { return fn(countedReader{r, c}) })
}

type countedReader struct {
	kv.Reader
	c *countedReads
}

func (r countedReader) Get(key []byte) ([]byte, error) {
	r.c.n++
	return r.Reader.Get(key)
}

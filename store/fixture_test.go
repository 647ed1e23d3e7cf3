package store_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func withFixtures(o *store.Options) { o.Fixtures, o.Hasher = true, secret.NewQuickHasher() }

func fixtureSecret(t *testing.T, text string) secret.Token {
	t.Helper()
	sec, ok := secret.Fixture(text)
	if !ok {
		t.Fatalf("secret.Fixture(%q) is refused", text)
	}
	return sec
}

func TestFixturesAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	g, ctx := storetest.New(t, withFixtures), t.Context()
	uris := []string{"http://app:3000/cb", "myapp:/cb", "https://app.example/cb"}
	c, err := g.CreateFixedClient(ctx, "app", fixtureSecret(t, "s3cret"), store.ClientSpec{Name: "App", RedirectURIs: uris})
	must.Do(t, err)
	for _, uri := range uris {
		if !c.RedirectsTo(uri) || c.RedirectsTo(uri+"/") {
			t.Errorf("%s does not match exactly", uri)
		}
	}
	if _, err := g.AuthenticateClient(ctx, "app", "s3cret", nil); err != nil {
		t.Errorf("AuthenticateClient() = %v", err)
	}
	for _, wrong := range []string{"", "S3cret", "s3cret "} {
		if _, err := g.AuthenticateClient(ctx, "app", wrong, nil); !errors.Is(err, record.ErrMismatch) {
			t.Errorf("AuthenticateClient(%q) = %v, want a mismatch", wrong, err)
		}
	}
	must.Get(g.CreateFixtureUser(ctx, store.UserSpec{Username: "bob", Account: "acct_1", Password: "pw"}))(t)
	if _, err := g.AuthenticateUser(ctx, secret.Caller{}, "bob", "pw"); err != nil {
		t.Errorf("AuthenticateUser() = %v", err)
	}
	t.Run("an_operator_may_still_rename_the_client", func(t *testing.T) {
		name := "Another name"
		if _, err := g.UpdateClient(ctx, "app", store.ClientChange{Name: &name}); err != nil {
			t.Errorf("UpdateClient() = %v", err)
		}
	})
	t.Run("an_operator_adds_only_what_serve_takes", func(t *testing.T) {
		_, err := g.UpdateClient(ctx, "app", store.ClientChange{AddRedirectURIs: []string{"http://other/cb"}})
		var bad *record.InvalidError
		if !errors.As(err, &bad) {
			t.Errorf("UpdateClient() = %v, want it refused", err)
		}
		if _, _, err := g.CreateUser(ctx, store.UserSpec{Username: "eve", Account: "acct_1", Password: "pw"}); !errors.As(err, &bad) {
			t.Errorf("CreateUser() = %v, want it refused", err)
		}
		if _, _, err := g.CreateClient(ctx, store.ClientSpec{Name: "B", RedirectURIs: uris}); !errors.As(err, &bad) {
			t.Errorf("CreateClient() = %v, want it refused", err)
		}
	})
}

func TestFixturesHaveRules(t *testing.T) {
	t.Parallel()
	g, ctx := storetest.New(t, withFixtures), t.Context()
	for _, text := range []string{"", "a\x00b", "a\nb", "\x7f", strings.Repeat("a", 1025), "\xff"} {
		if _, ok := secret.Fixture(text); ok {
			t.Errorf("secret.Fixture(%q) is taken", text)
		}
	}
	for _, uri := range []string{"/cb", "http:///cb", "http://app/cb#part", "javascript:alert(1)", "data:text/html,x", "http://a b/", "http://*/cb"} {
		_, err := g.CreateFixedClient(ctx, "", fixtureSecret(t, "s3cret"), store.ClientSpec{Name: "App", RedirectURIs: []string{uri}})
		var bad *record.InvalidError
		if !errors.As(err, &bad) || bad.Field != "redirect_uris" {
			t.Errorf("%s: %v, want it refused", uri, err)
		}
	}
	for _, password := range []string{"", strings.Repeat("p", 1025)} {
		var bad *record.InvalidError
		if _, err := g.CreateFixtureUser(ctx, store.UserSpec{Username: "bob", Account: "acct_1", Password: password}); !errors.As(err, &bad) || bad.Field != "password" {
			t.Errorf("a password of %d bytes: %v, want it refused", len(password), err)
		}
	}
}

func TestStoreWithoutFixturesTakesNone(t *testing.T) {
	t.Parallel()
	g, ctx := storetest.New(t), t.Context()
	if _, err := g.CreateFixtureUser(ctx, store.UserSpec{Username: "bob", Account: "acct_1", Password: "pw"}); err == nil {
		t.Error("CreateFixtureUser() = nil")
	}
	if _, err := g.CreateFixedClient(ctx, "app", fixtureSecret(t, "s3cret"), store.ClientSpec{Name: "A", RedirectURIs: []string{"http://app/cb"}}); err == nil {
		t.Error("CreateFixedClient() = nil")
	}
	c, _ := g.Client(t)
	if _, err := g.IssueFixture(ctx, store.TokenSpec{Client: c, User: g.User(t, "mara", "acct_1"), AccessToken: "mine"}); err == nil {
		t.Error("IssueFixture() = nil")
	}
	if _, err := g.ParseToken(ctx, secret.AccessToken, "mine"); !errors.Is(err, record.ErrNotFound) {
		t.Error("ParseToken() takes any text")
	}
}

// TestFixturesMarkTheStore: what is weaker than serve allows goes no further than dev.
func TestFixturesMarkTheStore(t *testing.T) {
	t.Parallel()
	harmless := func(t *testing.T, g *storetest.Fixture) {
		c, err := g.CreateFixedClient(t.Context(), "demo", secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: "A", RedirectURIs: []string{storetest.CallbackURI}})
		must.Do(t, err)
		u := must.Get(g.CreateFixtureUser(t.Context(), store.UserSpec{Username: "mara", Account: "acct_1", Password: storetest.Password}))(t)
		must.Get(g.IssueFixture(t.Context(), store.TokenSpec{Client: c, User: u}))(t)
	}
	cases := map[string]struct {
		take   func(t *testing.T, g *storetest.Fixture) error
		marked bool
	}{
		"nothing_weak": {func(*testing.T, *storetest.Fixture) error { return nil }, false},
		"a_secret": {func(t *testing.T, g *storetest.Fixture) error {
			_, err := g.CreateFixedClient(t.Context(), "app", fixtureSecret(t, "s3cret"), store.ClientSpec{Name: "A", RedirectURIs: []string{storetest.CallbackURI}})
			return err
		}, true},
		"a_redirect_uri": {func(t *testing.T, g *storetest.Fixture) error {
			_, err := g.CreateFixedClient(t.Context(), "app", secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: "A", RedirectURIs: []string{"http://app/cb"}})
			return err
		}, true},
		"a_password": {func(t *testing.T, g *storetest.Fixture) error {
			_, err := g.CreateFixtureUser(t.Context(), store.UserSpec{Username: "bob", Account: "acct_1", Password: "pw"})
			return err
		}, true},
		"a_token": {func(t *testing.T, g *storetest.Fixture) error {
			c, _ := g.Client(t)
			_, err := g.IssueFixture(t.Context(), store.TokenSpec{Client: c, User: g.User(t, "bob", "acct_1"), RefreshToken: "mine"})
			return err
		}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := memkv.New(nil)
			g := storetest.Open(t, db, storetest.NewClock(), withFixtures)
			harmless(t, g)
			must.Do(t, c.take(t, g))
			_, err := store.Open(t.Context(), db, store.Options{Now: g.Clock.Now, Key: g.Key, Lifetimes: store.DefaultLifetimes()})
			var fixtures *store.FixturesError
			if errors.As(err, &fixtures) != c.marked || !c.marked && err != nil {
				t.Errorf("Open() without fixtures = %v, want it refused: %v", err, c.marked)
			}
			var file bytes.Buffer
			must.Get(g.Backup(t.Context(), &file, store.BackupNotes{}))(t)
			b := must.Get(store.OpenBackup(&file))(t)
			defer b.Close()
			_, err = b.Load(t.Context(), memkv.New(nil), g.Clock.Now())
			if errors.As(err, &fixtures) != c.marked || !c.marked && err != nil || b.HasFixtures() != c.marked {
				t.Errorf("Load() = %v, want it refused: %v", err, c.marked)
			}
		})
	}
}

func TestIssueFixture(t *testing.T) {
	t.Parallel()
	g, ctx := storetest.New(t, withFixtures), t.Context()
	c, _ := g.Client(t)
	u := g.User(t, "mara", "acct_1")
	lasting := func(d time.Duration) *time.Duration { return &d }
	issue := func(t *testing.T, change func(*store.TokenSpec)) store.Issued {
		t.Helper()
		spec := store.TokenSpec{Client: c, User: u}
		change(&spec)
		issued := must.Get(g.IssueFixture(ctx, spec))(t)
		return issued
	}
	isLive := func(token secret.Token) bool {
		_, err := g.FindPrincipal(ctx, token)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			t.Errorf("FindPrincipal() = %v", err)
		}
		return err == nil
	}
	refresh := func(token secret.Token) error {
		_, err := g.RotateRefresh(ctx, store.Refresh{Client: c, Token: token})
		return err
	}
	t.Run("is_a_family_like_any_other", func(t *testing.T) {
		issued := issue(t, func(*store.TokenSpec) {})
		if !isLive(issued.AccessToken) || issued.ExpiresIn != g.Lifetimes().AccessToken {
			t.Errorf("live %v, for %s", isLive(issued.AccessToken), issued.ExpiresIn)
		}
		if err := refresh(issued.RefreshToken); err != nil {
			t.Errorf("RotateRefresh() = %v", err)
		}
		if _, err := g.RevokeFamily(ctx, store.By{}, issued.FamilyID); err != nil {
			t.Error(err)
		}
		if isLive(issued.AccessToken) {
			t.Error("live after its family was revoked")
		}
	})
	t.Run("is_expired_from_the_beginning", func(t *testing.T) {
		for _, d := range []time.Duration{0, -time.Minute, -store.TokenLifetimeMax} {
			issued := issue(t, func(s *store.TokenSpec) { s.ExpiresIn = lasting(d) })
			if isLive(issued.AccessToken) || issued.ExpiresIn != d {
				t.Errorf("%s: live %v, for %s", d, isLive(issued.AccessToken), issued.ExpiresIn)
			}
			if err := refresh(issued.RefreshToken); err != nil {
				t.Errorf("%s: the refresh token: %v", d, err)
			}
			issued = issue(t, func(s *store.TokenSpec) { s.RefreshExpiresIn = lasting(d) })
			if err := refresh(issued.RefreshToken); !isLive(issued.AccessToken) || !errors.Is(err, record.ErrExpired) {
				t.Errorf("%s: RotateRefresh() = %v, want expired", d, err)
			}
		}
	})
	t.Run("outlives_what_is_usual", func(t *testing.T) {
		h := storetest.New(t, withFixtures)
		c, _ := h.Client(t)
		issued, err := h.IssueFixture(ctx, store.TokenSpec{Client: c, User: h.User(t, "mara", "acct_1"), ExpiresIn: lasting(800 * 24 * time.Hour)})
		must.Do(t, err)
		h.Clock.Advance(799 * 24 * time.Hour)
		if _, err := h.FindPrincipal(ctx, issued.AccessToken); err != nil {
			t.Errorf("FindPrincipal() = %v", err)
		}
	})
	t.Run("has_texts_of_the_callers_own", func(t *testing.T) {
		issue(t, func(s *store.TokenSpec) { s.AccessToken, s.RefreshToken = "mine", "tollat_not-quite" })
		access, err := g.ParseToken(ctx, secret.AccessToken, "mine")
		if err != nil || !isLive(access) {
			t.Fatal("the access token is unknown")
		}
		if found, err := g.Introspect(ctx, c, "mine"); err != nil || !found.Access {
			t.Errorf("Introspect() = %+v, %v", found, err)
		}
		if found, err := g.Introspect(ctx, c, "tollat_not-quite"); err != nil || found.Access {
			t.Errorf("Introspect() of the refresh token = %+v, %v", found, err)
		}
		if found, err := g.Inspect(ctx, "tollat_not-quite"); err != nil || found.Kind != secret.RefreshToken {
			t.Errorf("Inspect() = %+v, %v", found, err)
		}
		if err := refresh(fixtureSecret(t, "tollat_not-quite")); err != nil {
			t.Errorf("RotateRefresh() = %v", err)
		}
		if err := g.RevokeToken(ctx, store.By{}, c, "tollat_not-quite"); err != nil || isLive(access) {
			t.Errorf("RevokeToken() = %v, live %v", err, isLive(access))
		}
	})
	t.Run("takes_no_text_twice", func(t *testing.T) {
		other := issue(t, func(s *store.TokenSpec) { s.AccessToken = "twice" })
		for field, spec := range map[string]store.TokenSpec{
			"access_token":  {AccessToken: "twice"},
			"refresh_token": {RefreshToken: "twice"},
		} {
			spec.Client, spec.User = c, u
			var used *store.UsedError
			if _, err := g.IssueFixture(ctx, spec); !errors.As(err, &used) || used.Field != field {
				t.Errorf("%s: %v, want *UsedError", field, err)
			}
		}
		var used *store.UsedError
		if _, err := g.IssueFixture(ctx, store.TokenSpec{Client: c, User: u, AccessToken: "both", RefreshToken: "both"}); !errors.As(err, &used) {
			t.Errorf("one text for both: %v, want *UsedError", err)
		}
		if _, err := g.IssueFixture(ctx, store.TokenSpec{Client: c, User: u, AccessToken: other.RefreshToken.Reveal()}); !errors.As(err, &used) {
			t.Errorf("a drawn text: %v, want *UsedError", err)
		}
	})
	t.Run("refuses_what_no_header_carries", func(t *testing.T) {
		for _, text := range []string{"a b", "ä", "\n", strings.Repeat("x", 513)} {
			var bad *record.InvalidError
			if _, err := g.IssueFixture(ctx, store.TokenSpec{Client: c, User: u, AccessToken: text}); !errors.As(err, &bad) || bad.Field != "access_token" {
				t.Errorf("%q: %v, want it refused", text, err)
			}
		}
	})
	t.Run("needs_both_enabled", func(t *testing.T) {
		nils := g.User(t, "nils", "acct_1")
		must.Get(g.DisableUser(ctx, "nils"))(t)
		nils, _ = g.FindUser(ctx, nils.Username)
		if _, err := g.IssueFixture(ctx, store.TokenSpec{Client: c, User: nils}); !errors.Is(err, record.ErrDisabled) {
			t.Errorf("IssueFixture() = %v, want ErrDisabled", err)
		}
	})
}

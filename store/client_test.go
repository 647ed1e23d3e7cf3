package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (RFC 9700): a public client has no secret and never the password grant
func TestCreateClient(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	web := []string{storetest.CallbackURI}
	t.Run("confidential_client_may_use_all_grants", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		c, sec, err := f.CreateClient(ctx, store.ClientSpec{Name: "Larkspur", RedirectURIs: web})
		if err != nil || sec.IsZero() {
			t.Fatalf("CreateClient() = %v, secret is zero: %t", err, sec.IsZero())
		}
		for _, g := range []store.Grant{store.GrantPassword, store.GrantAuthorizationCode, store.GrantRefreshToken} {
			if !c.Allows(g) {
				t.Errorf("Allows(%s) = false, want true", g)
			}
		}
	})
	t.Run("public_client_has_no_secret_and_no_password_grant", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		c, sec, err := f.CreateClient(ctx, store.ClientSpec{Name: "Larkspur", RedirectURIs: web, Public: true})
		if err != nil || !sec.IsZero() || c.Allows(store.GrantPassword) {
			t.Errorf("CreateClient(public) = %v, secret is zero: %t, Allows(password) = %t, want nil, true, false", err, sec.IsZero(), c.Allows(store.GrantPassword))
		}
		if _, err := f.AuthenticateClient(ctx, c.ID, "", nil); err != nil {
			t.Errorf("AuthenticateClient(public, no secret) = %v, want nil", err)
		}
		_, err = f.AuthenticateClient(ctx, c.ID, "anything", nil)
		refused(t, "AuthenticateClient(public, a secret)", err, record.ErrMismatch)
	})
	t.Run("what_is_refused_names_its_field", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		cases := []struct {
			name string
			spec store.ClientSpec
			want string
		}{
			{"no_name", store.ClientSpec{RedirectURIs: web}, "name"},
			{"name_of_81_characters", store.ClientSpec{Name: strings.Repeat("é", 81), RedirectURIs: web}, "name"},
			{"name_that_turns_direction", store.ClientSpec{Name: "bank\u202eevil", RedirectURIs: web}, "name"},
			{"name_with_line_break", store.ClientSpec{Name: "bank\r\nSet-Cookie: x", RedirectURIs: web}, "name"},
			{"no_redirect_uri", store.ClientSpec{Name: "L"}, "redirect_uris"},
			{"33_redirect_uris", store.ClientSpec{Name: "L", RedirectURIs: slices.Repeat(web, 33)}, "redirect_uris"},
			{"unknown_grant", store.ClientSpec{Name: "L", RedirectURIs: web, Grants: []string{"implicit"}}, "grants"},
			{"password_grant_of_public_client", store.ClientSpec{Name: "L", RedirectURIs: web, Public: true, Grants: []string{"password"}}, "grants"},
			{"unknown_scope", store.ClientSpec{Name: "L", RedirectURIs: web, Scopes: []string{"admin"}}, "scopes"},
			{"public_client_that_introspects", store.ClientSpec{Name: "L", RedirectURIs: web, Public: true, Introspect: true}, "introspect"},
			{"public_client_that_remembers_consent", store.ClientSpec{Name: "L", RedirectURIs: web, Public: true, Consent: "remember"}, "consent"},
			{"unknown_consent", store.ClientSpec{Name: "L", RedirectURIs: web, Consent: "never"}, "consent"},
		}
		before := f.CountAll(t)
		for _, c := range cases {
			_, _, err := f.CreateClient(ctx, c.spec)
			var bad *record.InvalidError
			if !errors.As(err, &bad) || bad.Field != c.want || bad.Hint == "" {
				t.Errorf("%s: CreateClient() = %v, want an InvalidError with a hint for %s", c.name, err, c.want)
			}
		}
		if n := f.CountAll(t); n != before {
			t.Errorf("refused clients left %d records, want none", n-before)
		}
	})
}

func TestAuthenticateClient(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	c, sec := f.Client(t)
	_, another := f.Client(t)
	cases := []struct {
		name, id, secret string
		want             error
	}{
		{"right", c.ID, sec.Reveal(), nil},
		{"unknown", "tollhouse_unknown", sec.Reveal(), record.ErrMismatch},
		{"wrong", c.ID, another.Reveal(), record.ErrMismatch},
		{"cut_by_one", c.ID, sec.Reveal()[:len(sec.Reveal())-1], record.ErrMismatch},
		{"no_secret", c.ID, "", record.ErrMismatch},
		{"no_id", "", sec.Reveal(), record.ErrMismatch},
		{"invalid_id", strings.Repeat("x", 5000), sec.Reveal(), record.ErrMismatch},
	}
	for _, k := range cases {
		if _, err := f.AuthenticateClient(ctx, k.id, k.secret, nil); !errors.Is(err, k.want) {
			t.Errorf("%s: AuthenticateClient() = %v, want %v", k.name, err, k.want)
		}
	}
	must.Get(f.DisableClient(ctx, c.ID))(t)
	_, err := f.AuthenticateClient(ctx, c.ID, sec.Reveal(), nil)
	refused(t, "AuthenticateClient(disabled)", err, record.ErrMismatch)
}

// Promise (RFC 9700): two secrets of a client are valid at once
func TestRotateClientSecret(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	c, first := f.Client(t)
	rotate := func(revoke bool) string {
		t.Helper()
		_, sec, err := f.RotateClientSecret(ctx, c.ID, revoke)
		must.Do(t, err)
		return sec.Reveal()
	}
	live := func(secrets ...string) (n int) {
		for _, s := range secrets {
			if _, err := f.AuthenticateClient(ctx, c.ID, s, nil); err == nil {
				n++
			}
		}
		return n
	}
	second := rotate(false)
	if live(first.Reveal(), second) != 2 {
		t.Error("a rotation killed the secret before, want two alive")
	}
	third := rotate(false)
	if live(first.Reveal()) != 0 || live(second, third) != 2 {
		t.Error("after two rotations the first secret lives or a later one does not, want the reverse")
	}
	fourth := rotate(true)
	if live(second, third) != 0 || live(fourth) != 1 {
		t.Error("a rotation that revokes left an old secret alive, want the new one alone")
	}
	public, _ := f.Client(t, func(s *store.ClientSpec) { s.Public = true })
	var bad *record.InvalidError
	if _, _, err := f.RotateClientSecret(ctx, public.ID, false); !errors.As(err, &bad) {
		t.Errorf("RotateClientSecret(public) = %v, want an InvalidError", err)
	}
}

func TestUpdateClient(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	scopes := []string{"resources:read"}
	must.Get(g.UpdateClient(ctx, g.client.ID, store.ClientChange{Scopes: &scopes}))(t)
	p := must.Get(g.FindPrincipal(ctx, g.first.AccessToken))(t)
	if p.Allows(store.ScopeEventsRead) || !p.Allows(store.ScopeResourcesRead) {
		t.Error("a token outdoes what its client may do now, want it held to that")
	}
	if c, err := g.UpdateClient(ctx, g.client.ID, store.ClientChange{Consent: new("remember")}); err != nil || c.Consent() != store.ConsentRemember {
		t.Errorf("UpdateClient(remember) = %q, %v", c.Consent(), err)
	}
	if c, err := g.UpdateClient(ctx, g.client.ID, store.ClientChange{Scopes: &scopes}); err != nil || c.Consent() != store.ConsentRemember {
		t.Errorf("UpdateClient(something else) = %q, %v, want remember as before", c.Consent(), err)
	}
	name := ""
	var bad *record.InvalidError
	g.unchanged(t, func() {
		if _, err := g.UpdateClient(ctx, g.client.ID, store.ClientChange{Name: &name}); !errors.As(err, &bad) {
			t.Errorf("UpdateClient(no name) = %v, want an InvalidError", err)
		}
		_, err := g.UpdateClient(ctx, "tollhouse_unknown", store.ClientChange{})
		refused(t, "UpdateClient(unknown)", err, record.ErrNotFound)
	})
}

func TestDeleteClientLeavesNothing(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	g.mustRefresh(t, g.first)
	g.use(t, g.first)
	must.Do(t, g.DeleteClient(ctx, g.client.ID))
	for _, tag := range "cfFI" {
		if n := g.Count(t, byte(tag)); n != 0 {
			t.Errorf("%d records of kind %c are left, want none", n, tag)
		}
	}
	refused(t, "DeleteClient() again", g.DeleteClient(ctx, g.client.ID), record.ErrNotFound)
}

func TestScope(t *testing.T) {
	t.Parallel()
	all := store.ScopeEventsRead | store.ScopeResourcesRead | store.ScopeResourcesWrite | store.ScopeWebhooksRead | store.ScopeWebhooksWrite
	cases := []struct {
		name, text string
		want       store.Scope
		wantOK     bool
	}{
		{"none", "", store.ScopeUnstated, true},
		{"one", "events:read", store.ScopeEventsRead, true},
		{"order_does_not_matter", "resources:write webhooks:write events:read webhooks:read resources:read", all, true},
		{"nor_do_duplicates", "events:read events:read", store.ScopeEventsRead, true},
		{"runs_of_spaces_separate", "events:read   resources:read", store.ScopeEventsRead | store.ScopeResourcesRead, true},
		{"spaces_at_the_ends_separate_nothing", "  events:read ", store.ScopeEventsRead, true},
		{"spaces_alone_are_none", "  ", store.ScopeUnstated, true},
		{"tab", "events:read\tresources:read", 0, false},
		{"quote", `events:read"`, 0, false},
		{"backslash", `events\read`, 0, false},
		{"other_case", "Events:Read", 0, false},
		{"unknown", "events:write", 0, false},
	}
	for _, c := range cases {
		if got, ok := store.ParseScope(c.text); got != c.want || ok != c.wantOK {
			t.Errorf("%s: ParseScope(%q) = %v, %t, want %v, %t", c.name, c.text, got, ok, c.want, c.wantOK)
		}
	}
	if got := all.String(); got != "events:read resources:read resources:write webhooks:read webhooks:write" {
		t.Errorf("String() = %q, want the names in one order", got)
	}
	if !store.ScopeUnstated.Covers(all) || store.ScopeEventsRead.Covers(store.ScopeUnstated) {
		t.Error("Covers() takes no scope for less than all, want all")
	}
}

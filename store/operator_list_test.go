package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// walked reads a list to the end in pages of that size.
func walked[T any](t testing.TB, size int, name func(T) string, page func(behind string, limit int) ([]T, error)) (names []string) {
	t.Helper()
	behind := ""
	for {
		list := must.Get(page(behind, size))(t)
		if len(list) > size {
			t.Fatalf("a page of %d holds %d", size, len(list))
		}
		for _, item := range list {
			names = append(names, name(item))
		}
		if len(list) < size {
			return names
		}
		behind = names[len(names)-1]
	}
}

func (g grant) families(t testing.TB, size int, want store.FamilyFilter) []string {
	t.Helper()
	return walked(t, size, func(f store.Family) string { return f.ID }, func(behind string, limit int) ([]store.Family, error) {
		return g.ListFamilies(context.Background(), want, behind, limit)
	})
}

func (g grant) sessions(t testing.TB, size int, of *store.User) []string {
	t.Helper()
	return walked(t, size, store.Session.Name, func(behind string, limit int) ([]store.Session, error) {
		return g.ListLiveSessions(context.Background(), of, behind, limit)
	})
}

func wantSet(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.IsSorted(got) {
		t.Errorf("%s come as %v, want them in the order of their names", what, got)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestListFamilies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("narrows_to_a_client_a_user_or_both_in_pages_of_any_size", func(t *testing.T) {
		g := parallelGrant(t)
		other, _ := g.Client(t, func(c *store.ClientSpec) { c.Name = "Aster Reports" })
		odile := g.User(t, "odile", "acct_aster")
		issue := func(c store.Client, u store.User) string {
			issued := must.Get(g.IssueForPassword(ctx, store.By{}, c, u, store.ScopeUnstated))(t)
			return issued.FamilyID
		}
		mine := []string{g.first.FamilyID, issue(g.client, g.user), issue(g.client, g.user)}
		hers, reports := issue(g.client, odile), issue(other, g.user)
		for size := 1; size <= 6; size++ {
			wantSet(t, "all", g.families(t, size, store.FamilyFilter{}), slices.Concat(mine, []string{hers, reports})...)
			wantSet(t, "the client's", g.families(t, size, store.FamilyFilter{ClientID: g.client.ID}), slices.Concat(mine, []string{hers})...)
			wantSet(t, "the user's", g.families(t, size, store.FamilyFilter{User: &g.user}), slices.Concat(mine, []string{reports})...)
			wantSet(t, "those between the two", g.families(t, size, store.FamilyFilter{ClientID: g.client.ID, User: &g.user}), mine...)
		}
	})
	t.Run("shows_who_may_do_what_and_since_when", func(t *testing.T) {
		g := parallelGrant(t)
		g.Clock.Advance(time.Minute)
		g.use(t, g.first)
		list, err := g.ListFamilies(ctx, store.FamilyFilter{}, "", 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("ListFamilies() = %d, %v; want one", len(list), err)
		}
		f := list[0]
		if f.ClientID != g.client.ID || f.ClientName != g.client.Name || f.UserID != g.user.Subject() || f.Username != "mara" || f.Account != "acct_larkspur" ||
			!slices.Equal(f.Permissions, store.ScopeNames()) || !f.UsedAt.Equal(g.Now()) || !f.CreatedAt.Equal(g.Now().Add(-time.Minute)) || !f.ExpiresAt.Equal(f.CreatedAt.Add(lives.Family)) {
			t.Errorf("ListFamilies() = %+v", f)
		}
	})
	t.Run("passes_over_more_dead_ones_than_a_page_holds", func(t *testing.T) {
		g := parallelGrant(t)
		for range 3 {
			must.Get(g.RevokeFamily(ctx, store.By{}, g.issue(t, store.ScopeUnstated).FamilyID))(t)
		}
		wantSet(t, "the live ones", g.families(t, 1, store.FamilyFilter{}), g.first.FamilyID)
	})
	t.Run("refuses_an_invalid_position", func(t *testing.T) {
		g := parallelGrant(t)
		var bad *record.InvalidError
		if _, err := g.ListFamilies(ctx, store.FamilyFilter{}, "fam_0", 1); !errors.As(err, &bad) {
			t.Errorf("ListFamilies(fam_0) = %v, want an InvalidError", err)
		}
		if _, err := g.ListLiveSessions(ctx, nil, g.first.FamilyID, 1); !errors.As(err, &bad) {
			t.Errorf("ListLiveSessions(%s) = %v, want an InvalidError", g.first.FamilyID, err)
		}
	})
}

// TestRevokeFamily: the operator ends all tokens of one authorization, named by its id
// or by any of its tokens, and of no other.
func TestRevokeFamily(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	by := store.By{RequestID: "req_1"}
	ends := map[string]func(g grant) (store.Revocation, error){
		"by_its_id": func(g grant) (store.Revocation, error) { return g.RevokeFamily(ctx, by, g.first.FamilyID) },
		"by_its_access_token": func(g grant) (store.Revocation, error) {
			return g.RevokeFamilyOf(ctx, by, g.first.AccessToken.Reveal())
		},
		"by_its_refresh_token": func(g grant) (store.Revocation, error) {
			return g.RevokeFamilyOf(ctx, by, g.first.RefreshToken.Reveal())
		},
		"by_an_expired_one": func(g grant) (store.Revocation, error) {
			g.Rest() // the next write may drop what has expired
			g.Clock.Advance(lives.AccessToken)
			return g.RevokeFamilyOf(ctx, by, g.first.AccessToken.Reveal())
		},
		"by_one_exchanged_already": func(g grant) (store.Revocation, error) {
			_, _ = g.refresh(g.first)
			return g.RevokeFamilyOf(ctx, by, g.first.RefreshToken.Reveal())
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			other := g.issue(t, store.ScopeUnstated)
			pushes := map[bool]webhook.By{ // those that end, and those that stay
				true:  {Account: "acct_larkspur", Owner: must.Get(g.FindPrincipal(ctx, g.first.AccessToken))(t).WebhookOwner()},
				false: {Account: "acct_larkspur", Owner: must.Get(g.FindPrincipal(ctx, other.AccessToken))(t).WebhookOwner()},
			}
			made := map[bool]webhook.Endpoint{}
			for ends, by := range pushes {
				e, _, err := g.Webhooks.Create(ctx, by, "acct_larkspur", webhook.Settings{URL: fmt.Sprintf("https://hooks.example/%t", ends)})
				must.Do(t, err)
				made[ends] = e
			}
			f, err := end(g)
			if err != nil || f.ID != g.first.FamilyID || f.Username != "mara" {
				t.Fatalf("revoke = %+v, %v; want the family %s", f, err, g.first.FamilyID)
			}
			if g.accessLives(t, g.first) {
				t.Error("the access token lives")
			}
			if _, err := g.refresh(g.first); !errors.Is(err, record.ErrRevoked) {
				t.Errorf("RotateRefresh() = %v, want ErrRevoked", err)
			}
			if _, err := g.refresh(other); err != nil {
				t.Errorf("another family's refresh = %v, want a pair", err)
			}
			for ends, e := range made {
				if now := g.endpointNow(t, e); now.Enabled() == ends {
					t.Errorf("an endpoint that a token made: %t; it is enabled: %t", ends, now.Enabled())
				}
			}
			lines := auditOf(t, g.Fixture, store.AuditRevoke)
			if len(lines) != 1 || lines[0].Reason != store.ReasonRevokedByOperator || lines[0].FamilyID != g.first.FamilyID || lines[0].By != by {
				t.Errorf("the record has %+v, want one line of the revocation", lines)
			}
			g.unchanged(t, func() {
				if _, err := end(g); !errors.Is(err, record.ErrNotFound) {
					t.Errorf("a second time: %v, want ErrNotFound", err)
				}
			})
		})
	}
	t.Run("ends_the_codes_not_redeemed_yet", func(t *testing.T) {
		g := parallelGrant(t)
		otherClient := g
		otherClient.client, _ = g.Client(t)
		mine, others := g.allow(t, ""), otherClient.allow(t, "")
		must.Get(g.RevokeFamily(ctx, by, g.first.FamilyID))(t)
		_, err := g.redeem(mine, "")
		refused(t, "RedeemCode(revoked)", err, record.ErrNotFound)
		must.Get(otherClient.redeem(others, ""))(t)
		lines := auditOf(t, g.Fixture, store.AuditRevoke)
		if len(lines) != 2 || lines[0].Reason != store.ReasonRevokedByOperator || lines[0].FamilyID != "" || lines[0].By != by {
			t.Errorf("the record has %+v, want the code and then the family", lines)
		}
	})
	t.Run("finds_nothing_by_what_is_no_family", func(t *testing.T) {
		g := parallelGrant(t)
		g.unchanged(t, func() {
			for _, id := range []string{"", "fam_", g.first.FamilyID + "0", strings.ToUpper(g.first.FamilyID), "fam_" + strings.Repeat("0", 26), g.client.ID} {
				if _, err := g.RevokeFamily(ctx, by, id); !errors.Is(err, record.ErrNotFound) {
					t.Errorf("RevokeFamily(%q) = %v, want ErrNotFound", id, err)
				}
			}
			for _, text := range []string{"", secret.New(nil, secret.AccessToken).Reveal(), secret.New(nil, secret.Code).Reveal()} {
				if _, err := g.RevokeFamilyOf(ctx, by, text); !errors.Is(err, record.ErrNotFound) {
					t.Errorf("RevokeFamilyOf() = %v, want ErrNotFound", err)
				}
			}
		})
	})
}

func TestListLiveSessions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	name := func(g grant, token secret.Token) string {
		sn := must.Get(g.FindSession(ctx, token))(t)
		return sn.Name()
	}
	t.Run("lists_all_or_a_users_in_pages_of_any_size", func(t *testing.T) {
		g := parallelGrant(t)
		var mine []string
		for range 4 {
			mine = append(mine, name(g, g.signIn(t, secret.Token{})))
		}
		odile := g.User(t, "odile", "acct_aster")
		token, _, err := g.CreateSession(ctx, store.By{}, odile, secret.Token{}, "")
		must.Do(t, err)
		hers := name(g, token)
		for size := 1; size <= 6; size++ {
			wantSet(t, "all", g.sessions(t, size, nil), append(slices.Clone(mine), hers)...)
			wantSet(t, "mara's", g.sessions(t, size, &g.user), mine...)
			wantSet(t, "odile's", g.sessions(t, size, &odile), hers)
		}
	})
	t.Run("leaves_out_what_has_ended", func(t *testing.T) {
		g := parallelGrant(t)
		g.signIn(t, secret.Token{})
		g.Clock.Advance(lives.SessionIdle)
		fresh := g.signIn(t, secret.Token{})
		wantSet(t, "the live ones", g.sessions(t, 1, nil), name(g, fresh))
		must.Get(g.DisableUser(ctx, "mara"))(t)
		wantSet(t, "those of a disabled user", g.sessions(t, 1, nil))
	})
	t.Run("ends_one_by_its_name_and_no_other", func(t *testing.T) {
		g := parallelGrant(t)
		kept, gone := g.signIn(t, secret.Token{}), g.signIn(t, secret.Token{})
		ended, err := g.DeleteSessionNamed(ctx, name(g, gone))
		if err != nil || ended.User.Username != "mara" || !ended.Is(gone) {
			t.Fatalf("DeleteSessionNamed() = %+v, %v; want mara's", ended, err)
		}
		if g.sessionLives(gone) || !g.sessionLives(kept) {
			t.Error("want the named sign-in ended and the other alive")
		}
		g.unchanged(t, func() {
			for _, id := range []string{ended.Name(), "", "ses_", "ses_" + strings.Repeat("0", 26), gone.Reveal()} {
				if _, err := g.DeleteSessionNamed(ctx, id); !errors.Is(err, record.ErrNotFound) {
					t.Errorf("DeleteSessionNamed(%q) = %v, want ErrNotFound", id, err)
				}
			}
		})
	})
	t.Run("does_not_find_one_that_has_ended", func(t *testing.T) {
		g := parallelGrant(t)
		old := name(g, g.signIn(t, secret.Token{}))
		g.Clock.Advance(lives.SessionIdle)
		if _, err := g.DeleteSessionNamed(ctx, old); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("DeleteSessionNamed() = %v, want ErrNotFound", err)
		}
	})
	t.Run("ends_all_of_a_user_and_counts_the_live_ones", func(t *testing.T) {
		g := parallelGrant(t)
		odile := g.User(t, "odile", "acct_aster")
		hers, _, err := g.CreateSession(ctx, store.By{}, odile, secret.Token{}, "")
		must.Do(t, err)
		old := g.signIn(t, secret.Token{})
		g.Clock.Advance(lives.SessionIdle / 2)
		g.see(t, hers)
		g.signIn(t, secret.Token{})
		g.signIn(t, secret.Token{})
		g.Clock.Advance(lives.SessionIdle / 2) // the old one has ended by now
		if g.sessionLives(old) {
			t.Fatal("the old sign-in lives")
		}
		otherUser := g
		otherUser.user = odile
		code, herCode := g.allow(t, ""), otherUser.allow(t, "")
		if ended, err := g.DeleteSessions(ctx, store.By{}, g.user); err != nil || ended != 2 {
			t.Errorf("DeleteSessions() = %d, %v; want 2", ended, err)
		}
		wantSet(t, "what is left", g.sessions(t, 5, nil), name(g, hers))
		_, err = g.redeem(code, "")
		refused(t, "RedeemCode(of an ended sign-in)", err, record.ErrNotFound)
		must.Get(otherUser.redeem(herCode, ""))(t)
	})
}

// TestInspect: the operator learns what a secret is and why it ended, and inspecting is
// not a use.
func TestInspect(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	access := func(g grant) secret.Token { return g.first.AccessToken }
	refresh := func(g grant) secret.Token { return g.first.RefreshToken }
	cases := []struct {
		name  string
		of    func(g grant) secret.Token
		end   func(g grant) error
		kind  secret.Kind
		ended string
	}{
		{"a_live_access_token", access, func(grant) error { return nil }, secret.AccessToken, ""},
		{"a_live_refresh_token", refresh, func(grant) error { return nil }, secret.RefreshToken, ""},
		{"access_expired", access, func(g grant) error { g.Rest(); g.Clock.Advance(lives.AccessToken); return nil }, secret.AccessToken, store.EndedExpired},
		{"refresh_expired", refresh, func(g grant) error { g.Rest(); g.Clock.Advance(lives.RefreshToken); return nil }, secret.RefreshToken, store.EndedExpired},
		{"retired", func(g grant) secret.Token {
			answer, err := g.refresh(g.first) // which is lost
			if err != nil {
				return secret.Token{}
			}
			g.Clock.Advance(lives.RefreshGrace + time.Second)
			return answer.RefreshToken
		}, func(g grant) error { _, err := g.refresh(g.first); return err }, secret.RefreshToken, store.EndedRetired},
		{"spent", refresh, func(g grant) error { _, err := g.refresh(g.first); return err }, secret.RefreshToken, store.EndedSpent},
		{"revoked_by_its_client", refresh, func(g grant) error { return g.RevokeToken(ctx, store.By{}, g.client, g.first.RefreshToken.Reveal()) }, secret.RefreshToken, store.ReasonRevokedByClient},
		{"revoked_by_the_operator", access, func(g grant) error { _, err := g.RevokeFamily(ctx, store.By{}, g.first.FamilyID); return err }, secret.AccessToken, store.ReasonRevokedByOperator},
		{"client_disabled", access, func(g grant) error { _, err := g.DisableClient(ctx, g.client.ID); return err }, secret.AccessToken, store.EndedClientDisabled},
		{"client_enabled_again", refresh, func(g grant) error {
			_, err := g.DisableClient(ctx, g.client.ID)
			_, again := g.EnableClient(ctx, g.client.ID)
			return errors.Join(err, again)
		}, secret.RefreshToken, store.EndedClientTokensEnded},
		{"client_deleted", access, func(g grant) error { return g.DeleteClient(ctx, g.client.ID) }, secret.AccessToken, store.EndedClientDeleted},
		{"user_disabled", refresh, func(g grant) error { _, err := g.DisableUser(ctx, "mara"); return err }, secret.RefreshToken, store.EndedUserDisabled},
		{"password_changed", access, func(g grant) error { _, err := g.SetPassword(ctx, "mara", "another long phrase"); return err }, secret.AccessToken, store.EndedUserTokensEnded},
		{"account_disabled", access, func(g grant) error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err }, secret.AccessToken, store.EndedAccountDisabled},
		{"account_revoked", refresh, func(g grant) error { _, err := g.RevokeAccount(ctx, "acct_larkspur"); return err }, secret.RefreshToken, store.EndedAccountTokensEnded},
		{"user_deleted", access, func(g grant) error { return g.DeleteUser(ctx, "mara") }, secret.AccessToken, store.EndedUserDeleted},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := parallelGrant(t)
			token := c.of(g)
			must.Do(t, c.end(g))
			var i store.Inspection
			g.unchanged(t, func() { i = must.Get(g.Inspect(ctx, token.Reveal()))(t) })
			if i.Kind != c.kind || i.Ended != c.ended || (len(i.Permissions) > 0) != (c.ended == "") {
				t.Errorf("Inspect() = %s ended %q with %v, want %s ended %q", i.Kind, i.Ended, i.Permissions, c.kind, c.ended)
			}
			if i.Family.ID != g.first.FamilyID || i.Family.ClientID != g.client.ID || i.Family.UserID != g.user.Subject() || i.Family.Account != "acct_larkspur" {
				t.Errorf("Inspect() = family %+v", i.Family)
			}
		})
	}
	t.Run("a_session", func(t *testing.T) {
		g := parallelGrant(t)
		token := g.signIn(t, secret.Token{})
		i, err := g.Inspect(ctx, token.Reveal())
		if err != nil || i.Kind != secret.SessionToken || i.Ended != "" || i.Family.Username != "mara" || !i.ExpiresAt.Equal(g.Now().Add(lives.SessionIdle)) {
			t.Errorf("Inspect(session) = %+v, %v", i, err)
		}
		g.Clock.Advance(lives.SessionIdle)
		if i, err := g.Inspect(ctx, token.Reveal()); err != nil || i.Ended != store.EndedExpired {
			t.Errorf("Inspect(session left alone) = ended %q, %v; want expired", i.Ended, err)
		}
		must.Get(g.DisableAccount(ctx, "acct_larkspur"))(t)
		if i, err := g.Inspect(ctx, token.Reveal()); err != nil || i.Ended != store.EndedAccountDisabled {
			t.Errorf("Inspect(session of a disabled account) = ended %q, %v", i.Ended, err)
		}
		must.Get(g.EnableAccount(ctx, "acct_larkspur"))(t)
		if i, err := g.Inspect(ctx, token.Reveal()); err != nil || i.Ended != store.EndedAccountTokensEnded {
			t.Errorf("Inspect(session of an account enabled again) = ended %q, %v", i.Ended, err)
		}
		must.Get(g.DisableUser(ctx, "mara"))(t)
		if i, err := g.Inspect(ctx, token.Reveal()); err != nil || i.Ended != store.EndedUserDisabled {
			t.Errorf("Inspect(session of a disabled user) = ended %q, %v", i.Ended, err)
		}
	})
	for name, c := range map[string]struct {
		end  func(g grant) error
		want string
	}{
		"a_code_past_its_time":             {func(g grant) error { g.Rest(); g.Clock.Advance(lives.Code); return nil }, store.EndedExpired},
		"a_code_of_a_client_that_is_gone":  {func(g grant) error { return g.DeleteClient(ctx, g.client.ID) }, store.EndedClientDeleted},
		"a_code_of_a_disabled_account":     {func(g grant) error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err }, store.EndedAccountDisabled},
		"a_code_of_a_user_who_is_disabled": {func(g grant) error { _, err := g.DisableUser(ctx, "mara"); return err }, store.EndedUserDisabled},
	} {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			code := g.allow(t, "")
			must.Do(t, c.end(g))
			if i, err := g.Inspect(ctx, code.Reveal()); err != nil || i.Ended != c.want || len(i.Permissions) > 0 {
				t.Errorf("Inspect(code) = ended %q with %v, %v; want %s", i.Ended, i.Permissions, err, c.want)
			}
		})
	}
	t.Run("a_code_before_and_after_it_is_redeemed", func(t *testing.T) {
		g := parallelGrant(t)
		token, err := g.Allow(ctx, store.Consent{Client: g.client, User: g.user, RedirectURI: "https://app.example/cb", Ticket: "ticket", TicketEnds: g.Now().Add(time.Hour)})
		must.Do(t, err)
		if i, err := g.Inspect(ctx, token.Reveal()); err != nil || i.Kind != secret.Code || i.Ended != "" || i.Family.ID != "" || i.Family.Username != "mara" {
			t.Errorf("Inspect(code) = %+v, %v", i, err)
		}
		if _, err := g.RevokeFamilyOf(ctx, store.By{}, token.Reveal()); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("RevokeFamilyOf(code) = %v, want ErrNotFound", err)
		}
		issued, err := g.RedeemCode(ctx, store.Redemption{Client: g.client, Code: token, RedirectURI: "https://app.example/cb"})
		must.Do(t, err)
		if i, err := g.Inspect(ctx, token.Reveal()); err != nil || i.Ended != store.EndedUsed || i.Family.ID != issued.FamilyID {
			t.Errorf("Inspect(code that was redeemed) = %+v, %v", i, err)
		}
		if f, err := g.RevokeFamilyOf(ctx, store.By{}, token.Reveal()); err != nil || f.ID != issued.FamilyID {
			t.Errorf("RevokeFamilyOf(code) = %+v, %v; want the family that it gave", f, err)
		}
	})
	t.Run("what_is_no_token_is_not_repeated", func(t *testing.T) {
		g := parallelGrant(t)
		var bad *record.InvalidError
		for _, text := range []string{"", "hunter2 hunter2", g.first.AccessToken.Reveal()[:55], secret.New(nil, secret.ClientSecret).Reveal()} {
			_, err := g.Inspect(ctx, text)
			if !errors.As(err, &bad) || text != "" && strings.Contains(err.Error(), text) {
				t.Errorf("Inspect() = %v, want an InvalidError without the text", err)
			}
		}
		if _, err := g.Inspect(ctx, secret.New(nil, secret.AccessToken).Reveal()); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("Inspect(another instance's) = %v, want ErrNotFound", err)
		}
	})
}

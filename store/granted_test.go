package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func (g grant) granted(t testing.TB, u store.User) []store.Granted {
	t.Helper()
	list, whole, err := g.ListGranted(context.Background(), u)
	if err != nil || !whole {
		t.Fatalf("ListGranted() = whole %v, %v; want all", whole, err)
	}
	return list
}

// auditOf returns the audit lines of one kind of event.
func auditOf(t testing.TB, f *storetest.Fixture, what store.Audited) (lines []store.AuditLine) {
	t.Helper()
	all := must.Get(f.ListAudit(context.Background(), record.Position{}, 1000))(t)
	for _, line := range all {
		if line.What == what {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestListGranted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("puts_the_authorizations_of_a_client_together", func(t *testing.T) {
		g := parallelGrant(t)
		first := g.Now()
		g.Clock.Advance(time.Hour)
		g.issue(t, store.ScopeEventsRead)
		other, _ := g.Client(t, func(c *store.ClientSpec) {
			c.Name, c.Scopes = "Aster Reports", []string{"events:read", "resources:read"}
		})
		issued := must.Get(g.IssueForPassword(ctx, store.By{}, other, g.user, store.ScopeEventsRead))(t)
		g.Clock.Advance(time.Minute)
		g.use(t, issued)
		want := []store.Granted{
			{ClientID: other.ID, Name: "Aster Reports", Permissions: []string{"events:read"}, Since: first.Add(time.Hour), UsedAt: g.Now()},
			{ClientID: g.client.ID, Name: "Larkspur Bookkeeping", Permissions: store.ScopeNames(), Since: first},
		}
		if got := g.granted(t, g.user); !slices.EqualFunc(got, want, sameGranted) {
			t.Errorf("ListGranted() = %+v,\nwant %+v", got, want)
		}
	})
	t.Run("holds_a_client_to_what_it_may_do_now", func(t *testing.T) {
		g := parallelGrant(t)
		must.Get(g.UpdateClient(ctx, g.client.ID, store.ClientChange{Scopes: &[]string{"resources:read"}}))(t)
		if got := g.granted(t, g.user)[0].Permissions; !slices.Equal(got, []string{"resources:read"}) {
			t.Errorf("Permissions = %v, want resources:read alone", got)
		}
	})
	t.Run("leaves_out_what_cannot_act", func(t *testing.T) {
		t.Parallel()
		ends := map[string]func(g grant) error{
			"client disabled": func(g grant) error { _, err := g.DisableClient(ctx, g.client.ID); return err },
			"client deleted":  func(g grant) error { return g.DeleteClient(ctx, g.client.ID) },
			"token revoked":   func(g grant) error { return g.RevokeToken(ctx, store.By{}, g.client, g.first.RefreshToken.Reveal()) },
			"a year gone by":  func(g grant) error { g.Clock.Advance(lives.Family); return nil },
			"password set":    func(g grant) error { _, err := g.SetPassword(ctx, "mara", "another long phrase"); return err },
		}
		for name, end := range ends {
			g := newGrant(t)
			if err := end(g); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := g.granted(t, g.user); len(got) != 0 {
				t.Errorf("%s: ListGranted() = %+v, want nothing", name, got)
			}
		}
	})
}

func sameGranted(a, b store.Granted) bool {
	return a.ClientID == b.ClientID && a.Name == b.Name && slices.Equal(a.Permissions, b.Permissions) &&
		a.Since.Equal(b.Since) && a.UsedAt.Equal(b.UsedAt)
}

// Promise (RFC 9700): every state of a refresh token is answered as rotation demands; refresh
// tokens expire after 14 idle days, families after a year; a password reset, disabled user, deleted
// client or revoked consent ends both
func TestRevokeGranted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("ends_every_family_of_the_client_and_no_other", func(t *testing.T) {
		g := parallelGrant(t)
		second := g.issue(t, store.ScopeEventsRead)
		other, _ := g.Client(t, func(c *store.ClientSpec) { c.Name = "Aster Reports" })
		kept := must.Get(g.IssueForPassword(ctx, store.By{}, other, g.user, store.ScopeUnstated))(t)
		nils := g.User(t, "nils", "acct_larkspur")
		theirs := must.Get(g.IssueForPassword(ctx, store.By{}, g.client, nils, store.ScopeUnstated))(t)
		for range 2 { // twice is no error
			must.Do(t, g.RevokeGranted(ctx, store.By{RequestID: "req_1", Source: "192.0.2.7"}, g.user, g.client.ID))
		}
		g.familyIsDead(t, g.first, second)
		if !g.accessLives(t, kept) || !g.accessLives(t, theirs) {
			t.Error("tokens of another client or another user are dead, want them alive")
		}
		lines := auditOf(t, g.Fixture, store.AuditRevoke)
		if len(lines) != 2 {
			t.Fatalf("%d audit lines, want one a family", len(lines))
		}
		for _, line := range lines {
			if line.Reason != store.ReasonRevokedByUser || line.UserID != g.user.Subject() || line.ClientID != g.client.ID || line.RequestID != "req_1" || line.Source != "192.0.2.7" {
				t.Errorf("audit line %+v, want who did what from where", line)
			}
		}
	})
	t.Run("ends_more_families_than_one_look_or_one_write_holds", func(t *testing.T) {
		g := parallelGrant(t)
		issued := []store.Issued{g.first}
		for range 1100 {
			issued = append(issued, g.issue(t, store.ScopeUnstated))
		}
		must.Do(t, g.RevokeGranted(ctx, store.By{}, g.user, g.client.ID))
		if got := g.granted(t, g.user); len(got) != 0 {
			t.Errorf("ListGranted() = %+v, want nothing", got)
		}
		for i, p := range issued {
			if g.accessLives(t, p) {
				t.Fatalf("token %d of %d lives, want all dead", i, len(issued))
			}
		}
	})
	t.Run("ends_the_codes_not_redeemed_yet", revokeOfCodes)
	t.Run("ends_what_a_code_gives_that_is_redeemed_meanwhile", func(t *testing.T) {
		g := parallelGrant(t)
		code := g.allow(t, challenge)
		var issued store.Issued
		g.Rest()
		g.Faults.OnUpdate(func(run func() error) error {
			g.Faults.Repair()
			var err error
			if issued, err = g.redeem(code, verifier); err != nil {
				t.Errorf("RedeemCode() ahead of the revocation = %v, want a pair", err)
			}
			return run()
		})
		must.Do(t, g.RevokeGranted(ctx, store.By{}, g.user, g.client.ID))
		g.familyIsDead(t, g.first, issued)
	})
	t.Run("a_client_that_was_never_granted_anything_changes_nothing", func(t *testing.T) {
		g := parallelGrant(t)
		g.unchanged(t, func() {
			if err := g.RevokeGranted(ctx, store.By{}, g.user, "cli_nothing"); err != nil {
				t.Errorf("RevokeGranted() = %v, want nil", err)
			}
		})
	})
}

func revokeOfCodes(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	otherClient, otherUser := g, g
	otherClient.client, _ = g.Client(t)
	otherUser.user = g.User(t, "nils", "acct_larkspur")
	spent, expired := g.allow(t, ""), g.allow(t, "")
	must.Get(g.redeem(spent, ""))(t)
	g.Clock.Advance(lives.Code)
	fresh, proven := g.allow(t, ""), g.allow(t, challenge)
	ofOtherClient, ofOtherUser := otherClient.allow(t, ""), otherUser.allow(t, "")
	if n := g.Count(t, 'K'); n != 5 {
		t.Errorf("%d codes are listed as not redeemed, want 5", n)
	}
	must.Do(t, g.RevokeGranted(ctx, store.By{RequestID: "req_1"}, g.user, g.client.ID))
	_, err := g.redeem(fresh, "")
	refused(t, "RedeemCode(revoked)", err, record.ErrNotFound)
	_, err = g.redeem(proven, verifier)
	refused(t, "RedeemCode(revoked, with a challenge)", err, record.ErrNotFound)
	_, err = g.redeem(expired, "")
	refused(t, "RedeemCode(expired)", err, record.ErrNotFound)
	_, err = g.redeem(spent, "")
	refused(t, "RedeemCode(spent)", err, record.ErrReplayed)
	// Two families, the first one and that of the spent code, and the two codes
	// that could still have been redeemed.
	if lines := auditOf(t, g.Fixture, store.AuditRevoke); len(lines) != 4 || lines[0].FamilyID != "" || lines[0].ClientID != g.client.ID ||
		lines[0].UserID != g.user.Subject() || lines[0].AccountID != "acct_larkspur" || lines[0].Reason != store.ReasonRevokedByUser || lines[0].RequestID != "req_1" {
		t.Errorf("audit lines %+v, want one for each code and family, codes first", lines)
	}
	for name, others := range map[string]func() (store.Issued, error){
		"client": func() (store.Issued, error) { return otherClient.redeem(ofOtherClient, "") },
		"user":   func() (store.Issued, error) { return otherUser.redeem(ofOtherUser, "") },
	} {
		if _, err := others(); err != nil {
			t.Errorf("RedeemCode() of another %s = %v, want a pair", name, err)
		}
	}
	if n := g.Count(t, 'K'); n != 0 {
		t.Errorf("%d codes are listed as not redeemed, want none", n)
	}
}

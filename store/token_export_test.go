package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func linesOf(t *testing.T, s *store.Store, account string) (text string) {
	t.Helper()
	var b []byte
	for _, line := range must.Get(s.LiveTokens(t.Context(), account))(t) {
		b = must.Get(moving.Append(b, line))(t)
	}
	return string(b)
}

// Promise (Platform §13): an export has the live tokens, ours and imported ones, as hex SHA-256, by account,
// client, username and hash; imported into an empty store they work and are exported alike
func TestLiveTokensMoveOutAndIn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, into := storetest.New(t), storetest.New(t)
	clients, users := map[string]store.Client{}, map[string]store.User{}
	for _, f := range []*storetest.Fixture{into, from} {
		for _, id := range []string{"till", "books"} {
			clients[id] = must.Get(f.CreateFixedClient(ctx, id, secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: id, RedirectURIs: []string{storetest.CallbackURI}}))(t)
		}
		clients["machine"] = must.Get(f.CreateFixedClient(ctx, "machine", secret.New(nil, secret.ClientSecret),
			store.ClientSpec{Name: "machine", Grants: []string{string(store.GrantClientCredentials)}, Account: "acct_b"}))(t)
		for name, account := range map[string]string{"odile": "acct_a", "Mara": "acct_b", "nils": "acct_b"} {
			users[name] = f.User(t, name, account)
		}
	}
	from.Clock.Advance(1700 * time.Millisecond) // ends between two seconds
	issue := func(client, user string) store.Issued {
		return must.Get(from.IssueForPassword(ctx, store.By{}, clients[client], users[user], store.ScopeUnstated))(t)
	}
	first := issue("till", "Mara")
	second := must.Get(from.RotateRefresh(ctx, store.Refresh{Client: clients["till"], Token: first.RefreshToken}))(t)
	wide := issue("books", "Mara")
	from.Clock.Advance(time.Second)
	narrow := must.Get(from.RotateRefresh(ctx, store.Refresh{Client: clients["books"], Token: wide.RefreshToken, Scope: store.ScopeEventsRead}))(t)
	machine := must.Get(from.IssueForClient(ctx, store.By{}, clients["machine"], "", store.ScopeUnstated))(t)
	issue("books", "odile")
	ended := issue("till", "nils")
	must.Do(t, from.RevokeToken(ctx, store.By{}, clients["till"], ended.RefreshToken.Reveal()))
	short := issue("till", "nils")
	must.Get(from.ImportTokens(ctx, importOf(clients["till"], users["odile"], store.Issued{AccessToken: oldToken(oldAccess), RefreshToken: oldToken(oldRefresh)}, time.Time{}, time.Time{})))(t)
	platform, _ := from.Client(t, storetest.Platform("users:read"))
	must.Get(from.IssueForClient(ctx, store.By{}, platform, "", store.ScopeUsersRead))(t)

	all := linesOf(t, from.Store, "")
	var order []string
	for _, line := range must.Get(from.LiveTokens(ctx, ""))(t) {
		order = append(order, strings.TrimSpace(fmt.Sprint(line.ClientID, " ", line.Username)))
		into.Clock.Advance(from.Now().Sub(into.Now()))
		if outcome, err := into.ImportLine(ctx, line); err != nil || outcome != "created" {
			t.Errorf("ImportLine() = %q, %v, want created", outcome, err)
		}
		if outcome, err := from.ImportLine(ctx, line); err != nil || outcome != "unchanged" {
			t.Errorf("ImportLine() into the store itself = %q, %v, want unchanged", outcome, err)
		}
	}
	// Both families that were refreshed have two access tokens.
	if got, want := strings.Join(order, ", "), "books odile, till odile, books Mara, books Mara, machine, till Mara, till Mara, till nils"; got != want {
		t.Errorf("the lines are of\n%s, want\n%s", got, want)
	}
	if again := linesOf(t, into.Store, ""); again != all {
		t.Errorf("exported again:\n%swant\n%s", again, all)
	}
	if only := linesOf(t, from.Store, "acct_a"); strings.Count(only, "\n") != 2 || strings.Contains(only, "Mara") {
		t.Errorf("of one account:\n%s", only)
	}
	for name, token := range map[string]secret.Token{"newest": second.AccessToken, "earlier": first.AccessToken, "machine": machine.AccessToken, "imported": oldToken(oldAccess), "narrow": narrow.AccessToken} {
		if strings.Contains(all, token.Reveal()[10:]) {
			t.Errorf("the lines have the text of the %s token", name)
		}
		text := must.Get(into.ParseToken(ctx, secret.AccessToken, token.Reveal()))(t)
		p := must.Get(into.FindPrincipal(ctx, text))(t)
		if want := must.Get(from.FindPrincipal(ctx, token))(t); p.Scope != want.Scope || p.Account != want.Account || p.Username != want.Username || p.ExpiresAt.After(want.ExpiresAt) {
			t.Errorf("%s token: %+v, want %+v", name, p, want)
		}
	}
	must.Get(into.RotateRefresh(ctx, store.Refresh{Client: clients["till"], Token: second.RefreshToken}))(t)
	for name, token := range map[string]secret.Token{"spent": first.RefreshToken, "revoked": ended.RefreshToken} {
		_, err := into.RotateRefresh(ctx, store.Refresh{Client: clients["till"], Token: token})
		refused(t, "RotateRefresh() of the "+name+" one", err, record.ErrNotFound)
	}
	from.Clock.Advance(lives.AccessToken - 500*time.Millisecond)
	if left := linesOf(t, from.Store, ""); strings.Contains(left, fmt.Sprintf("%x", short.AccessToken.Hash())) || !strings.Contains(left, fmt.Sprintf("%x", short.RefreshToken.Hash())) {
		t.Error("a token is exported in the second in which it ends, which an import does not take")
	}
	must.Get(into.CheckAll(ctx))(t)
}

// Promise (Platform §12): a token line has the text of a token or its SHA-256 in hex; what is wrong with it
// is said without repeating it
func TestTokenLinesAreChecked(t *testing.T) {
	ctx := t.Context()
	g := parallelGrant(t)
	canary := "canary-of-the-old-system"
	text := func(s string) *moving.Secret { return new(moving.Secret(s)) }
	cases := map[string]struct {
		change func(*moving.Token)
		field  string
	}{
		"no_client":         {func(l *moving.Token) { l.ClientID = "" }, "client_id"},
		"no_token":          {func(l *moving.Token) { l.AccessToken = nil }, "access_token"},
		"empty":             {func(l *moving.Token) { l.AccessToken = text("") }, "access_token"},
		"one_of_ours":       {func(l *moving.Token) { l.AccessToken = text("tollat_" + canary) }, "access_token"},
		"with_a_space":      {func(l *moving.Token) { l.RefreshToken = text(canary + " ") }, "refresh_token"},
		"hash_cut_short":    {func(l *moving.Token) { l.RefreshSHA256 = text(strings.Repeat("0", 62)) }, "refresh_token_sha256"},
		"hash_not_hex":      {func(l *moving.Token) { l.AccessToken, l.AccessSHA256 = nil, text(canary) }, "access_token_sha256"},
		"unknown_scope":     {func(l *moving.Token) { l.Scope = new("events:read read_everything") }, "scope"},
		"scope_without_any": {func(l *moving.Token) { l.Scope = new(" ") }, "scope"},
	}
	for name, c := range cases {
		line := &moving.Token{ClientID: g.client.ID, Username: "mara", AccessToken: text(canary)}
		c.change(line)
		var bad *record.InvalidError
		_, err := g.ImportLine(ctx, line)
		if !errors.As(err, &bad) || bad.Field != c.field || bad.Hint == "" || strings.Contains(err.Error()+bad.Hint, canary) {
			t.Errorf("%s: ImportLine() = %v, want %s refused", name, err, c.field)
		}
	}
	h := secret.HashOf(canary)
	line := &moving.Token{ClientID: g.client.ID, Username: "mara", AccessSHA256: text(strings.ToUpper(fmt.Sprintf("%x", h))), ExpiresAt: new(g.Now().Add(time.Hour).Unix())}
	if outcome, err := g.ImportLine(ctx, line); err != nil || outcome != "created" {
		t.Errorf("ImportLine() = %q, %v, want created", outcome, err)
	}
	if _, err := g.Introspect(ctx, g.client, canary); err != nil {
		t.Errorf("Introspect() = %v", err)
	}
}

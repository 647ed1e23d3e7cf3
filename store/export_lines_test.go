package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// exported returns the lines of an export, without their line ends.
func exported(t testing.TB, s *store.Store, spec store.ExportSpec) []string {
	t.Helper()
	x := must.Get(s.NewExport(context.Background(), spec))(t)
	defer x.Close()
	return linesFrom(t, x)
}

func linesFrom(t testing.TB, x *store.Export) []string {
	t.Helper()
	var all []byte
	for lines := 0; ; {
		text, n, err := x.Next(context.Background(), all)
		must.Do(t, err)
		all, lines = text, lines+n
		if n == 0 {
			if got := strings.Count(string(all), "\n"); got != lines {
				t.Errorf("the export says that it has %d lines, and has %d", lines, got)
			}
			return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
		}
	}
}

// nounsOf returns the noun of each line, and checks that an import reads it.
func nounsOf(t testing.TB, lines []string) (nouns []string) {
	t.Helper()
	for _, line := range lines {
		r, err := moving.Parse([]byte(line), false)
		if err != nil {
			t.Errorf("an import refuses %s: %v", line, err)
			continue
		}
		nouns = append(nouns, moving.NounOf(r))
	}
	return nouns
}

// full is a store with something of every kind, and what was given out of it.
type full struct {
	*storetest.Fixture
	bound, platform, till store.Client // and others
	live                  []store.Issued
	secrets               []string // that nobody may read in an export without secrets
}

const (
	hostileName = `Zoë "Quote" \ <b> {"user":{}} 日本`
	userCanary  = "correct horse battery staple"
)

// fill makes a store with names that break what is not escaped, and states of all kinds.
func fill(t testing.TB, f *storetest.Fixture) full {
	t.Helper()
	ctx := context.Background()
	h := full{Fixture: f, secrets: []string{userCanary, "hook-query-canary", "tollat_", "tollrt_", "tollcs_", "whsec_", "$argon2id$"}}
	for id, name := range map[string]string{"acct_z": "", "acct_a": hostileName, "acct_off": "Off", "default": "Default"} {
		must.Get(f.CreateAccount(ctx, id, name))(t)
	}
	for _, u := range [][2]string{{"Zoë", "acct_a"}, {"adam", "acct_z"}, {`bea"\{}'`, "acct_a"}, {"off", "acct_off"}, {"left", "acct_a"}} {
		f.User(t, u[0], u[1])
	}
	_, _, err := f.CreateUser(ctx, store.UserSpec{Username: "waits", Account: "acct_a", Code: true})
	must.Do(t, err)
	must.Get(f.PromoteUser(ctx, "adam"))(t)
	must.Get(f.DisableUser(ctx, "left"))(t)
	client := func(id string, change func(*store.ClientSpec)) store.Client {
		spec := store.ClientSpec{Name: hostileName, RedirectURIs: []string{storetest.CallbackURI, "https://app.example/cb?a=b&c=%22"}}
		change(&spec)
		c, sec, _, err := f.PutClient(ctx, id, spec)
		must.Do(t, err)
		if !sec.IsZero() {
			h.secrets = append(h.secrets, sec.Reveal())
		}
		return c
	}
	h.till = client("till", func(c *store.ClientSpec) { c.Consent = store.ConsentRemember })
	client("phone", func(c *store.ClientSpec) { c.Public = true; c.Scopes = []string{"events:read"} })
	h.bound = client(`a"b\c{}`, func(c *store.ClientSpec) {
		c.Account, c.RedirectURIs, c.Grants = "acct_z", nil, []string{"client_credentials"}
	})
	client("looks", func(c *store.ClientSpec) { c.Introspect = true })
	h.platform = client("platform", storetest.Platform("accounts:act", "events:read"))
	must.Get(f.DisableClient(ctx, "looks"))(t)

	h.events(t)
	h.hooks(t)
	h.tokens(t)
	must.Get(f.DisableAccount(ctx, "acct_off"))(t)
	f.Flush(ctx)
	return h
}

func (h *full) events(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	put := func(owner, kind, id, json string) {
		body := must.Get(snapshot.Parse([]byte(json), snapshot.DepthMax))(t)
		must.Get(h.Events.PutResource(ctx, eventlog.ResourceChange{Owner: owner, Kind: kind, ID: id, Source: hostileName, Location: "api"}, body))(t)
		h.Clock.Advance(300 * time.Millisecond)
	}
	must.Do(t, h.Events.SetRetention(ctx, 30*24*time.Hour))
	put("acct_a", "plan", "old", `{"price":9.50,"a":1e2,"t":"`+strings.ReplaceAll(strings.ReplaceAll(hostileName, `\`, `\\`), `"`, `\"`)+`"}`)
	put("acct_a", "plan", "gone", `{"x":[{}]}`)
	must.Get(h.Events.DeleteResource(ctx, eventlog.ResourceChange{Owner: "acct_a", Kind: "plan", ID: "gone"}))(t)
	h.Clock.Advance(31 * 24 * time.Hour)
	must.Get(h.TrimEvents(ctx))(t)
	for i := range 20 { // several segments
		put("acct_a", "plan", "new", fmt.Sprintf(`{"price":%d}`, i))
	}
	put("acct_z", "customer", "cus_1", `{"displayName":"Larkspur"}`)
	at := h.Now().Unix()
	storetest.ImportLines(t, h.Store, "acct_z",
		fmt.Sprintf(`{"id":"po_1","type":"wagon.loaded","resource":"w1","source":"old","eventData":{"object":{"n":1},"previousAttributes":{"n":null}},"createdAt":%d}`, at),
		fmt.Sprintf(`{"type":"wagon.loaded","resource":"w1","eventData":{"object":{"n":2}},"createdAt":%d}`, at))
	h.Clock.Advance(time.Second)
}

func (h *full) hooks(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	add := func(account string, s webhook.Settings) webhook.Endpoint {
		e, token, err := h.Webhooks.Create(ctx, webhook.System, account, s)
		must.Do(t, err)
		h.secrets = append(h.secrets, token.Reveal())
		return e
	}
	add("acct_z", webhook.Settings{URL: "https://hooks.example/z", Types: []string{"customer.*"}, Description: hostileName})
	add("acct_a", webhook.Settings{URL: "https://hooks.example/b?key=hook-query", Order: webhook.None})
	off := add("acct_a", webhook.Settings{URL: "https://hooks.example/a", From: webhook.FromStart()})
	must.Get(h.Webhooks.Disable(ctx, webhook.System, off.ID))(t)
	h.Clock.Advance(time.Second)
}

func (h *full) tokens(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	issue := func(c store.Client, name string, scope store.Scope) store.Issued {
		return must.Get(h.IssueForPassword(ctx, store.By{}, c, must.Get(h.FindUser(ctx, name))(t), scope))(t)
	}
	h.live = append(h.live, issue(h.till, "adam", store.ScopeUnstated), issue(h.till, "adam", store.ScopeResourcesRead), issue(h.till, "Zoë", store.ScopeEventsRead))
	spent := issue(h.till, "adam", store.ScopeUnstated)
	h.Clock.Advance(time.Second)
	next := must.Get(h.RotateRefresh(ctx, store.Refresh{Client: h.till, Token: spent.RefreshToken}))(t)
	must.Get(h.FindPrincipal(ctx, next.AccessToken))(t)
	h.live = append(h.live, next, store.Issued{AccessToken: spent.AccessToken})
	h.live = append(h.live, must.Get(h.IssueForClient(ctx, store.By{}, h.bound, "", store.ScopeUnstated))(t))
	must.Get(h.IssueForClient(ctx, store.By{}, h.platform, "acct_a", store.ScopeEventsRead))(t)
	revoked := issue(h.till, "adam", store.ScopeUnstated)
	must.Do(t, h.RevokeToken(ctx, store.By{}, h.till, revoked.RefreshToken.Reveal()))
	issue(h.till, "off", store.ScopeUnstated)
}

// Promise (Platform §13): an export has the lines of an import, noun by noun as an import wants them,
// and within a noun in an order that the lines say; each line is read by an import
func TestAnExportHasTheLinesOfAnImport(t *testing.T) {
	t.Parallel()
	h := fill(t, storetest.OnDisk(t))
	lines := exported(t, h.Store, store.ExportSpec{Secrets: true})
	nouns := nounsOf(t, lines)
	if order := strings.Join(compacted(nouns), " "); order != strings.Join(moving.Nouns(), " ") {
		t.Errorf("the nouns come as %s", order)
	}
	if again := exported(t, h.Store, store.ExportSpec{Secrets: true}); strings.Join(again, "\n") != strings.Join(lines, "\n") {
		t.Error("a second export of the same store differs")
	}
	for noun, want := range map[string][]string{
		"account": {`"acct_a","name":"Zoë \"Quote\" \\ <b> {\"user\":{}} 日本"`, `"acct_off","name":"Off","disabled":true`, `"acct_z","created_at"`, `"default","name"`},
		"client":  {`"a\"b\\c{}"`, `"looks"`, `"phone"`, `"platform"`, `"till"`},
		"user":    {`"adam"`, `"bea\"\\{}'"`, `"left"`, `"off"`, `"waits","account":"acct_a","created_at"`, `"Zoë"`},
		// That of an event within retention is made by it, and that of a removed one by nothing.
		"resource": {`"kind":"plan","id":"old","object":{"id":"old","object":"plan","price":9.50,"a":1e2,"t":"Zoë \"Quote\" \\ <b> {\"user\":{}} 日本"},"account":"acct_a","event":"none"`},
		"webhook":  {`/a","account":"acct_a"`, `/b?key=hook-query","account":"acct_a"`, `/z","account":"acct_z"`},
		"token":    {`"client_id":"till","username":"Zoë"`, `"client_id":"a\"b\\c{}"`, `"client_id":"till","username":"adam"`, `"client_id":"till","username":"adam"`, `"client_id":"till","username":"adam"`, `"client_id":"till","username":"adam"`},
	} {
		of := linesOfNoun(lines, noun)
		if len(of) != len(want) {
			t.Errorf("%d lines of %s, want %d:\n%s", len(of), noun, len(want), strings.Join(of, "\n"))
			continue
		}
		for i, part := range want {
			if !strings.Contains(of[i], part) {
				t.Errorf("line %d of %s is\n%s\nwant one with %s", i, noun, of[i], part)
			}
		}
	}
}

func compacted(list []string) (short []string) {
	for i, s := range list {
		if i == 0 || s != list[i-1] {
			short = append(short, s)
		}
	}
	return short
}

func linesOfNoun(lines []string, noun string) (of []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, `{"`+noun+`":`) {
			of = append(of, line)
		}
	}
	return of
}

// Promise (Platform §13): without --secrets no line has a hash of a password, a client's secret, a
// webhook's secret or a token, and there are no lines of tokens; users and clients stand without
func TestAnExportWithoutSecretsHasNone(t *testing.T) {
	t.Parallel()
	h := fill(t, storetest.OnDisk(t))
	with, without := exported(t, h.Store, store.ExportSpec{Secrets: true}), exported(t, h.Store, store.ExportSpec{})
	for _, canary := range h.secrets {
		if strings.Contains(strings.Join(without, "\n"), canary) {
			t.Errorf("an export without secrets has %s", canary)
		}
	}
	for _, member := range []string{`"client_secret`, `"password_hash"`, `"secret":`, `_sha256"`, `{"token"`} {
		if strings.Contains(strings.Join(without, "\n"), member) {
			t.Errorf("an export without secrets has the member %s", member)
		}
		if member != `{"token"` && !strings.Contains(strings.Join(with, "\n"), member) {
			t.Errorf("an export with secrets has no member %s", member)
		}
	}
	tokens := len(linesOfNoun(with, "token"))
	if len(with) != len(without)+tokens || tokens != len(h.live) {
		t.Errorf("with secrets %d lines and %d tokens, without %d, want %d tokens more", len(with), tokens, len(without), len(h.live))
	}
	lines, _ := h.AuditReasons(t, record.Position{}, 10_000)
	if strings.Contains(strings.Join(lines, ","), "exported") {
		t.Error("what the program does on its own has an audit line")
	}
	asked := store.WithActor(t.Context(), store.Actor{OperatorID: "usr_olga"})
	for _, secrets := range []bool{false, true} {
		x := must.Get(h.NewExport(asked, store.ExportSpec{Secrets: secrets}))(t)
		x.Close() // nothing was read
		lines := must.Get(h.ListAudit(t.Context(), record.Position{}, 10_000))(t)
		last := lines[len(lines)-1]
		if has := last.Reason == "exported with secrets" && last.Actor.OperatorID == "usr_olga"; has != secrets {
			t.Errorf("with secrets %t the last audit line is %+v", secrets, last)
		}
	}
}

// Promise (Platform §13): --account leaves out what belongs to others, and writes clients without an
// account; --only writes these nouns, and of resources all if their events are not written
func TestAnExportOfAPart(t *testing.T) {
	t.Parallel()
	h := fill(t, storetest.OnDisk(t))
	all := exported(t, h.Store, store.ExportSpec{Secrets: true})
	var want []string
	for _, line := range all {
		isOthers := strings.Contains(line, "acct_a") || strings.Contains(line, "acct_off") || strings.Contains(line, `"account":"default"`) || strings.Contains(line, `"username":"Zoë"`)
		if !isOthers {
			want = append(want, line)
		}
	}
	if got := exported(t, h.Store, store.ExportSpec{Secrets: true, Account: "acct_z"}); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("an account's export is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := h.NewExport(t.Context(), store.ExportSpec{Account: "acct_none"}); !errors.Is(err, store.ErrUnknownAccount) {
		t.Errorf("of an account that does not exist: %v", err)
	}
	for _, noun := range moving.Nouns() {
		got := exported(t, h.Store, store.ExportSpec{Secrets: true, Nouns: []string{noun}})
		want := linesOfNoun(all, noun)
		if noun == "resource" {
			resources := map[string]bool{}
			for _, line := range got {
				r := must.Get(moving.Parse([]byte(line), false))(t).(*moving.Resource)
				resources[r.Account+" "+r.Kind+" "+r.ID] = r.Event == "none"
			}
			if fmt.Sprint(resources) != "map[acct_a plan new:true acct_a plan old:true acct_z customer cus_1:true acct_z wagon w1:true]" {
				t.Errorf("of resources alone: %v", resources)
			}
			continue
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s alone is\n%s\nwant\n%s", noun, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Promise (Platform §13): an export is of one moment: what is written, changed or removed while its lines
// are sent is not seen, and only one runs at a time
func TestAnExportIsOfOneMoment(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*storetest.Fixture{"on_disk": storetest.OnDisk(t), "in_memory": storetest.NewKeeping(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			h := fill(t, f)
			want := strings.Join(exported(t, h.Store, store.ExportSpec{Secrets: true}), "\n") + "\n"
			x := must.Get(h.NewExport(ctx, store.ExportSpec{Secrets: true}))(t)
			defer x.Close()
			if _, err := h.NewExport(ctx, store.ExportSpec{}); !errors.Is(err, record.ErrUnavailable) {
				t.Errorf("a second export at the same time: %v, want ErrUnavailable", err)
			}
			var got []byte
			for i := 0; ; i++ {
				text, n, err := x.Next(ctx, got)
				must.Do(t, err)
				if got = text; n == 0 {
					break
				}
				must.Get(h.CreateAccount(ctx, fmt.Sprintf("acct_z%d", i), ""))(t)
				h.User(t, fmt.Sprintf("zz%d", i), "acct_z")
				must.Get(h.Events.PutResource(ctx, eventlog.ResourceChange{Owner: "acct_z", Kind: "plan", ID: fmt.Sprint("p", i)}, snapshot.ObjectOf()))(t)
				if i == 0 {
					must.Get(h.PurgeEvents(ctx, store.By{}, eventlog.Purge{Account: "acct_a"}))(t)
					must.Get(h.DisableClient(ctx, "till"))(t)
					must.Get(h.RenameUser(ctx, "Zoë", "zelda"))(t)
				}
			}
			if string(got) != want {
				t.Errorf("the export is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Promise (Platform §13): of tokens an export has those that are live, by account, client, username and hash;
// spent ones, those of platform clients, and of disabled users, clients and accounts are left out
func TestTheTokensOfAnExport(t *testing.T) {
	t.Parallel()
	h := fill(t, storetest.OnDisk(t))
	lines := strings.Join(linesOfNoun(exported(t, h.Store, store.ExportSpec{Secrets: true}), "token"), "\n")
	for i, pair := range h.live {
		if !strings.Contains(lines, hexOf(pair.AccessToken)) || !pair.RefreshToken.IsZero() && !strings.Contains(lines, hexOf(pair.RefreshToken)) {
			t.Errorf("the live pair %d is missing in\n%s", i, lines)
		}
	}
	if n := strings.Count(lines, "_sha256"); n != 10 {
		t.Errorf("there are %d tokens, want 10", n)
	}
	for n := 1; n < 6; n++ {
		x := must.Get(h.NewExport(t.Context(), store.ExportSpec{}))(t)
		x.TokensAtOnce(n)
		if got := strings.Join(linesFrom(t, x), "\n"); got != lines {
			t.Errorf("with %d authorizations in memory the lines are\n%s\nwant\n%s", n, got, lines)
		}
		x.Close()
	}
	t.Run("spent", func(t *testing.T) {
		ctx, pair := t.Context(), h.live[1]
		for range 8 { // in the order of their hashes, which is another one
			h.Clock.Advance(time.Second)
			pair = must.Get(h.RotateRefresh(ctx, store.Refresh{Client: h.till, Token: pair.RefreshToken}))(t)
		}
		lines := strings.Join(linesOfNoun(exported(t, h.Store, store.ExportSpec{Secrets: true}), "token"), "\n")
		if strings.Count(lines, `"refresh_token_sha256"`) != 4 || !strings.Contains(lines, hexOf(pair.AccessToken)+`","expires_at":`+fmt.Sprint(h.Now().Add(h.Lifetimes().AccessToken).Unix())+`,"refresh_token_sha256":"`+hexOf(pair.RefreshToken)) {
			t.Errorf("the newest pair must be one line, and its spent tokens left out:\n%s", lines)
		}
	})
	t.Run("an_access_token_with_less_than_its_authorization", func(t *testing.T) {
		ctx := t.Context()
		narrow := must.Get(h.RotateRefresh(ctx, store.Refresh{Client: h.till, Token: h.live[0].RefreshToken, Scope: store.ScopeEventsRead}))(t)
		for _, line := range linesOfNoun(exported(t, h.Store, store.ExportSpec{Secrets: true}), "token") {
			isNarrow, isWide := strings.Contains(line, hexOf(narrow.AccessToken)), strings.Contains(line, hexOf(narrow.RefreshToken))
			if isNarrow && isWide || isNarrow && !strings.Contains(line, `"scope":"events:read"`) || isWide && strings.Contains(line, `"scope"`) {
				t.Errorf("a line has one scope, but it is %s", line)
			}
		}
	})
	t.Run("expired", func(t *testing.T) {
		h.Clock.Advance(h.Lifetimes().AccessToken)
		lines := strings.Join(linesOfNoun(exported(t, h.Store, store.ExportSpec{Secrets: true}), "token"), "\n")
		if strings.Contains(lines, `"access_token_sha256"`) || strings.Count(lines, `"refresh_token_sha256"`) != 4 {
			t.Errorf("with expired access tokens the lines are\n%s", lines)
		}
	})
}

// TestAnExportHasNoEventThatAnImportRefuses: one that is past retention, and not yet removed.
func TestAnExportHasNoEventThatAnImportRefuses(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	must.Do(t, f.Events.SetRetention(t.Context(), 30*24*time.Hour))
	must.Get(f.Events.PutResource(t.Context(), eventlog.ResourceChange{Owner: "acct_a", Kind: "plan", ID: "old"}, snapshot.ObjectOf()))(t)
	f.Clock.Advance(31 * 24 * time.Hour)
	lines := exported(t, f.Store, store.ExportSpec{})
	if len(linesOfNoun(lines, "event")) != 0 || len(linesOfNoun(lines, "resource")) != 1 {
		t.Errorf("the lines are\n%s\nwant the resource without its event", strings.Join(lines, "\n"))
	}
}

func hexOf(token secret.Token) string {
	h := token.Hash()
	return fmt.Sprintf("%x", h[:])
}

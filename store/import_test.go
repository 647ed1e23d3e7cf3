package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook/target"
)

const bcryptOfHarriet = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"

// ported is the outcome of an import in a test.
type ported struct {
	store.ImportSummary
	reports []string // line:code:param, or line:differs:members
	stopped bool
}

// port imports lines as the operator's request does.
func port(t testing.TB, s *store.Store, o store.ImportOptions, lines ...string) ported {
	t.Helper()
	var p ported
	o.ParseURL = new(target.Rules).ParseURL
	o.Report = func(r store.ImportReport) {
		if r.Refused != nil {
			p.reports = append(p.reports, fmt.Sprintf("%d:%s:%s", r.Line, r.Refused.Code, r.Refused.Param))
		} else {
			p.reports = append(p.reports, fmt.Sprintf("%d:differs:%s", r.Line, strings.Join(r.Differs, " ")))
		}
	}
	ctx := store.WithActor(t.Context(), store.Actor{})
	im := s.NewImport(ctx, o)
	offset := 0
	for _, line := range lines {
		must.Do(t, im.Add(ctx, []byte(line), int64(offset)))
		offset += len(line) + 1
	}
	must.Do(t, im.Flush(ctx))
	p.ImportSummary, p.stopped = im.Summary(), im.Stopped()
	if sum := p.Created.All() + p.Unchanged + p.Updated + p.Errors + p.Expired + p.Empty; sum != p.Lines {
		t.Errorf("the summary does not add up: %d of %d lines in %+v", sum, p.Lines, p.ImportSummary)
	}
	return p
}

// portable has a line of each noun that needs no leave.
var portable = []string{
	`{"account":{"account":"acct_larkspur","name":"Larkspur","created_at":1600000000}}`,
	`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","name":"Books","redirect_uris":["https://books.example/cb"],"scopes":["events:read"]}}`,
	`{"client":{"client_id":"till","public":true,"redirect_uris":["https://till.example/cb"]}}`,
	`{"user":{"username":"Harriet","account":"acct_larkspur","password_hash":"` + bcryptOfHarriet + `","created_at":1600000000}}`,
	`{"user":{"username":"odile","account":"acct_larkspur"}}`,
	`{"user":{"username":"clement","account":"acct_larkspur","password_hash":{"scheme":"symfony","algorithm":"sha512","iterations":2,"base64":false,"salt":"s","hash":"` + strings.Repeat("0", 128) + `"}}}`,
	``,
	`{"resource":{"kind":"plan","id":"basic","account":"acct_larkspur","object":{"price":9.50},"createdAt":1600000001}}`,
	`{"resource":{"kind":"plan","id":"old","account":"acct_larkspur","object":{"price":1},"event":"none"}}`,
	`{"event":{"id":"po_1","owner":"acct_larkspur","type":"customer.created","resource":"cus_1","createdAt":1600000002,"eventData":{"object":{"city":"Dunmere"}}}}`,
	`{"webhook":{"url":"https://hooks.example/","account":"acct_larkspur","types":["customer.*"],"cursor":"po_1"}}`,
}

// It creates what is not there, and a second run changes nothing; a dry run says the same.
//
// Promise (Platform §9): an import creates, and changes nothing that exists: a second run is all
// unchanged, also of lines without ids; a dry run reports alike and leaves nothing
func TestImportCreatesAndAgainChangesNothing(t *testing.T) {
	t.Parallel()
	for _, dry := range []bool{true, false} {
		f := storetest.New(t)
		twice := append(append([]string{}, portable...), portable...)
		got := port(t, f.Store, store.ImportOptions{DryRun: dry}, twice...)
		want := store.Created{Accounts: 1, Clients: 2, Users: 3, Resources: 2, Events: 1, Webhooks: 1}
		if got.Created != want || got.Unchanged != 10 || got.Empty != 2 || len(got.reports) != 0 || got.WithoutPassword != 1 || got.Hashes["bcrypt-10"] != 1 || got.Hashes["symfony wrapped"] != 1 {
			t.Errorf("dry %v: %+v", dry, got)
		}
	}
}

// passwordLine is the line of a user whose hash takes that password, with hashes that are cheap here.
func passwordLine(t testing.TB, username, account, password, more string) string {
	t.Helper()
	hash := must.Get(secret.NewHasher().Hash(t.Context(), secret.Caller{}, password))(t)
	return fmt.Sprintf(`{"user":{"username":%q,"account":%q,"password_hash":%q%s}}`, username, account, hash, more)
}

// A file that names a user who exists, with a hash that its writer knows, takes nobody over.
//
// Promise (Platform §9): no line can take a user over: a name that exists is unchanged, with the
// members that differ, or a conflict in another account or with another id; the password stands
func TestImportTakesNobodyOver(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	ctx := t.Context()
	victim, _, err := f.CreateUser(ctx, store.UserSpec{Username: "odile", Account: "acct_a", Password: "the phrase of odile", Operator: true})
	must.Do(t, err)
	must.Get(f.CreateAccount(ctx, "acct_b", ""))(t)
	client, sec, err := f.CreateClient(ctx, store.ClientSpec{Name: "Books", RedirectURIs: []string{"https://books.example/cb"}})
	must.Do(t, err)
	got := port(t, f.Store, store.ImportOptions{Update: true, SkipErrors: true, Allow: store.ImportAllows()},
		passwordLine(t, "ODILE", "acct_a", "a phrase of another", ""),
		passwordLine(t, "odile", "acct_b", "a phrase of another", ""),
		passwordLine(t, "odile", "acct_a", "a phrase of another", `,"user_id":"usr_00000000000000000000000001"`),
		passwordLine(t, "nobody", "acct_a", "a phrase of another", fmt.Sprintf(`,"user_id":%q`, victim.Subject())),
		`{"user":{"username":"odile","account":"acct_a","password":"a phrase of another"}}`,
		fmt.Sprintf(`{"client":{"client_id":%q,"client_secret":"a phrase of another, long","redirect_uris":["https://evil.example/cb"]}}`, client.ID),
		`{"account":{"account":"acct_b","name":"Mine now","disabled":true}}`)
	want := []string{"1:differs:username password_hash operator", "2:conflict:user.username", "3:conflict:user.username", "4:conflict:user.user_id",
		"5:differs:operator", "6:differs:name client_secret redirect_uris", "7:differs:name disabled"}
	if !slices.Equal(got.reports, want) || got.Created.All() != 0 || got.Updated != 0 || got.Unchanged != 4 || got.Errors != 3 {
		t.Errorf("%q\nwant\n%q\n%+v", got.reports, want, got.ImportSummary)
	}
	if u, err := f.AuthenticateUser(ctx, secret.Caller{}, "odile", "the phrase of odile"); err != nil || !u.Operator {
		t.Errorf("the password of before: %v, operator %v", err, u.Operator)
	}
	if _, err := f.AuthenticateUser(ctx, secret.Caller{}, "odile", "a phrase of another"); err == nil {
		t.Error("the password of the file signs in")
	}
	if c, err := f.FindClient(ctx, client.ID); err != nil || c.RedirectURIs[0] != "https://books.example/cb" || c.Name != "Books" || sec.IsZero() {
		t.Errorf("the client became %+v, %v", c, err)
	}
}

// On the night of the switch, those whom nobody has used follow the old system.
//
// Promise (Platform §9): --update replaces users and clients that an import made and that nobody
// used or changed here since; all others are unchanged
func TestImportUpdatesWhatNobodyUsed(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	ctx := t.Context()
	line := func(name, password string) string { return passwordLine(t, name, "acct_a", password, "") }
	client := `{"client":{"client_id":"%s","client_secret":"a secret of the old system, %d","redirect_uris":["https://books.example/%d"]}}`
	names := []string{"unused", "signed_in", "renamed", "disabled"}
	first := []string{`{"account":{"account":"acct_a"}}`, fmt.Sprintf(client, "books", 1, 1), fmt.Sprintf(client, "changed", 1, 1)}
	for _, name := range names {
		first = append(first, line(name, "the first phrase"))
	}
	if got := port(t, f.Store, store.ImportOptions{}, first...); got.Created.All() != len(first) {
		t.Fatalf("%+v", got)
	}
	signed := must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "signed_in", "the first phrase"))(t)
	_, _, err := f.CreateSession(ctx, store.By{}, signed, secret.Token{}, "")
	must.Do(t, err)
	f.FlushLastUsed(ctx)
	must.Get(f.RenameUser(ctx, "renamed", "renamed2"))(t)
	must.Get(f.RenameUser(ctx, "renamed2", "renamed"))(t)
	must.Get(f.DisableUser(ctx, "disabled"))(t)
	name := "Mine"
	must.Get(f.UpdateClient(ctx, "changed", store.ClientChange{Name: &name}))(t)
	second := []string{fmt.Sprintf(client, "books", 2, 2), fmt.Sprintf(client, "changed", 2, 2)}
	for _, name := range names {
		second = append(second, line(name, "the second phrase"))
	}
	if got := port(t, f.Store, store.ImportOptions{}, second...); got.Updated != 0 || got.Unchanged != 6 || len(got.reports) != 6 {
		t.Errorf("without --update: %+v", got)
	}
	for _, dry := range []bool{true, false} {
		got := port(t, f.Store, store.ImportOptions{Update: true, DryRun: dry}, second...)
		if got.Updated != 2 || got.Unchanged != 4 || got.Errors != 0 {
			t.Errorf("dry %v: %+v", dry, got)
		}
	}
	for _, c := range []struct {
		name, password string
		want           bool
	}{{"unused", "the second phrase", true}, {"unused", "the first phrase", false}, {"signed_in", "the first phrase", true}, {"renamed", "the first phrase", true}} {
		if _, err := f.AuthenticateUser(ctx, secret.Caller{}, c.name, c.password); (err == nil) != c.want {
			t.Errorf("%s with %q: %v", c.name, c.password, err)
		}
	}
	if c := must.Get(f.FindClient(ctx, "books"))(t); c.RedirectURIs[0] != "https://books.example/2" {
		t.Errorf("the client has %q", c.RedirectURIs)
	}
	if _, err := f.AuthenticateClient(ctx, "books", "a secret of the old system, 2", nil); err != nil {
		t.Errorf("the secret of the second run: %v", err)
	}
}

// What is dangerous comes in only if the operator names it, and the refusal says how.
//
// Promise (Platform §9): operators, platform clients and clients that may introspect need
// --allow privileged and are counted; each other leave has its name; nothing else of a record can be set
func TestImportNeedsLeave(t *testing.T) {
	t.Parallel()
	lines := []struct{ line, allow string }{
		{`{"user":{"username":"a","operator":true}}`, store.AllowPrivileged},
		{`{"client":{"client_id":"p","client_secret":"a secret of the old system, 1","platform":true,"scopes":["accounts:read"]}}`, store.AllowPrivileged},
		{`{"client":{"client_id":"i","client_secret":"a secret of the old system, 1","introspect":true,"redirect_uris":["https://a.example/"]}}`, store.AllowPrivileged},
		{`{"user":{"username":"b","password":"pw"}}`, store.AllowPlain},
		{`{"user":{"username":"c","password_hash":{"scheme":"digest","algorithm":"md5","hash":"5f4dcc3b5aa765d61d8327deb882cf99","salt":"x"}}}`, store.AllowDigest},
		{`{"client":{"client_id":"s","client_secret":"short","redirect_uris":["https://a.example/"]}}`, store.AllowShortSecrets},
		{`{"client":{"client_id":"t","client_secret":"aaaaaaaaaaaaaaaaaaaaaaaa","redirect_uris":["https://a.example/"]}}`, store.AllowShortSecrets},
		{`{"client":{"client_id":"h","client_secret":"a secret of the old system, 1","redirect_uris":["http://till.example/"]}}`, store.AllowHTTPRedirects},
	}
	for _, c := range lines {
		f := storetest.New(t)
		must.Get(f.CreateAccount(t.Context(), "default", ""))(t)
		var others []string
		for _, name := range store.ImportAllows() {
			if name != c.allow {
				others = append(others, name)
			}
		}
		if got := port(t, f.Store, store.ImportOptions{Allow: others}, c.line); len(got.reports) != 1 || !strings.Contains(got.reports[0], "not_allowed") || got.Created.All() != 0 {
			t.Errorf("%s without %s: %q", c.line, c.allow, got.reports)
		}
		got := port(t, f.Store, store.ImportOptions{Allow: []string{c.allow}}, c.line)
		if got.Created.All() != 1 || (got.Privileged == 1) != (c.allow == store.AllowPrivileged) {
			t.Errorf("%s with %s: %+v", c.line, c.allow, got)
		}
	}
	f := storetest.New(t)
	must.Get(f.CreateAccount(t.Context(), "default", ""))(t)
	refused := []string{
		`{"client":{"client_id":"w","client_secret":"a secret of the old system, 1","redirect_uris":["https://*.example/"]}}`,
		`{"client":{"client_id":"n","redirect_uris":["https://a.example/"]}}`,
		`{"client":{"client_id":"e","client_secret":"","redirect_uris":["https://a.example/"]}}`,
		`{"client":{"client_secret":"a secret of the old system, 1","redirect_uris":["https://a.example/"]}}`,
		`{"user":{"username":"g","generation":1}}`, `{"user":{"username":"r","revision":1}}`,
		`{"user":{"username":"u","password_hash":"$2a$31$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"}}`,
		`{"user":{"username":"u","password_hash":"$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0c29tZXNhbHQ"}}`,
		`{"user":{"username":"u","password_hash":"pbkdf2_sha256$2147483648$salt$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0c29tZXNhbHQ="}}`,
		`{"user":{"username":"u","password_hash":"scrypt$1073741824$salt$8$1$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0c29tZXNhbHQ="}}`,
		`{"user":{"username":"u","account":"acct_nobody"}}`, `{"event":{"owner":"acct_nobody"}}`, `{"resource":{"kind":"plan","id":"a","account":"acct_nobody","object":{}}}`,
		`{"webhook":{"url":"https://hooks.example/","account":"acct_nobody"}}`, `{"webhook":{"url":"http://127.0.0.1/"}}`,
	}
	got := port(t, f.Store, store.ImportOptions{SkipErrors: true, Allow: store.ImportAllows()}, refused...)
	codes := map[string]int{}
	for _, r := range got.reports {
		codes[strings.Split(r, ":")[1]]++
	}
	if got.Errors != len(refused) || codes["invalid_hash"] != 4 || codes["unknown_account"] != 4 || codes["unknown_member"] != 2 {
		t.Errorf("%q", got.reports)
	}
}

// The one audit line of a run counts what is committed at every moment: a process that is killed
// leaves a right one.
//
// Promise (Platform §9): one audit line a run, with the counts, in the Update of the last change: after a
// kill at any moment it counts exactly what is there
func TestTheAuditLineOfAnImportIsRightAtEveryMoment(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	ctx := store.WithActor(t.Context(), store.Actor{})
	im := f.NewImport(ctx, store.ImportOptions{})
	check := func(when string) (counted int) {
		t.Helper()
		lines := must.Get(f.ListAudit(t.Context(), record.Position{}, 100))(t)
		totals := must.Get(f.Totals(t.Context()))(t)
		for _, l := range lines {
			counted += l.Count
		}
		if there := totals.Users + totals.Accounts + totals.Events; counted != there || len(lines) > 1 {
			t.Errorf("%s: %d audit lines count %d of %d", when, len(lines), counted, there)
		}
		return counted
	}
	must.Do(t, im.Add(ctx, []byte(`{"account":{"account":"default"}}`), 0))
	steps := map[int]bool{}
	for i := range 900 {
		must.Do(t, im.Add(ctx, fmt.Appendf(nil, `{"user":{"username":"u%d"}}`, i), 0))
		if i%50 == 0 {
			steps[check(fmt.Sprint("user ", i))] = true
		}
	}
	for i := range 2000 {
		must.Do(t, im.Add(ctx, fmt.Appendf(nil, `{"event":{"id":"e%d","type":"plan.updated","resource":"p","createdAt":1600000000,"eventData":{"object":{}}}}`, i), 0))
	}
	must.Do(t, im.Add(ctx, []byte(`{"user":{"username":"last"}}`), 0))
	check("after the events")
	must.Do(t, im.Flush(ctx))
	if all := check("at the end"); all != 1+901+2000 || len(steps) < 3 {
		t.Errorf("%d were counted, in %d steps", all, len(steps))
	}
}

// A resource without an event has the position of an event that does not exist.
//
// Promise (Platform §9): a resource with event none records nothing; its ETag is that of an event that
// does not exist, the next change is compared with it, and a second run is unchanged
func TestImportOfAResourceWithoutAnEvent(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	ctx := t.Context()
	line := `{"resource":{"kind":"plan","id":"basic","object":{"price":9.50},"event":"none"}}`
	port(t, f.Store, store.ImportOptions{}, `{"account":{"account":"default"}}`, line)
	found := must.Get(f.Events.FindResource(ctx, "default", "plan", "basic"))(t)
	if _, err := f.Events.FindEvent(ctx, "default", found.Event, nil); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("the event of the resource: %v", err)
	}
	if n := must.Get(f.Events.CountEvents(ctx))(t); n != 0 {
		t.Errorf("%d events were recorded", n)
	}
	got := port(t, f.Store, store.ImportOptions{}, line, strings.Replace(line, "9.50", "9.51", 1))
	if got.Unchanged != 2 || !slices.Equal(got.reports, []string{"2:differs:object"}) {
		t.Errorf("%+v", got)
	}
	change := eventlog.ResourceChange{Owner: "default", Kind: "plan", ID: "basic", Source: "s", Location: "l", Condition: eventlog.Condition{OneOf: []string{found.Event}}}
	changed := must.Get(f.Events.PutResource(ctx, change, must.Get(snapshot.Parse([]byte(`{"price":10}`), 2))(t)))(t)
	wire := string(must.Get(f.Events.FindEvent(ctx, "default", changed.Recorded, nil))(t))
	if !strings.Contains(wire, `"plan.updated"`) || !strings.Contains(wire, `"previousAttributes":{"price":9.50}`) {
		t.Errorf("the next change is %s", wire)
	}
}

// An import stops before a refused line and keeps what was before it, or goes on and counts it.
//
// Promise (Platform §9): an import stops at the first refused line, or skips it; its summary adds up to
// the lines, and a run that stopped is run again
func TestImportStopsOrSkips(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	lines := []string{`{"account":{"account":"default"}}`, `{"user":{"username":"a"}}`, `{"user":{"usernme":"b"}}`, `{"user":{"username":"c"}}`, `{"event":{"id":"x","type":"plan.updated","resource":"p","createdAt":1,"eventData":{"object":{}}}}`,
		`{"event":{"id":"x","type":"plan.deleted","resource":"p","createdAt":1,"eventData":{"object":{}}}}`, `{"resource":{"kind":"plan","id":"r","object":[]}}`, `{"user":{"username":"d"}}`}
	got := port(t, f.Store, store.ImportOptions{}, lines...)
	if !got.stopped || got.Lines != 3 || got.Created.All() != 2 || got.Errors != 1 {
		t.Errorf("stop: %+v", got)
	}
	if got = port(t, f.Store, store.ImportOptions{}, lines[3:]...); !got.stopped || got.Lines != 3 || got.Created.All() != 2 || !slices.Equal(got.reports, []string{"3:conflict:event.id"}) {
		t.Errorf("stop at an event: %+v", got)
	}
	got = port(t, f.Store, store.ImportOptions{SkipErrors: true}, lines...)
	want := []string{"3:unknown_member:user.usernme", "6:conflict:event.id", "7:invalid_event:resource.object"}
	if got.stopped || got.Lines != 8 || got.Created.All() != 1 || got.Unchanged != 4 || !slices.Equal(got.reports, want) {
		t.Errorf("skip: %+v", got)
	}
}

// What is wrong with a resource is named by the members of its line, although it goes into the log as an
// event.
//
// Promise (Platform §9): a refusal has the noun and the member that is wrong, also of a resource: its kind,
// id, action and each field of its object
func TestARefusedResourceNamesItsMember(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	must.Get(f.CreateAccount(t.Context(), "default", ""))(t)
	for line, want := range map[string]string{
		`"kind":"Plan","id":"a","object":{}`:                                      "invalid_event:resource.kind",
		`"id":"a","object":{}`:                                                    "invalid_event:resource.kind",
		`"kind":"plan","id":"a b","object":{}`:                                    "invalid_event:resource.id",
		`"kind":"plan","object":{}`:                                               "invalid_event:resource.id",
		`"kind":"plan","id":"a","action":"Updated","object":{}`:                   "invalid_event:resource.action",
		`"kind":"plan","id":"a","action":"deleted","object":{}`:                   "invalid_event:resource.action",
		`"kind":"plan","id":"a","createdAt":4102444800,"object":{}`:               "invalid_event:resource.createdAt",
		`"kind":"plan","id":"a","object":[]`:                                      "invalid_event:resource.object",
		`"kind":"plan","id":"a","object":{"id":"b"}`:                              "invalid_event:resource.object.id",
		`"kind":"plan","id":"a","event":"none","object":{"id":"b"}`:               "invalid_event:resource.object.id",
		`"kind":"customer","id":"a","object":{"displayName":7}`:                   "invalid_event:resource.object.displayName",
		`"kind":"customer","id":"a","object":{"displaynam":"x"}`:                  "unknown_member:resource.object.displaynam",
		`"kind":"customer","id":"a","object":{"metadata":{"a":1}}`:                "invalid_event:resource.object.metadata.a",
		`"kind":"plan","id":"a","object":{"card":"4242424242424242"}`:             "sensitive_data:resource.object.card",
		`"kind":"plan","id":"a","event":"none","object":{"c":"4242424242424242"}`: "sensitive_data:resource.object.c",
	} {
		got := port(t, f.Store, store.ImportOptions{SkipErrors: true}, `{"resource":{`+line+`}}`)
		if !slices.Equal(got.reports, []string{"1:" + want}) {
			t.Errorf("%s: %q, want %s", line, got.reports, want)
		}
	}
}

// Promise (Platform §9): a dry run reports alike where an event stands again behind another line of its id
func TestADryRunComparesWithTheFirstLineOfAnID(t *testing.T) {
	t.Parallel()
	event := func(createdAt int) string {
		return fmt.Sprintf(`{"event":{"id":"po_1","type":"plan.updated","resource":"p","createdAt":%d,"eventData":{"object":{}}}}`, createdAt)
	}
	resource := func(price int) string {
		return fmt.Sprintf(`{"resource":{"kind":"plan","id":"basic","object":{"price":%d}}}`, price)
	}
	first, second := event(1_600_000_000), event(1_600_000_900)
	lines := []string{`{"account":{"account":"default"}}`, first, resource(1), `{"user":{"username":"odile"}}`, second, first, second, resource(2), resource(1)}
	want := []string{"5:conflict:event.id", "7:conflict:event.id", "8:differs:object"}
	for _, dry := range []bool{true, false} {
		got := port(t, storetest.New(t).Store, store.ImportOptions{DryRun: dry, SkipErrors: true}, lines...)
		if !slices.Equal(slices.Sorted(slices.Values(got.reports)), want) || got.Unchanged != 3 {
			t.Errorf("dry %v: %q, want %q; %+v", dry, got.reports, want, got.ImportSummary)
		}
	}
}

// Promise (Platform §9): a line without an account belongs to default, which must exist or stand before it, in
// a dry run too; names of lines that follow are unknown; a user_id has our form
func TestLinesNameWhatStandsBeforeThem(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"user":{"username":"odile"}}`, `{"resource":{"kind":"plan","id":"a","object":{}}}`, `{"event":{"type":"plan.created","resource":"a","createdAt":1600000000,"eventData":{"object":{}}}}`,
		`{"webhook":{"url":"https://hooks.example/"}}`, `{"client":{"client_id":"job","client_secret":"a secret of the old system, 1","grants":["client_credentials"],"account":"default"}}`,
		`{"token":{"client_id":"books","username":"odile","access_token":"access-of-the-old-one"}}`, `{"account":{"account":"default"}}`,
		`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","redirect_uris":["https://books.example/cb"]}}`,
		`{"token":{"client_id":"books","username":"odile","access_token":"access-of-the-old-one"}}`,
		`{"user":{"username":"odile","user_id":"42"}}`, `{"user":{"username":"odile","user_id":"usr_0000000000000000000000000U"}}`, `{"user":{"username":"odile"}}`,
		`{"token":{"client_id":"books","username":"odile","access_token":"access-of-the-old-one"}}`,
	}
	want := []string{"1:unknown_account:user.account", "2:unknown_account:resource.account", "3:unknown_account:event.account", "4:unknown_account:webhook.account", "5:unknown_account:client.account",
		"6:unknown_client:token.client_id", "9:unknown_user:token.username", "10:invalid_parameter:user.user_id", "11:invalid_parameter:user.user_id"}
	for _, dry := range []bool{true, false} {
		got := port(t, storetest.New(t).Store, store.ImportOptions{DryRun: dry, SkipErrors: true}, lines...)
		if !slices.Equal(got.reports, want) || got.Created.All() != 4 {
			t.Errorf("dry %v: %q, want %q\n%+v", dry, got.reports, want, got.ImportSummary)
		}
	}
}

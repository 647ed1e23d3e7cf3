package views_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store/storetest/must"
	"tollhouse/views"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

// hostileName tries markup, a change of direction, and the whole width.
var hostileName = `<script>alert("1")</script>` + "\u202e" + strings.Repeat("W", 90)

// The time of the golden pages, and one two days before.
var (
	goldenNow = time.Date(2026, 3, 9, 15, 30, 0, 0, time.UTC)
	golden    = views.Moment{At: goldenNow.Add(-49*time.Hour - 8*time.Minute), Now: goldenNow}
)

// goldenFrame is around every golden page.
func goldenFrame() views.Frame {
	return views.Frame{
		Page:     views.Page{Host: "pay.larkspurtea.example", SignedIn: true, Instance: hostileName},
		Username: hostileName, SignOutToken: "TOKEN", FormToken: "TOKEN",
	}
}

// deskScreens are pages of the desk as the handlers fill them, with every name hostile.
func deskScreens() map[string]templ.Component {
	name, when, frame := hostileName, golden, goldenFrame()
	soon := views.Moment{At: goldenNow.Add(3 * time.Hour), Now: goldenNow}
	found := frame
	found.Findings = []views.Finding{{Check: "backup", State: "warning", Detail: name, Next: name}, {Check: "disk", State: "ok", Detail: name}}
	client := views.ListedClient{ID: "demo", Name: name, URL: "/desk/clients/demo", Grants: []string{"password"}, Scopes: []string{"events:read"}, Used: when, Disabled: true}
	form := views.ClientForm{Name: name, RedirectURIs: []string{name}, Grants: []string{"password"}, Scopes: []string{"events:read"}, AllGrants: []string{"password", "refresh_token"}, AllScopes: []string{"events:read", "events:write"}, Account: name}
	refused := form
	refused.Refusal = views.Refusal{"name": name}
	user := views.ListedUser{ID: "usr_1", Username: name, URL: "/desk/users/usr_1", Account: name, Operator: true, SignedIn: when, HasPassword: true}
	access := views.AccessList{Older: "/desk/access?after=1", Rows: []views.ListedAccess{
		{ID: "fam_1", Client: name, ClientURL: "/desk/clients/demo", Username: name, UserURL: "/desk/users/usr_1", Scopes: []string{"events:read"}, Since: when, Families: 2, FamiliesURL: "/desk/access?client=demo", RevokeURL: "/desk/families/fam_1/revoke"},
		{ID: "fam_2", Client: name, ClientURL: "/desk/clients/demo", Account: name, Since: when, Used: when, Families: 1, RevokeURL: "/desk/families/fam_2/revoke"},
	}}
	audit := views.AuditList{Older: "/desk/audit?after=1", URL: "/desk/audit", Lines: []views.AuditLine{
		{ID: "aud_1", At: when, What: "login_refused", Reason: name, Times: 3, User: views.Named{ID: "usr_1", Name: name, URL: "/desk/users/usr_1"}, Client: views.Named{ID: name}, Source: name, RequestID: name},
		{ID: "aud_4", At: when, What: "login", User: views.Named{ID: "usr_1", Name: name, URL: "/desk/users/usr_1"}, Amr: []string{"pwd", "hwk", "mfa"}},
		{ID: "aud_2", At: when, What: "admin", Reason: name, Actor: views.Named{ID: "usr_1", Name: name, URL: "/desk/users/usr_1"}, AtDesk: true},
		{ID: "aud_3", At: when, What: "admin", Reason: name, Actor: views.Named{ID: "back-office", Name: name, URL: "/desk/clients/back-office"}},
	}}
	browser := views.Browser{ID: "ses_1", Name: "Firefox on Linux", Username: name, UserURL: "/desk/users/usr_1", Here: true, Since: when, Seen: when, Ends: soon, RevokeURL: "/desk/sessions/ses_1/revoke"}
	event := views.ListedEvent{ID: "evt_1", Type: name, Source: name, URL: "/desk/events/evt_1", Resource: name, ResourceURL: "/desk/events?resource=1", At: when, Current: true, Changed: []string{name, "a", "b", "c", "d"}}
	events := views.EventList{Events: []views.ListedEvent{event}, Newer: "/desk/events?before=1", Older: "/desk/events?after=1", Tail: "/desk/event-tail?after=1", TailRow: "/desk/events/EVENT", TailResource: "/desk/events?resource=RESOURCE"}
	search := views.EventSearch{
		URL: "/desk/events", ClearURL: "/desk/events", JSONURL: "/desk/event-list", Accounts: []views.Choice{{Value: name, Label: name, Chosen: true}}, Types: []string{name},
		Kinds: []views.KindChoice{{URL: "/desk/events", Current: true}, {Kind: "customer", URL: "/desk/events?type=customer.*"}, {Kind: name, URL: "/desk/events?type=x"}},
		Type:  name, Resource: name, From: name, Further: []views.Detail{{Label: "limit", Value: "5"}},
	}
	hook := views.ListedWebhook{ID: "wep_1", Description: name, URL: "/desk/webhooks/wep_1", Origin: name, Account: name, Health: "disabled", Why: "gone", Waiting: views.Waiting{Events: 1204}, Recent: []string{"delivered", "dead", "retrying"}, First: when, Parked: 1, Dead: 2}
	starts := []time.Time{goldenNow.Add(-2 * time.Hour), goldenNow.Add(-time.Hour)}
	plots := views.Plots{Range: "24h", Now: goldenNow.Add(-time.Minute), Starts: starts, End: goldenNow, Missed: []views.Span{{From: starts[0], To: starts[1]}}, Plots: []views.PlotData{
		{Name: "events", Series: []views.Series{{Name: name, Values: []views.Value{{Known: true, Number: 3}, {}}, Total: 3}}},
		{Name: "requests", Series: []views.Series{{Name: "p50", Unit: "seconds", Values: []views.Value{{Known: true, Number: 0.0042}, {Known: true, Number: 1.5}}}}},
		{Name: "store", Series: []views.Series{{Name: "store", Unit: "bytes", Values: []views.Value{{}, {Known: true, Number: 440_800_000}}}}},
		{Name: "tokens", Series: []views.Series{{Name: "password", Values: []views.Value{{Known: true}, {Known: true}}}}},
	}}
	return map[string]templ.Component{
		"overview": views.Overview(views.OverviewProps{
			Frame: found, AllURL: "/desk", AccountName: name, EventsURL: "/desk/events?account=x", RefusedURL: "/desk/audit", Plots: plots, Earlier: plots, Newest: []views.ListedEvent{event}, Latest: []views.AuditLine{{ID: "1", At: when, What: "throttle", Reason: name, User: views.Named{ID: "usr_1", Name: name}, Client: views.Named{ID: name}, Source: "192.0.2.1"}},
			Ranges:  []views.RangeChoice{{Range: "24h", URL: "/desk", Current: true}, {Range: "7d", URL: "/desk?range=7d"}},
			Busiest: []views.BusyAccount{{Name: name, URL: "/desk", Events: 3}, {Name: name, URL: "/desk", Events: 1}},
		}),
		"events":      views.Events(views.EventsProps{Frame: frame, Search: search, Curl: name, List: events}),
		"customers":   views.Events(views.EventsProps{Frame: frame, Search: search, Customers: &views.FoundCustomers{Text: name, Customers: []views.FoundCustomer{{ID: name, Name: name, Email: name, URL: "/desk/events?resource=1"}}}, List: events}),
		"events-none": views.Events(views.EventsProps{Frame: frame, List: views.EventList{Newest: when, Unseen: []views.UnseenType{{Type: name, Nearest: name}}, ClearURL: "/desk/events"}}),
		"event": views.Event(views.EventProps{
			Frame: frame, Search: search, AllURL: "/desk/events", List: events, Event: event, Members: []views.Detail{{Label: "owner", Value: name}, {Label: name, Value: name}}, Compared: true, Snapshot: name + "\n" + name, MemberCount: 1,
			Changes: []views.Change{{Member: name, Before: name, After: name}, {Member: "a.new", After: name, New: true}, {Member: "a.gone", Before: name, Gone: true}},
			Curl:    name, RawURL: "/desk/events/evt_1/raw", Earlier: "/desk/events/evt_0",
		}),
		"resources":     views.Resources(views.ResourcesProps{Frame: frame, URL: "/desk/resources", Kinds: []string{name}, Kind: name, Resources: []views.ListedResource{{ID: name, Name: name, URL: "/desk/resources/x/1", Changed: when}}, Older: "/desk/resources?after=1"}),
		"resource":      views.Resource(views.ResourceProps{Frame: frame, Kind: name, ID: name, Name: name, ETag: name, Members: []views.Detail{{Label: name, Value: name}}, List: events, EventsURL: "/desk/events", ListURL: "/desk/resources?kind=customer", Curl: name}),
		"clients":       views.Clients(views.ClientsProps{Frame: frame, Clients: []views.ListedClient{client, {ID: "p", Name: name, Public: true}}, NewURL: "/desk/new-client", Older: "/desk/clients?after=demo"}),
		"client":        views.Client(views.ClientProps{Frame: frame, Client: client, Created: when, Secrets: 2, SecretMade: when, Now: form, Form: refused, Lost: views.Lost{Authorizations: 3, Users: 2, Webhooks: 1}, Access: access, Audit: audit, Once: "ONCE", Curl: name, DeleteCommand: name}),
		"new-client":    views.NewClient(views.NewClientProps{Frame: frame, Form: form, URL: "/desk/clients", Once: "ONCE"}),
		"client-secret": views.ClientSecret(views.ClientSecretProps{Frame: frame, ID: "demo", Name: name, URL: "/desk/clients/demo", Secret: "SECRET", Curl: "curl\n" + name, New: true}),
		"users":         views.Users(views.UsersProps{Frame: frame, Users: []views.ListedUser{user}, NewURL: "/desk/new-user", AccountsURL: "/desk/accounts", Older: "/desk/users?after=1"}),
		"accounts":      views.Accounts(views.AccountsProps{Frame: frame, Accounts: []views.ListedAccount{{ID: name, Name: name, URL: "/desk/events?account=x", Created: when}, {ID: "off", Disabled: true, Created: when}}, Older: "/desk/accounts?after=1", Commands: name}),
		"user":          views.User(views.UserProps{Frame: frame, User: user, AccountURL: "/desk/events", Created: when, CodeEnds: soon, CodePath: "/new-password", SignedIn: 1, Lost: views.Lost{Authorizations: 3, Users: 1}, Browsers: []views.Browser{browser}, Access: access, Audit: audit, Once: "ONCE", DeleteCommand: name}),
		"new-user":      views.NewUser(views.NewUserProps{Frame: frame, Username: name, Account: name, Operator: true, Accounts: []string{name}, Refused: true, Exists: true, URL: "/desk/users", Once: "ONCE"}),
		"user-code":     views.UserCode(views.UserCodeProps{Frame: frame, Username: name, URL: "/desk/users/usr_1", Code: "CODE", CodeURL: "/new-password"}),
		"access":        views.Access(views.AccessProps{Frame: frame, URL: "/desk/access", User: name, Browsers: []views.Browser{browser}, Access: access, TooMany: true}),
		"audit":         views.Audit(views.AuditProps{Frame: frame, URL: "/desk/audit", User: name, List: audit}),
		"webhooks":      views.Webhooks(views.WebhooksProps{Frame: frame, Webhooks: []views.ListedWebhook{hook}, Held: true, Restored: true, NewURL: "/desk/new-webhook", HoldURL: "/desk/webhook-hold", ResumeURL: "/desk/webhook-resume", APIPath: "/api/webhook-endpoints", CreateCommand: name}),
		"webhook": views.Webhook(views.WebhookProps{
			Frame: frame, Webhook: hook, Address: name, Types: []string{name}, Strict: true, Secrets: 1, Created: when, Tried: when, DeliveredTo: when, LastError: name,
			Blocked: &views.Blocked{Event: name, Type: name, URL: "/desk/events/1", Attempts: 2, Status: 503, Next: soon}, GapAfter: name,
			Deliveries: []views.Delivery{{Event: name, Type: name, URL: "/desk/events/1", State: "dead", Attempts: 3, Status: 500, Body: name, Tried: when}}, Once: "ONCE", DeleteCommand: name, Test: &views.SentTest{Status: 500, MS: 12, Error: name},
		}),
		"new-webhook":    views.NewWebhook(views.NewWebhookProps{Frame: frame, Address: name, Description: name, Account: name, Types: []string{name}, Order: "none", Accounts: []string{name}, Refusal: views.Refusal{"url": name}, URL: "/desk/webhooks", Once: "ONCE"}),
		"webhook-secret": views.WebhookSecret(views.WebhookSecretProps{Frame: frame, ID: "wep_1", Name: name, URL: "/desk/webhooks/wep_1", Secret: "SECRET"}),
		"backups": views.Backups(views.BackupsProps{
			Frame: found, Scheduled: true, Every: day, Checking: name, Failed: name, URL: "/desk/backups", Once: "ONCE", RestoreCommand: name,
			Backups: []views.Backup{{Name: name, Dir: name, Bytes: 3 << 20, Made: when, Problem: name, VerifyURL: "/desk/backups/x/verify"}, {Name: name, Made: when, Checked: when, VerifyURL: "/desk/backups/y/verify"}},
		}),
		"health":   views.Health(views.HealthProps{Frame: found, Search: &views.DamageSearch{Ended: when, Seconds: 1.5, Damage: name, CheckURL: "/desk/health/check", Command: name}}),
		"settings": views.Settings(views.SettingsProps{Frame: frame, Settings: []views.Setting{{Name: name, Value: name, From: "flag", Variable: "TOLLHOUSE_WEBHOOK_ALLOW"}}}),
		"confirm":  views.Confirm(views.ConfirmProps{Frame: frame, Route: "/desk/clients/:id", Action: "/desk/clients/demo", Password: true, Within: 15 * time.Minute, Fields: []views.Detail{{Label: "name", Value: name}}}),
		"sure": views.Confirm(views.ConfirmProps{
			Frame: frame, Route: "/desk/clients/:id/disable", Action: "/desk/clients/demo/disable", Fields: []views.Detail{{Label: "sure", Value: "true"}},
			Price: views.ClientDisabled{Name: name, Lost: views.Lost{Authorizations: 3, Users: 2}}, BackURL: "/desk/clients/demo",
		}),
		"send-again": views.Confirm(views.ConfirmProps{Frame: frame, Route: "/desk/clients/:id", Action: "/desk/clients/demo", Stale: true, Fields: []views.Detail{{Label: "name", Value: name}}}),
		"repeated":   views.Repeated(views.RepeatedProps{Frame: frame, Made: views.MadeClient, MadeURL: "/desk/clients/demo"}),
	}
}

const day = 24 * time.Hour

// assetHash is the part of an asset's address that changes with its bytes.
var assetHash = regexp.MustCompile(`(/static/[a-z]+)\.[0-9a-f]{12}\.`)

// unseen is what may send a name back as it came: attributes, and the text of a field.
var unseen = regexp.MustCompile(`(?s)="[^"]*"|<textarea.*?</textarea>`)

func TestDeskGoldenPages(t *testing.T) {
	t.Parallel()
	for name, c := range deskScreens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := render(t, c)
			if strings.Contains(page, "<script>") || strings.Contains(unseen.ReplaceAllString(page, ""), "\u202e") {
				t.Error("the page has a name as it came")
			}
			got := strings.ReplaceAll(assetHash.ReplaceAllString(page, "$1."), "><", ">\n<")
			if name != "overview" { // whose file has the frame of all
				got = got[strings.Index(got, "<main"):strings.Index(got, "</main>")]
			}
			path := filepath.Join("testdata", "desk-"+name+".golden.html")
			if *update {
				must.Do(t, os.MkdirAll("testdata", 0o755))
				must.Do(t, os.WriteFile(path, []byte(got), 0o644))
			}
			if want := string(must.Get(os.ReadFile(path))(t)); got != want {
				t.Errorf("%s differs; got\n%s", path, got)
			}
		})
	}
}

var currentPlace = regexp.MustCompile(`aria-current="page">\s*(\w+)`)

func TestDeskNavigationMarksThePage(t *testing.T) {
	t.Parallel()
	pages := deskScreens()
	for name, want := range map[string]string{"events": "Events", "event": "Events", "resource": "Resources", "new-client": "Clients", "user": "Users", "health": "Health", "audit": "Audit", "accounts": "Users"} {
		marked := currentPlace.FindAllStringSubmatch(render(t, pages[name]), -1)
		if len(marked) != 1 || marked[0][1] != want {
			t.Errorf("the page %s is marked in the navigation as %q, want %s once", name, marked, want)
		}
	}
}

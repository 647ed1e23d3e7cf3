package views_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a-h/templ"

	"tollhouse/static"
	"tollhouse/views"
)

// TestPagesForEverybodyWeigh bounds the pages outside the desk, with everything that they load
// and with 50 rows: applications, sign-ins, requests, or changes of the newest events.
//
// Promise (Browsers): the start page, sign-in, consent, the account and the testers' page weigh
// 60 KB at most, with 50 rows
func TestPagesForEverybodyWeigh(t *testing.T) {
	t.Parallel()
	const most = 60_000
	assets := 0
	for _, name := range []string{"style.css", "desk.js", "dev.js", "form.js", "icon.svg"} {
		content, _, _ := static.Open(static.Path(name))
		assets += len(content)
	}
	for name, page := range fullSite() {
		if size := len(render(t, page)) + assets; size > most {
			t.Errorf("%s weighs %d bytes, more than %d", name, size, most)
		}
	}
}

func fullSite() map[string]templ.Component {
	const token = "v1.8kQpK1y0m3nYb7Jw2Zr5tA"
	signedIn := fullFrame().Page
	dev := views.Page{Host: "127.0.0.1:8655", Dev: true, SignedIn: true}
	command := "curl -sS http://127.0.0.1:8655/oauth/v2/token -d grant_type=password -d client_id=demo -d client_secret=tollcs_DemoClientSecretThatEverybodyKnows0000000003NHca9"
	plots := fullPlots("24h")
	home := views.HomeProps{
		Page: dev, Username: "harriet.voss", Account: "Larkspur Tea Room", SignOutToken: token, DeskURL: "/desk", LastDay: &views.DayCounts{Day: plots, Before: plots}, Applications: 2,
		Demo: &views.HomeDemo{Version: "1.2.3", Username: "demo", Password: "demo-password", TryURL: "/oauth/v2/auth?client_id=demo", DeskURL: "/desk", ControlsURL: "/_dev/", TokenCommand: command, ListCommand: command, ChangeCommand: command},
	}
	for i := range 10 {
		e := views.HomeEvent{ID: fmt.Sprint("evt_01kk9kgbjj000qfaggyf1b9p", i), Type: "customer.updated", Resource: "cus_88k2af01nm98", When: golden, More: 2}
		for n := range rowsFull / 10 {
			e.Changes = append(e.Changes, views.Change{Member: fmt.Sprint("address.line", n), Before: "12 Dunmere Road", After: "7 Fennelmere Lane"})
		}
		home.Events = append(home.Events, e)
	}
	account := views.AccountProps{
		Page: signedIn, Username: "harriet.voss", Account: "Larkspur Tea Room", DeskURL: "/desk", SignOutToken: token, FormToken: token,
		RevokeURL: "/account/revoke", WebhookURL: "/account/webhook-off", SignOutOthersURL: "/account/sign-out-others", PasswordURL: "/account/password",
	}
	testers := views.DevProps{Page: dev, FormToken: token, URL: "/_dev/", ListURL: "/_dev/openapi.json", Clock: golden, Running: true, Total: 1000, Matching: 1000}
	for i := range rowsFull {
		account.Clients = append(account.Clients, views.GrantedClient{ID: "tollhouse_dcovfc7q6xlerb4ubys4qbubpq", Name: "Larkspur Bookkeeping", Since: golden, Used: golden, UnaskedUntil: time.Unix(1783070200, 0), Scopes: [][]string{{"events:read", "resources:read"}, allScopes}[i%2]})
		testers.Requests = append(testers.Requests, views.DevRequest{N: int64(i), Method: "POST", Path: "/oauth/v2/token", Error: "invalid_grant", Client: "tollhouse_dcovfc7q6xlerb4ubys4qbubpq", Username: "harriet.voss", When: golden, Status: 400})
	}
	signIns := account
	signIns.Clients = nil
	for range rowsFull {
		signIns.SignIns = append(signIns.SignIns, views.SignIn{Browser: "Firefox on Linux", Since: golden, Seen: golden})
	}
	return map[string]templ.Component{
		"start": views.Home(home), "account with applications": views.Account(account), "account with sign-ins": views.Account(signIns), "testers' page": views.Dev(testers),
		"sign-in": views.Login(views.LoginProps{Page: dev, ClientName: "Larkspur Bookkeeping", Action: "/login", Query: "client_id=demo", FormToken: token, CodeURL: "/new-password", DemoUsername: "demo", DemoPassword: "demo-password"}),
		"consent": views.Consent(views.ConsentProps{Page: signedIn, ClientName: "Larkspur Bookkeeping", Username: "harriet.voss", Scopes: allScopes, Account: "Larkspur Tea Room", GoesTo: "books.larkspurtea.example", Action: "/consent", Ticket: token, AccountURL: "/account"}),
	}
}

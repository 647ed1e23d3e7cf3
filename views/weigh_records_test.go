package views_test

import (
	"fmt"
	"maps"

	"github.com/a-h/templ"

	"tollhouse/views"
)

// fullRecords are the lists of clients, users, accounts, endpoints, backups and settings, and
// the pages of one record, with as many rows as a page has.
func fullRecords() map[string]templ.Component {
	const (
		clientID = "tollhouse_dcovfc7q6xlerb4ubys4qbubpq"
		userID   = "usr_247vzwmk3a9x9s0geg3qdk2ae8"
		hookID   = "wep_01kk9kgbjj000qfaggyf1b9p3e"
		command  = "tollhouse client delete --data /var/lib/tollhouse " + clientID
	)
	frame := fullFrame()
	client := views.ListedClient{
		ID: clientID, Name: "Larkspur Bookkeeping", URL: "/desk/clients/" + clientID, Grants: []string{"authorization_code", "refresh_token"}, Scopes: []string{"events:read", "resources:read"},
		Used: golden,
	}
	user := views.ListedUser{ID: userID, Username: "harriet.voss", URL: "/desk/users/" + userID, Account: "Larkspur Tea Room", Operator: true, SignedIn: golden, HasPassword: true}
	account := views.ListedAccount{ID: "acct_3vv2n7qk4m5h", Name: "Larkspur Tea Room", URL: "/desk/events?account=acct_3vv2n7qk4m5h", Created: golden}
	hook := views.ListedWebhook{
		ID: hookID, Description: "Ledger of the tea room", URL: "/desk/webhooks/" + hookID, Origin: "https://ledger.larkspurtea.example", Account: "acct_3vv2n7qk4m5h",
		Health: "failing", Since: golden, Waiting: views.Waiting{Events: 1204}, First: golden, Parked: 12, Dead: 3,
	}
	event := "evt_01kk9kgbjj000qfaggyf1b9p3e"
	webhook := views.WebhookProps{
		Frame: frame, Address: "https://ledger.larkspurtea.example/tollhouse/in", Types: []string{"transaction.*", "invoice.*"}, Strict: true, Created: golden, Tried: golden, DeliveredTo: golden,
		LastError: "500 Internal Server Error", Enabled: true, Secrets: 2, Older: hook.URL + "?after=" + event, Once: "b7Jw2Zr5tA8kQpK1", DeleteCommand: command,
		Blocked: &views.Blocked{Event: event, Type: "transaction.updated", URL: "/desk/events/" + event, Attempts: 4, Status: 500, Next: golden},
	}
	for i := range 100 { // of which a list draws fewer
		hook.Recent = append(hook.Recent, []string{"delivered", "delivered", "retrying", "dead"}[i%40/10])
	}
	webhook.Webhook = hook
	hook.Recent = hook.Recent[:40]
	well := hook
	well.Health, well.Since = "ok", views.Moment{}
	for i := range 40 {
		d := views.Delivery{Event: event, Type: "transaction.updated", URL: "/desk/events/" + event + "?account=acct_3vv2n7qk4m5h", State: "delivered", Attempts: 1, Status: 204, MS: 12, Tried: golden}
		if i%10 == 0 {
			d.State, d.Status, d.Body = "dead", 500, `{"error":"the ledger of that day is closed"}`
		}
		webhook.Deliveries = append(webhook.Deliveries, d)
	}
	p := struct {
		clients  views.ClientsProps
		users    views.UsersProps
		accounts views.AccountsProps
		webhooks views.WebhooksProps
		backups  views.BackupsProps
		settings views.SettingsProps
		access   views.AccessList
		audit    views.AuditList
		browsers []views.Browser
	}{
		clients:  views.ClientsProps{Frame: frame, NewURL: "/desk/new-client", Older: "/desk/clients?after=" + clientID},
		users:    views.UsersProps{Frame: frame, NewURL: "/desk/new-user", AccountsURL: "/desk/accounts", Older: "/desk/users?after=" + userID},
		accounts: views.AccountsProps{Frame: frame, Commands: command},
		webhooks: views.WebhooksProps{Frame: frame, HoldURL: "/desk/webhook-hold", ResumeURL: "/desk/webhook-resume", APIPath: "/api/webhook-endpoints", CreateCommand: command},
		backups:  views.BackupsProps{Frame: frame, Scheduled: true, Every: day, Keep: rowsFull, Making: true, URL: "/desk/backups", Once: "b7Jw2Zr5tA8kQpK1", RestoreCommand: command},
	}
	for i := range rowsFull {
		p.clients.Clients, p.users.Users, p.accounts.Accounts = append(p.clients.Clients, client), append(p.users.Users, user), append(p.accounts.Accounts, account)
		if i < 40 { // a page of endpoints has fewer
			p.webhooks.Webhooks = append(p.webhooks.Webhooks, []views.ListedWebhook{hook, well}[i%2])
		}
		name := fmt.Sprintf("tollhouse-35d5fd70-202603%02dT002208Z.backup", i)
		p.backups.Backups = append(p.backups.Backups, views.Backup{Name: name, Dir: "/var/backups/tollhouse", Bytes: 32_000_000, Made: golden, VerifyURL: "/desk/backups/" + name + "/verify"})
		p.settings.Settings = append(p.settings.Settings, views.Setting{Name: fmt.Sprint("webhook-disable-after", i), Value: "/var/lib/tollhouse", From: "default", Variable: "TOLLHOUSE_WEBHOOK_DISABLE_AFTER"})
	}
	p.settings.Frame = frame
	for i := range 20 { // of one record
		id := fmt.Sprintf("0tfwn4fbxshyyzr01ftsz2c%02d", i)
		p.access.Rows = append(p.access.Rows, views.ListedAccess{
			ID: id, Client: client.Name, ClientURL: client.URL, Username: user.Username, UserURL: user.URL, Scopes: allScopes, Since: golden, Used: golden, Families: 1, RevokeURL: "/desk/families/" + id + "/revoke",
		})
		p.browsers = append(p.browsers, views.Browser{ID: id, Username: user.Username, UserURL: user.URL, Name: "Firefox on Linux", Since: golden, Seen: golden, Ends: golden, RevokeURL: "/desk/sessions/" + id + "/revoke"})
		p.audit.Lines = append(p.audit.Lines, fullLine())
	}
	p.audit.URL, p.audit.Older = "/desk/audit", "/desk/audit?client="+clientID
	form := views.ClientForm{Name: client.Name, RedirectURIs: []string{"https://books.larkspurtea.example/connect/tollhouse/callback"}, Grants: client.Grants, Scopes: client.Scopes, AllGrants: []string{"authorization_code", "refresh_token", "password", "client_credentials"}, AllScopes: allScopes}
	records := map[string]templ.Component{
		"clients": views.Clients(p.clients), "users": views.Users(p.users), "accounts": views.Accounts(p.accounts), "webhooks": views.Webhooks(p.webhooks), "webhook": views.Webhook(webhook),
		"backups": views.Backups(p.backups), "settings": views.Settings(p.settings),
		"health":     views.Health(views.HealthProps{Frame: frame, Search: &views.DamageSearch{Ended: golden, Seconds: 3.4, CheckURL: "/desk/health/check", Command: command}}),
		"client":     views.Client(views.ClientProps{Frame: frame, Client: client, Created: golden, Secrets: 2, SecretMade: golden, Now: form, Form: form, Lost: views.Lost{Authorizations: 20, Users: 3}, Access: p.access, Audit: p.audit, Once: "b7Jw2Zr5tA8kQpK1", Curl: command, DeleteCommand: command}),
		"new client": views.NewClient(views.NewClientProps{Frame: frame, Form: form, URL: "/desk/clients", Once: "b7Jw2Zr5tA8kQpK1"}),
		"user":       views.User(views.UserProps{Frame: frame, User: user, AccountURL: account.URL, Created: golden, CodePath: "/new-password", Browsers: p.browsers, SignedIn: 20, Access: p.access, Audit: p.audit, Once: "b7Jw2Zr5tA8kQpK1", DeleteCommand: command}),
	}
	maps.Copy(records, fullLists())
	return records
}

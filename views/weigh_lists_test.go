package views_test

import (
	"fmt"
	"time"

	"github.com/a-h/templ"

	"tollhouse/views"
)

// fullLists are the lists of events, resources, access and audit lines with as many rows as a
// page has, each as long as is usual.
func fullLists() map[string]templ.Component {
	events := fullEvents()
	e := events.List.Events[0]
	e.Current = true
	resources := views.ResourcesProps{Frame: fullFrame(), URL: "/desk/resources", Accounts: events.Search.Accounts, Kinds: []string{"customer", "invoice", "transaction"}, Kind: "customer", Older: "/desk/resources?kind=customer&after=cus_01kk9kgbjj000qfaggyf1b9p3e"}
	audit := views.AuditProps{Frame: fullFrame(), URL: "/desk/audit", List: views.AuditList{Older: "/desk/audit?after=01kk9kgbjj000qfaggyf1b9p3e", URL: "/desk/audit"}}
	for range rowsFull {
		resources.Resources = append(resources.Resources, views.ListedResource{ID: e.Resource, Name: "Orlandine Gorsebottle", URL: "/desk/resources/customer/" + e.Resource + "?account=acct_3vv2n7qk4m5h", Changed: golden})
		audit.List.Lines = append(audit.List.Lines, fullLine())
	}
	access := views.AccessProps{Frame: fullFrame(), URL: "/desk/access", NextBrowsers: "/desk/access?user=&client=&session_after=01kk9kgbjj000qfaggyf1b9p3e", Access: views.AccessList{Older: "/desk/access?user=&client=&after=01kk9kgbjj000qfaggyf1b9p3e&at=25"}}
	for i := range rowsFull / 2 {
		id := fmt.Sprintf("0tfwn4fbxshyyzr01ftsz2c%02d", i)
		client := "/desk/clients/tollhouse_dcovfc7q6xlerb4ubys4qbubpq"
		access.Access.Rows = append(access.Access.Rows, views.ListedAccess{
			ID: id, Client: "Larkspur Bookkeeping", ClientURL: client, Username: "harriet.voss", UserURL: "/desk/users/usr_247vzwmk3a9x9s0geg3qdk2ae8", Scopes: [][]string{{"events:read", "resources:read"}, allScopes}[i%2], Since: golden, Used: golden,
			Families: 1 + i%5/4, FamiliesURL: "/desk/access?client=tollhouse_dcovfc7q6xlerb4ubys4qbubpq&user=usr_247vzwmk3a9x9s0geg3qdk2ae8", RevokeURL: "/desk/families/" + id + "/revoke",
		})
		access.Browsers = append(access.Browsers, views.Browser{ID: id, Username: "harriet.voss", UserURL: "/desk/users/usr_247vzwmk3a9x9s0geg3qdk2ae8", Name: "Firefox on Linux", Here: i == 0, Since: golden, Seen: golden, Ends: golden, RevokeURL: "/desk/sessions/" + id + "/revoke"})
	}
	return map[string]templ.Component{
		"events": views.Events(events),
		"event": views.Event(views.EventProps{
			Frame: fullFrame(), Search: events.Search, AllURL: "/desk/events", List: events.List, Event: e, Members: []views.Detail{{Label: "owner", Value: "acct_3vv2n7qk4m5h"}, {Label: "source", Value: e.Source}, {Label: "location", Value: "api"}},
			Compared: true, Changes: []views.Change{{Member: "address.city", Before: "Dunmere", After: "Fennelmere"}, {Member: "email", Before: "orlandine@gorsebottle.example", After: "orlandine@inklenimble.example"}},
			Snapshot: fullSnapshot, MemberCount: 20, Curl: events.Curl, RawURL: e.URL + "/raw", Earlier: e.URL, Later: e.URL,
		}),
		"resources": views.Resources(resources),
		"access":    views.Access(access),
		"audit":     views.Audit(audit),
	}
}

var allScopes = []string{"events:read", "resources:read", "resources:write", "webhooks:read", "webhooks:write"}

// fullSnapshot has 20 members.
var fullSnapshot = func() (text string) {
	for i := range 20 {
		text += fmt.Sprintf("  \"member%d\": \"a value of usual length\",\n", i)
	}
	return text
}()

func fullEvents() views.EventsProps {
	p := views.EventsProps{Frame: fullFrame(), Curl: "curl 'https://pay.larkspurtea.example/api/events?type=transaction.*' -H \"Authorization: Bearer $TOKEN\""}
	p.Search = views.EventSearch{URL: "/desk/events", ClearURL: "/desk/events?account=acct_3vv2n7qk4m5h", JSONURL: "/desk/event-list?account=acct_3vv2n7qk4m5h&type=transaction.%2A", Kinds: []views.KindChoice{{URL: "/desk/events"}}}
	for _, kind := range []string{"transaction", "invoice", "customer", "account", "recurring", "batch", "deposit", "payout"} {
		p.Search.Kinds = append(p.Search.Kinds, views.KindChoice{Kind: kind, URL: "/desk/events?account=acct_3vv2n7qk4m5h&type=" + kind + ".%2A"})
		for _, verb := range []string{"created", "updated", "deleted", "settled"} {
			p.Search.Types = append(p.Search.Types, kind+"."+verb)
		}
	}
	for i := range 8 {
		p.Search.Accounts = append(p.Search.Accounts, views.Choice{Value: fmt.Sprint("acct_3vv2n7qk4m5", i), Label: "Larkspur Tea Room", Chosen: i == 0})
	}
	p.List = views.EventList{
		Older: "/desk/events?account=acct_3vv2n7qk4m5h&after=01kk9kgbjj000qfaggyf1b9p3e", Tail: "/desk/event-tail?account=acct_3vv2n7qk4m5h&after=01kk9kgbjj000qfaggyf1b9p3e",
		TailRow: "/desk/events/EVENT?account=acct_3vv2n7qk4m5h", TailResource: "/desk/events?account=acct_3vv2n7qk4m5h&resource=RESOURCE",
	}
	for i := range rowsFull {
		id := "evt_01kk9kgbjj000qfaggyf1b9p3e"
		row := views.ListedEvent{
			ID: id, Type: "transaction.updated", URL: "/desk/events/" + id, Resource: "txn_01kk9kgbjj000qfaggyf1b9p3e", ResourceURL: "/desk/events?resource=txn_01kk9kgbjj000qfaggyf1b9p3e",
			Source: "Larkspur Bookkeeping", At: views.Moment{At: goldenNow.Add(-time.Duration(i) * time.Minute), Now: goldenNow},
		}
		if i%2 == 0 { // others create
			row.Changed = []string{"status", "settledAt", "balance.amount"}
		}
		p.List.Events = append(p.List.Events, row)
	}
	return p
}

func fullLine() views.AuditLine {
	return views.AuditLine{
		ID: "01kk9kgbjj000qfaggyf1b9p3e", At: golden, What: "grant", Reason: "refresh_token", User: views.Named{ID: "usr_247vzwmk3a9x9s0geg3qdk2ae8", Name: "harriet.voss", URL: "/desk/users/usr_247vzwmk3a9x9s0geg3qdk2ae8"},
		Client: views.Named{ID: "tollhouse_1", Name: "Larkspur Bookkeeping", URL: "/desk/clients/tollhouse_dcovfc7q6xlerb4ubys4qbubpq"}, Source: "198.51.100.20", RequestID: "req_7gr3bbzrq4f6fw71pf33f178w0",
	}
}

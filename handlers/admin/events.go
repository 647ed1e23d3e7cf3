package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// listEvents is GET /admin/events?account=A.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.api.AdminAccount(r)
	if err != nil {
		return err
	}
	return s.api.WriteEvents(w, r, account, "/admin/events", pairs, api.AliveAlways)
}

var feedCalls = []platformCall{{
	method: "GET", path: strings.TrimPrefix(api.FeedPath, web.PlatformPath), handle: listFeed, scope: store.ScopeAccountsAct, also: store.ScopeEventsRead,
	id: "listFeed", does: "List the events of all accounts, in the order in which they were committed", query: []api.FormParam{
		{"after", "string", "A position of the feed, `start` or `latest`; it is required.", `"start"`},
		{"limit", "integer", "The size of a page.", `50`, `"minimum":1,"maximum":1000,"default":50`},
		{"wait", "integer", "Seconds to wait for an event, if there is none.", `20`, `"minimum":0,"maximum":60`},
		{"type", "[]string", "Only events of these types; wildcards as in /api/events.", `["customer.*"]`},
		{"resource", "[]string", "Only events of these resources.", `["cus_1"]`},
	}, sends: "Feed", headers: []string{"Tollhouse-Poll-After", "Tollhouse-Notice", "Link"}, refuses: []int{409, 410, 429}, streams: true,
}}

var feedForms = []api.Form{
	{Name: "Feed", Does: "A page of events of all accounts. Its cursors are positions of the feed, never ids of events.",
		Example: `{"object":"list","data":[` + feedEvent.Example + `],"hasMore":false,"nextCursor":"fd_01kt1ag000000","previousCursor":"fd_01kt1ag000000"}`,
		Members: []api.FormMember{
			{"object", "string!", "Always list.", `"enum":["list"],"x-enum-varnames":["FeedObject"]`},
			{"data", "[]FeedEvent!", "The events, oldest first."},
			{"hasMore", "boolean!", "Whether more follow."},
			{"nextCursor", "string!", "after, for the next page."},
			{"previousCursor", "string!", "The position of the first event."},
		}},
	feedEvent,
}

var feedEvent = api.Form{Name: "FeedEvent", Does: "An event, as /api/events has it.",
	Example: `{"id":"evt_01kt1ag0000001kx5qkgq9h1tm","owner":"acct_larkspur","resource":"cus_1","source":"Backend","location":"api","type":"customer.created","eventData":{"object":{"id":"cus_1","object":"customer"}},"createdAt":1780315200}`,
	Members: []api.FormMember{
		{"id", "string!", "Its position in the log of its account."},
		{"owner", "string!", "The account."},
		{"resource", "string!", "The resource that it is about."},
		{"source", "string!", "Who caused it."},
		{"location", "string!", "Where it was caused."},
		{"type", "string!", "Its type."},
		{"eventData", "object!", "The resource as it was then, and what had changed."},
		{"createdAt", "integer!", "When it happened, in Unix seconds."},
	}}

// listFeed is GET /events: of all accounts.
func listFeed(c *call) error { return c.s.api.WriteFeed(c.w, c.r, c.alive) }

// findEvent is GET /admin/events/:id?account=A.
func (s *Server) findEvent(w http.ResponseWriter, r *http.Request) error {
	id, err := NameIn(r)
	if err != nil {
		return err
	}
	account, pairs, err := s.api.AdminAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return web.UnknownParameter(pairs[0].Name, nil, []string{"account"})
	}
	err = s.api.WriteEvent(w, r, account)
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("event", id, fmt.Sprintf("tollhouse event list shows the latest events of account %s; --account selects another account", account)).Because(err)
	}
	return err
}

// recordEvent is POST /admin/events?account=A.
func (s *Server) recordEvent(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.api.NamedAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return web.UnknownParameter(pairs[0].Name, nil, []string{"account"})
	}
	body, err := web.ReadJSON(w, r, false, web.AsJSON)
	if err != nil {
		return err
	}
	e, err := eventlog.ParseNewEvent(body, account)
	if err != nil {
		return eventProblem(err)
	}
	wire, err := s.site.Store.RecordEvent(r.Context(), e)
	if err != nil {
		return eventProblem(err)
	}
	noteAdmin(r, "account_id", account)
	web.WriteBody(w, http.StatusCreated, "application/json", wire)
	return nil
}

func eventProblem(err error) error {
	var doc *snapshot.Error
	if errors.As(err, &doc) {
		return web.DocumentProblem(doc)
	}
	var bad *record.InvalidError
	if !errors.As(err, &bad) {
		return err
	}
	p := web.InvalidValue(bad)
	p.Code = "invalid_event"
	return p
}

package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/views"
)

// deskEventOf finds the event in the path.
func (v *visit) deskEventOf() (account string, e deskEvent, err error) {
	if account, err = v.accountAsked(); err != nil {
		return account, e, err
	}
	wire, err := v.store.FindEvent(v.ctx, account, pathParam(v.r, "id"), nil)
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrExpired) {
		return account, e, newProblem(http.StatusNotFound, "not_found", "There is no such event in this account.").because(err)
	}
	if err == nil {
		e, err = parseDeskEvent(wire)
	}
	return account, e, err
}

// deskRawEvent is GET /desk/events/:id/raw: the bytes of the event.
func (s *Server) deskRawEvent(v *visit) error {
	_, e, err := v.deskEventOf()
	if err != nil {
		return err
	}
	writeBody(v.w, http.StatusOK, asJSON, e.wire)
	return nil
}

// deskEvent is GET /desk/events/:id.
func (s *Server) deskEvent(v *visit) error {
	account, e, err := v.deskEventOf()
	if err != nil {
		return err
	}
	search, refused := v.parseEventSearch()
	if refused != nil {
		return refused
	}
	list, err := v.eventTable(search, e.ID)
	if err != nil {
		return err
	}
	detail, err := v.eventDetail(account, e)
	if err != nil {
		return err
	}
	p := v.page(v.r)
	v.show(http.StatusOK, views.DeskProps{Name: "event", Title: e.Type, Links: []views.Link{{Label: "All events", Href: search.address(deskEventsPath)}}},
		views.Beside([]templ.Component{views.List(p, list)}, []templ.Component{detail}))
	return nil
}

func (v *visit) eventDetail(account string, e deskEvent) (templ.Component, error) {
	document, err := snapshot.Parse(e.wire, snapshot.DepthMax+4)
	if err != nil {
		return nil, err
	}
	p := v.page(v.r)
	ofResource := deskEventsPath + "?account=" + escaped(account) + "&resource=" + escaped(e.Resource)
	facts := []views.DeskFact{
		{Label: "Resource", DeskCell: views.DeskCell{Text: e.Resource, Code: true, Href: ofResource}},
		{Label: "When", DeskCell: views.DeskCell{When: moment(time.Unix(e.CreatedAt, 0), v.now)}},
	}
	for _, m := range document.Members() {
		if !slices.Contains([]string{"resource", "createdAt", "eventData"}, m.Name) && m.Value.Kind() != snapshot.Object {
			facts = append(facts, views.DeskFact{Label: eventLabel(m.Name), DeskCell: views.DeskCell{Text: plainValue(m.Value), Code: m.Name == "id"}})
		}
	}
	parts := []templ.Component{views.Facts(p, "", facts)}
	data, _ := document.Member("eventData")
	object, hasObject := data.Member("object")
	previous, changed := data.Member("previousAttributes")
	if _, action, _ := strings.Cut(e.Type, "."); changed && action != "deleted" {
		parts = append(parts, views.Diff(changesOf("", previous, object)))
	}
	if hasObject {
		parts = append(parts, views.Folded("The whole snapshot, "+countOf(len(object.Members()), "member"), indented(object), false))
	}
	parts = append(parts, views.Curl(v.curl("/api/events/"+e.ID, nil)))
	links := []views.DeskLink{
		{Label: "Raw JSON", Href: deskEventsPath + "/" + e.ID + "/raw?account=" + escaped(account), Hook: "raw"},
		{Label: "All of " + e.Resource, Href: ofResource, Hook: "all"},
	}
	near, err := v.neighbours(account, e)
	if err != nil {
		return nil, err
	}
	return views.Panel(p, e.Type, parts, append(links, near...)), nil
}

// neighbours leads to the earlier and the later event of the resource.
func (v *visit) neighbours(account string, e deskEvent) (links []views.DeskLink, err error) {
	cursor, ok := eventlog.ParseCursor(e.ID)
	if !ok {
		return nil, nil
	}
	for _, near := range []struct {
		label, hook string
		ascending   bool
	}{{"Earlier", "earlier", false}, {"Later", "later", true}} {
		f := eventlog.Filter{Resources: []string{e.Resource}, To: eventlog.CreatedAtMax, After: cursor, Ascending: near.ascending, Limit: 1}
		found, _, err := v.listShown(account, f)
		var p *problem
		if errors.As(err, &p) && p.status == http.StatusGone {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 1 {
			links = append(links, views.DeskLink{Label: near.label, Hook: near.hook, Href: deskEventsPath + "/" + found[0].ID + "?account=" + escaped(account)})
		}
	}
	return links, nil
}

// eventLabel is a member's name for people.
func eventLabel(name string) string {
	switch name {
	case "id":
		return "Id"
	case "type":
		return "Type"
	case "source":
		return "Source"
	case "location":
		return "Location"
	case "owner", "account":
		return "Account"
	}
	return name
}

func plainValue(value snapshot.Value) string {
	if value.Kind() == snapshot.String {
		return value.Text()
	}
	return value.String()
}

func indented(value snapshot.Value) string {
	text, err := json.MarshalIndent(json.RawMessage(value.String()), "", "  ")
	if err != nil {
		return value.String()
	}
	return string(text)
}

// changesOf compares a snapshot with the values before. null means that the member is
// new (RFC 7396); an object holds the changes within it.
func changesOf(path string, previous, now snapshot.Value) (changes []views.DeskChange) {
	for _, m := range previous.Members() {
		name := path + m.Name
		after, exists := now.Member(m.Name)
		if m.Value.Kind() == snapshot.Object && exists && after.Kind() == snapshot.Object {
			changes = append(changes, changesOf(name+".", m.Value, after)...)
			continue
		}
		c := views.DeskChange{Member: name, New: m.Value.Kind() == snapshot.Null, Gone: !exists}
		if !c.New {
			c.Before = plainValue(m.Value)
		}
		if exists {
			c.After = plainValue(after)
		}
		changes = append(changes, c)
	}
	return changes
}

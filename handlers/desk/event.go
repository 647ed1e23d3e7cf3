package desk

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
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
	wire, err := v.s.site.Store.Events.FindEvent(v.ctx, account, web.PathParam(v.r, "id"), nil)
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrExpired) {
		return account, e, web.NewProblem(http.StatusNotFound, "not_found", "There is no such event in this account.").Because(err)
	}
	if err == nil {
		e, err = parseDeskEvent(wire)
	}
	return account, e, err
}

// rawEvent is GET /desk/events/:id/raw: the bytes of the event.
func (s *Server) rawEvent(v *visit) error {
	_, e, err := v.deskEventOf()
	if err != nil {
		return err
	}
	web.WriteBody(v.w, http.StatusOK, web.AsJSON, e.wire)
	return nil
}

// event is GET /desk/events/:id.
func (s *Server) event(v *visit) error {
	account, e, err := v.deskEventOf()
	if err != nil {
		return err
	}
	search, refused, err := v.parsePageSearch()
	if err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	p := views.EventProps{AllURL: search.address(deskEventsPath)}
	if p.Search, err = v.searchForm(search); err != nil {
		return err
	}
	if p.List, err = v.eventList(search, e.ID); err != nil {
		return err
	}
	if err := v.addDetail(&p, account, search, e); err != nil {
		return err
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Event(p))
	return nil
}

// addDetail adds what the page shows of the event itself.
func (v *visit) addDetail(p *views.EventProps, account string, search eventSearch, e deskEvent) error {
	document, err := snapshot.Parse(e.wire, snapshot.DepthMax+4)
	if err != nil {
		return err
	}
	p.Event = views.ListedEvent{
		ID: e.ID, Type: e.Type, Resource: e.Resource, ResourceURL: deskEventsPath + "?account=" + api.Escaped(account) + "&resource=" + api.Escaped(e.Resource),
		At: web.Moment(time.Unix(e.CreatedAt, 0), v.now),
	}
	for _, m := range document.Members() {
		if !slices.Contains([]string{"id", "type", "resource", "createdAt", "eventData"}, m.Name) && m.Value.Kind() != snapshot.Object {
			p.Members = append(p.Members, views.Detail{Label: m.Name, Value: plainValue(m.Value)})
		}
	}
	data, _ := document.Member("eventData")
	object, hasObject := data.Member("object")
	_, p.Compared = data.Member("previousAttributes")
	p.Compared = p.Compared && !isDeletion(e.Type)
	p.Changes = changesIn(document, e.Type)
	if hasObject {
		p.Snapshot, p.MemberCount = indented(object), len(object.Members())
	}
	p.Curl, p.RawURL = v.curl("/api/events/"+e.ID, nil), deskEventsPath+"/"+e.ID+"/raw?account="+api.Escaped(account)
	if p.Earlier, err = v.neighbour(account, search, e, false); err == nil {
		p.Later, err = v.neighbour(account, search, e, true)
	}
	return err
}

// neighbour returns the address of the event of the resource before or after e, beside the
// same list, or "".
func (v *visit) neighbour(account string, search eventSearch, e deskEvent, later bool) (string, error) {
	cursor, ok := eventlog.ParseCursor(e.ID)
	if !ok {
		return "", nil
	}
	f := eventlog.Filter{Resources: []string{e.Resource}, To: eventlog.CreatedAtMax, After: cursor, Ascending: later, Limit: 1}
	found, _, err := v.listShown(account, f)
	var p *web.Problem
	if errors.As(err, &p) && p.Status == http.StatusGone || err == nil && len(found) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return search.address(deskEventsPath + "/" + found[0].ID), nil
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

func isDeletion(eventType string) bool { return strings.HasSuffix(eventType, ".deleted") }

// changesIn returns what an event says that it changed. A deletion changed nothing.
func changesIn(event snapshot.Value, eventType string) []views.Change {
	if isDeletion(eventType) {
		return nil
	}
	data, _ := event.Member("eventData")
	object, _ := data.Member("object")
	previous, _ := data.Member("previousAttributes")
	return changesOf("", previous, object)
}

// changesOf compares a snapshot with the values before. null means that the member is
// new (RFC 7396); an object holds the changes within it.
func changesOf(path string, previous, now snapshot.Value) (changes []views.Change) {
	for _, m := range previous.Members() {
		name := path + m.Name
		after, exists := now.Member(m.Name)
		if m.Value.Kind() == snapshot.Object && exists && after.Kind() == snapshot.Object {
			changes = append(changes, changesOf(name+".", m.Value, after)...)
			continue
		}
		c := views.Change{Member: name, New: m.Value.Kind() == snapshot.Null, Gone: !exists}
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

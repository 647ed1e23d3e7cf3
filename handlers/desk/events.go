package desk

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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

// The explorer of events takes the query of GET /api/events and shows the same rows. It
// adds account, from and to.

const (
	deskEventsPath = "/desk/events"
	accountsShown  = 500 // in the selection
	typesSuggested = 60
	kindsShown     = 8
	resourceEvents = 20
)

// deskEvent is an event as the pages show it.
type deskEvent struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	Resource    string `json:"resource"`
	Source      string `json:"source"`
	Location    string `json:"location"`
	CreatedAt   int64  `json:"createdAt"`
	RequestID   string `json:"requestId"`
	Description string `json:"description"`
	wire        []byte
}

func parseDeskEvent(wire []byte) (e deskEvent, err error) {
	err = json.Unmarshal(wire, &e)
	e.wire = wire
	return e, err
}

// changed returns the paths of what the event changed; none for one that creates or deletes.
func (e deskEvent) changed() (members []string, err error) {
	document, err := snapshot.Parse(e.wire, snapshot.DepthMax+4)
	if err != nil {
		return nil, err
	}
	for _, c := range changesIn(document, e.Type) {
		members = append(members, c.Member)
	}
	return members, nil
}

// listShown reads a page of events.
func (v *visit) listShown(account string, f eventlog.Filter) (events []deskEvent, page eventlog.Page, err error) {
	d := &web.FactsFrom(v.ctx).Lease
	f.Fits = d.Fits
	var broken error
	f.Row = func(dst []byte, _ record.Position, wire []byte) []byte {
		e, err := parseDeskEvent(slices.Clone(wire))
		if err != nil {
			broken = err
		}
		events = append(events, e)
		return append(dst, wire...)
	}
	v.s.site.Store.Events.Settle(v.ctx, f.To)
	page, err = v.s.site.Store.Events.SearchEvents(v.ctx, account, f, v.s.api.SearchFor, nil)
	if err != nil {
		return nil, page, api.EventListProblem(err)
	}
	if broken != nil {
		return nil, page, broken
	}
	if !f.Before.IsZero() { // rows come from the position outwards
		slices.Reverse(events)
	}
	return events, page, d.Settle(v.ctx, len(page.Data))
}

// events is GET /desk/events.
func (s *Server) events(v *visit) error {
	if handled, err := v.cleanSearch(); handled || err != nil {
		return err
	}
	e, refused, err := v.parsePageSearch()
	if err != nil {
		return err
	}
	if refused != nil {
		return v.refuseSearch(e, refused)
	}
	if err := v.knownAccount(e.account); err != nil {
		return err
	}
	if id := e.value("resource"); strings.HasPrefix(id, "evt_") && v.isEvent(e.account, id) {
		v.s.site.RedirectHere(v.w, deskEventsPath+"/"+id+"?account="+api.Escaped(e.account))
		return nil
	}
	list, err := v.eventList(e, "")
	if err != nil {
		var p *web.Problem
		if errors.As(err, &p) && p.Status == http.StatusBadRequest {
			return v.refuseSearch(e, p)
		}
		return err
	}
	return v.showEvents(http.StatusOK, e, "", list)
}

// cleanSearch leads from the address that the form made to one without empty
// parameters, which the API does not take.
func (v *visit) cleanSearch() (handled bool, err error) {
	pairs, refused := web.ParseAPIQuery(v.r.URL.RawQuery)
	if refused != nil || !slices.Contains(pairs, web.QueryPair{Name: "form", Value: "1"}) {
		return false, nil
	}
	var kept []string
	account := v.session.User.Account
	for _, p := range pairs {
		p.Value = strings.TrimSpace(p.Value)
		switch p.Name {
		case "account":
			account = p.Value
		case "type":
			p.Value = strings.Join(strings.FieldsFunc(p.Value, func(c rune) bool { return c == ',' || c == ' ' }), ",")
		case "resource":
			if p.Value != "" && v.isEvent(account, p.Value) {
				v.s.site.RedirectHere(v.w, deskEventsPath+"/"+url.PathEscape(p.Value)+"?account="+api.Escaped(account))
				return true, nil
			}
			if p.Name, p.Value, err = v.whatIsMeant(account, p.Value); err != nil {
				return false, err
			}
		}
		if p.Name != "form" && p.Value != "" && !(p.Name == "order" && p.Value == "desc") {
			kept = append(kept, api.Escaped(p.Name)+"="+api.Escaped(p.Value))
		}
	}
	to := deskEventsPath
	if len(kept) > 0 {
		to += "?" + strings.Join(kept, "&")
	}
	v.s.site.RedirectHere(v.w, to)
	return true, nil
}

func (v *visit) isEvent(account, id string) bool {
	if v.knownAccount(account) != nil {
		return false
	}
	_, err := v.s.site.Store.Events.FindEvent(v.ctx, account, id, nil)
	return err == nil
}

// accountAsked is the account of an address that names one record; the operator's own if
// it names none.
func (v *visit) accountAsked() (string, error) {
	account := cmp.Or(v.r.URL.Query().Get("account"), v.session.User.Account)
	return account, v.knownAccount(account)
}

// knownAccount refuses an account that does not exist.
func (v *visit) knownAccount(account string) error {
	err := record.CheckAccountID(account)
	if err == nil {
		_, err = v.s.site.Store.FindAccount(v.ctx, account)
	}
	if isInvalid(err) || errors.Is(err, record.ErrNotFound) {
		return web.NewProblem(http.StatusNotFound, "not_found", "There is no such account.").Because(err)
	}
	return err
}

// refuseSearch shows the form as it was typed, and the API's own sentence.
func (v *visit) refuseSearch(e eventSearch, refused *web.Problem) error {
	web.NoteProblem(v.ctx, refused)
	if v.knownAccount(e.account) != nil {
		e.account = v.session.User.Account
	}
	return v.showEvents(refused.Status, e, refused.Description, views.EventList{})
}

func (v *visit) showEvents(status int, e eventSearch, refused string, list views.EventList) error {
	search, err := v.searchForm(e)
	if err != nil {
		return err
	}
	p := views.EventsProps{Search: search, Refused: refused, List: list, Customers: e.shownCustomers()}
	if !e.customer.findsNobody() {
		p.Curl = v.curl("/api/events", e.pairs)
	}
	p.Frame = v.frame()
	v.draw(status, views.Events(p))
	return nil
}

func (v *visit) searchForm(e eventSearch) (form views.EventSearch, err error) {
	form = views.EventSearch{
		URL: deskEventsPath, ClearURL: deskEventsPath + "?account=" + api.Escaped(e.account),
		Type: e.value("type"), Resource: cmp.Or(e.customer.text, e.value("resource")), From: shownTime(e.from), To: shownTime(e.to), Ascending: e.single("order") == "asc",
	}
	if !e.customer.findsNobody() {
		form.JSONURL = e.rawAddress()
	}
	if form.Accounts, err = v.accountChoices(e.account); err != nil {
		return form, err
	}
	types, _, err := v.s.site.Store.Events.ListEventTypes(v.ctx, e.account)
	if err != nil {
		return form, err
	}
	for _, t := range types {
		if t.Count > 0 && len(form.Types) < typesSuggested {
			form.Types = append(form.Types, t.Name)
		}
	}
	form.Kinds = e.kinds(kindsOf(types))
	for _, pair := range e.asked { // further filters stay
		if pair.Name == "limit" || strings.HasPrefix(pair.Name, "createdAt") {
			form.Further = append(form.Further, views.Detail{Label: pair.Name, Value: pair.Value})
		}
	}
	return form, nil
}

// kinds leads to the events of each kind, first to those of all. The named ones, which have a
// colour of their own, come before others.
func (e eventSearch) kinds(recorded []string) []views.KindChoice {
	chosen := e.value("type")
	e.asked = slices.DeleteFunc(slices.Clone(e.asked), func(p web.QueryPair) bool { return api.IsListParam("type", p.Name) })
	list := []views.KindChoice{{URL: e.address(deskEventsPath), Current: chosen == ""}}
	slices.SortStableFunc(recorded, func(a, b string) int { return cmp.Compare(views.EventColour(a), views.EventColour(b)) })
	for _, kind := range recorded[:min(len(recorded), kindsShown)] {
		list = append(list, views.KindChoice{Kind: kind, URL: e.address(deskEventsPath, "type", kind+".*"), Current: chosen == kind+".*"})
	}
	return list
}

// accountChoices are the accounts to choose from, the operator's own first.
func (v *visit) accountChoices(chosen string) (options []views.Choice, err error) {
	accounts, err := v.s.site.Store.ListAccounts(v.ctx, "", accountsShown)
	if err != nil {
		return nil, err
	}
	own := v.session.User.Account
	found := false
	for _, a := range accounts {
		label := a.ID
		if a.Name != "" {
			label = a.Name
		}
		o := views.Choice{Value: a.ID, Label: label, Chosen: a.ID == chosen}
		found = found || o.Chosen
		if a.ID == own {
			options = append([]views.Choice{o}, options...)
			continue
		}
		options = append(options, o)
	}
	if !found {
		options = append(options, views.Choice{Value: chosen, Label: chosen, Chosen: true})
	}
	return options, nil
}

// eventList reads a page of the search.
func (v *visit) eventList(e eventSearch, current string) (list views.EventList, err error) {
	list.ClearURL = deskEventsPath + "?account=" + api.Escaped(e.account)
	if e.customer.findsNobody() {
		return list, nil
	}
	events, page, err := v.listShown(e.account, e.query.Filter)
	if err != nil {
		return list, err
	}
	if len(events) == 0 {
		err = v.addNone(&list, e, page)
	}
	for _, ev := range events {
		row, err := v.listedEvent(e, ev)
		if err != nil {
			return list, err
		}
		row.Current = ev.ID == current
		list.Events = append(list.Events, row)
	}
	backwards := !e.query.Before.IsZero()
	if page.More || backwards && page.Count > 0 {
		list.Older = e.address(deskEventsPath, "after", page.Next.String())
	}
	list.Ascending = e.query.Ascending
	if !list.Ascending && e.query.CursorSent && page.Count > 0 && !(backwards && !page.More) {
		list.Newer = e.address(deskEventsPath, "before", page.Previous.String())
	}
	if !e.query.CursorSent && !list.Ascending {
		list.Tail = strings.Replace(e.rawAddress(), "event-list", "event-tail", 1) + "&after=" + headOf(page)
		list.TailRow, list.TailResource = e.address(deskEventsPath+"/EVENT"), e.ofResource("RESOURCE").address(deskEventsPath)
	}
	return list, err
}

// addNone says what the account has, if the search found nothing in it.
func (v *visit) addNone(list *views.EventList, e eventSearch, page eventlog.Page) error {
	for _, u := range page.Unseen {
		list.Unseen = append(list.Unseen, views.UnseenType{Type: u.Type, Nearest: u.Nearest})
	}
	newest, _, err := v.listShown(e.account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1})
	for _, ev := range newest {
		list.Newest = web.Moment(time.Unix(ev.CreatedAt, 0), v.now)
	}
	return err
}

// ofResource is the search for all events of a resource.
func (e eventSearch) ofResource(id string) eventSearch {
	e.customer, e.asked = customerSearch{}, []web.QueryPair{{Name: "resource", Value: id}}
	return e
}

func (v *visit) listedEvent(e eventSearch, ev deskEvent) (views.ListedEvent, error) {
	changed, err := ev.changed()
	return views.ListedEvent{
		ID: ev.ID, Changed: changed, Type: ev.Type, Source: ev.Source, URL: e.address(deskEventsPath + "/" + ev.ID),
		Resource: ev.Resource, ResourceURL: e.ofResource(ev.Resource).address(deskEventsPath), At: web.Moment(time.Unix(ev.CreatedAt, 0), v.now),
	}, err
}

// curl is a request of the API to paste.
func (v *visit) curl(path string, pairs []web.QueryPair) string {
	address := v.s.site.IssuerOf(v.r) + path
	var query []string
	for _, p := range pairs {
		query = append(query, api.Escaped(p.Name)+"="+api.Escaped(p.Value))
	}
	if len(query) > 0 {
		address += "?" + strings.Join(query, "&")
	}
	return "curl '" + address + "' -H \"Authorization: Bearer $TOKEN\""
}

// eventList is GET /desk/event-list: the API's answer for the operator's session.
func (s *Server) eventList(v *visit) error {
	e, refused := v.parseEventSearch()
	if refused != nil {
		web.WriteProblem(v.w, refused)
		return nil
	}
	if err := v.knownAccount(e.account); err != nil {
		return err
	}
	v.r.Header.Set("Accept", web.AsJSON)
	err := s.api.WriteEvents(v.w, v.r, e.account, s.site.Base()+"/api/events", e.pairs, v.alive)
	var p *web.Problem
	if errors.As(err, &p) {
		web.WriteProblem(v.w, p)
		return nil
	}
	return err
}

// alive checks that the operator may still read.
func (v *visit) alive() error {
	if v.s.operatorOf(v.r) == nil {
		return errLeft
	}
	return nil
}

var errLeft = web.NewProblem(http.StatusForbidden, "forbidden", "The sign-in has ended.") // no 401: no scheme could be named

// headOf is the position after which a live tail continues a page.
func headOf(page eventlog.Page) string {
	if page.Version.Head.IsZero() {
		return "latest"
	}
	return page.Version.Head.String()
}

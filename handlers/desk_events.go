package handlers

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/views"
)

// The explorer of events takes the query of GET /api/events and shows the same rows. It
// adds account, from and to.

const (
	deskEventsPath  = "/desk/events"
	accountsShown   = 500 // in the selection
	typesSuggested  = 300
	resourceEvents  = 20
	deskPeopleTimes = "give a day such as 2026-03-09, a time such as 2026-03-09 14:30 or 2026-03-09T14:30:00+01:00, an age such as 2h, or Unix seconds"
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

// listShown reads a page of events.
func (v *visit) listShown(account string, f eventlog.Filter) (events []deskEvent, page eventlog.Page, err error) {
	d := &factsFrom(v.ctx).demand
	f.Fits = d.fits
	var broken error
	f.Row = func(dst []byte, _ record.Position, wire []byte) []byte {
		e, err := parseDeskEvent(slices.Clone(wire))
		if err != nil {
			broken = err
		}
		events = append(events, e)
		return append(dst, wire...)
	}
	page, err = v.store.ListEvents(v.ctx, account, f, nil)
	if err != nil {
		return nil, page, eventListProblem(err)
	}
	if broken != nil {
		return nil, page, broken
	}
	if !f.Before.IsZero() { // rows come from the position outwards
		slices.Reverse(events)
	}
	return events, page, d.settle(v.ctx, len(page.Data))
}

// deskEvents is GET /desk/events.
func (s *Server) deskEvents(v *visit) error {
	if handled := v.cleanSearch(); handled {
		return nil
	}
	e, refused := v.parseEventSearch()
	if refused != nil {
		return v.refuseSearch(e, refused)
	}
	if err := v.knownAccount(e.account); err != nil {
		return err
	}
	if id := e.value("resource"); strings.HasPrefix(id, "evt_") && v.isEvent(e.account, id) {
		v.redirectHere(v.w, deskEventsPath+"/"+id+"?account="+escaped(e.account))
		return nil
	}
	list, err := v.eventTable(e, "")
	if err != nil {
		var p *problem
		if errors.As(err, &p) && p.status == http.StatusBadRequest {
			return v.refuseSearch(e, p)
		}
		return err
	}
	return v.showEvents(http.StatusOK, e, "", list)
}

// cleanSearch leads from the address that the form made to one without empty
// parameters, which the API does not take.
func (v *visit) cleanSearch() bool {
	pairs, refused := parseAPIQuery(v.r.URL.RawQuery)
	if refused != nil || !slices.Contains(pairs, queryPair{"form", "1"}) {
		return false
	}
	var kept []string
	account := v.session.User.Account
	for _, p := range pairs {
		p.value = strings.TrimSpace(p.value)
		if p.name == "type" || p.name == "resource" {
			p.value = strings.Join(strings.FieldsFunc(p.value, func(c rune) bool { return c == ',' || c == ' ' }), ",")
		}
		if p.name == "account" {
			account = p.value
		}
		if p.name != "form" && p.value != "" && !(p.name == "order" && p.value == "desc") {
			kept = append(kept, escaped(p.name)+"="+escaped(p.value))
		}
		if p.name == "resource" && p.value != "" && v.isEvent(account, p.value) {
			v.redirectHere(v.w, deskEventsPath+"/"+url.PathEscape(p.value)+"?account="+escaped(account))
			return true
		}
	}
	to := deskEventsPath
	if len(kept) > 0 {
		to += "?" + strings.Join(kept, "&")
	}
	v.redirectHere(v.w, to)
	return true
}

func (v *visit) isEvent(account, id string) bool {
	if v.knownAccount(account) != nil {
		return false
	}
	_, err := v.store.FindEvent(v.ctx, account, id, nil)
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
		_, err = v.store.FindAccount(v.ctx, account)
	}
	if isInvalid(err) || errors.Is(err, record.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "There is no such account.").because(err)
	}
	return err
}

// refuseSearch shows the form as it was typed, and the API's own sentence.
func (v *visit) refuseSearch(e eventSearch, refused *problem) error {
	noteProblem(v.ctx, refused)
	if v.knownAccount(e.account) != nil {
		e.account = v.session.User.Account
	}
	return v.showEvents(refused.status, e, refused.description, views.DeskTable{})
}

func (v *visit) showEvents(status int, e eventSearch, alert string, list views.DeskTable) error {
	form, err := v.searchForm(e)
	if err != nil {
		return err
	}
	name, err := v.accountName(v.ctx, e.account)
	if err != nil {
		return err
	}
	p := v.page(v.r)
	parts := []templ.Component{views.Form(p, form)}
	if alert == "" {
		parts = append(parts, views.Folded("curl", v.curl("/api/events", e.pairs), true), views.List(p, list))
	}
	v.show(status, views.DeskProps{Name: "events", Title: "Events", Lead: "of " + name, Alert: alert}, parts...)
	return nil
}

func (v *visit) searchForm(e eventSearch) (form views.DeskForm, err error) {
	accounts, err := v.accountOptions(e.account)
	if err != nil {
		return form, err
	}
	types, _, err := v.store.ListEventTypes(v.ctx, e.account)
	if err != nil {
		return form, err
	}
	var names []string
	for _, t := range types {
		if t.Count > 0 && len(names) < typesSuggested {
			names = append(names, t.Name)
		}
	}
	form = views.DeskForm{Action: deskEventsPath, Button: "Show events", Clear: deskEventsPath + "?account=" + escaped(e.account), Fields: []views.DeskField{
		{As: "hidden", Name: "form", Value: "1"},
		{As: "select", Name: "account", Label: "Account", Options: accounts},
		{Name: "type", Label: "Type", Value: e.value("type"), Suggestions: names},
		{Name: "resource", Label: "Resource", Value: e.value("resource")},
		{Name: "from", Label: "From", Value: e.from},
		{Name: "to", Label: "To", Value: e.to},
		{As: "select", Name: "order", Label: "Order", Options: []views.DeskOption{
			{Value: "desc", Label: "Newest first"}, {Value: "asc", Label: "Oldest first", Chosen: e.single("order") == "asc"},
		}},
	}}
	for _, pair := range e.asked { // further filters stay
		if pair.name == "limit" || strings.HasPrefix(pair.name, "createdAt") {
			form.Fields = append(form.Fields, views.DeskField{As: "hidden", Name: pair.name, Value: pair.value})
		}
	}
	form.Links = []views.Link{{Label: "JSON", Href: e.rawAddress()}}
	return form, nil
}

// accountOptions are the accounts to choose from, the operator's own first.
func (v *visit) accountOptions(chosen string) (options []views.DeskOption, err error) {
	accounts, err := v.store.ListAccounts(v.ctx, "", accountsShown)
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
		o := views.DeskOption{Value: a.ID, Label: label, Chosen: a.ID == chosen}
		found = found || o.Chosen
		if a.ID == own {
			options = append([]views.DeskOption{o}, options...)
			continue
		}
		options = append(options, o)
	}
	if !found {
		options = append(options, views.DeskOption{Value: chosen, Label: chosen, Chosen: true})
	}
	return options, nil
}

// eventTable draws a page of the search.
func (v *visit) eventTable(e eventSearch, current string) (views.DeskTable, error) {
	t := views.DeskTable{List: "events", Label: "Events", Columns: []string{"Event", "Resource", "Source", "When"},
		Empty: "No events yet. A change to a resource or an import makes some."}
	events, page, err := v.listShown(e.account, e.query.Filter)
	if err != nil {
		return t, err
	}
	for _, ev := range events {
		row := v.eventRow(e, ev)
		row.Current = ev.ID == current
		t.Rows = append(t.Rows, row)
	}
	if len(e.pairs) > 0 {
		t.Empty, t.Clear = "Nothing matches.", deskEventsPath+"?account="+escaped(e.account)
	}
	backwards := !e.query.Before.IsZero()
	older, newer := "", ""
	if page.More || backwards && page.Count > 0 {
		older = e.address(deskEventsPath, "after", page.Next.String())
	}
	if e.query.cursorSent && page.Count > 0 && !(backwards && !page.More) {
		newer = e.address(deskEventsPath, "before", page.Previous.String())
	}
	t.Newer, t.Older = newer, older
	if e.query.Ascending {
		t.Next = "Newer"
		t.Newer = ""
	}
	if !e.query.cursorSent && !e.query.Ascending {
		t.Tail = strings.Replace(e.rawAddress(), "event-list", "event-tail", 1) + "&after=" + headOf(page)
		t.TailRow = e.address(deskEventsPath + "/EVENT")
	}
	if current != "" {
		t.Tail, t.Columns = "", []string{"Event", "Resource", "When"}
		for i, row := range t.Rows {
			t.Rows[i].Cells = []views.DeskCell{row.Cells[0], row.Cells[1], row.Cells[3]}
		}
	}
	return t, nil
}

func (v *visit) eventRow(e eventSearch, ev deskEvent) views.DeskRow {
	narrowed := e
	narrowed.asked = []queryPair{{"resource", ev.Resource}}
	return views.DeskRow{Hook: "event", ID: ev.ID, Cells: []views.DeskCell{
		{Text: ev.Type, Kind: kindColour(ev.Type), Href: e.address(deskEventsPath + "/" + ev.ID)},
		{Text: ev.Resource, Code: true, Href: narrowed.address(deskEventsPath)},
		{Text: ev.Source},
		{When: moment(time.Unix(ev.CreatedAt, 0), v.now)},
	}}
}

// kindColour gives each kind of resource one of the colours.
func kindColour(typ string) int {
	kind, _, _ := strings.Cut(typ, ".")
	switch kind {
	case "transaction":
		return 1
	case "invoice":
		return 2
	case "customer":
		return 3
	case "account":
		return 4
	case "recurring":
		return 5
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(kind))
	return int(h.Sum32()%6) + 1
}

// curl is a request of the API to paste.
func (v *visit) curl(path string, pairs []queryPair) string {
	address := v.issuerOf(v.r) + path
	var query []string
	for _, p := range pairs {
		query = append(query, escaped(p.name)+"="+escaped(p.value))
	}
	if len(query) > 0 {
		address += "?" + strings.Join(query, "&")
	}
	return "curl '" + address + "' -H \"Authorization: Bearer $TOKEN\""
}

// deskEventList is GET /desk/event-list: the API's answer for the operator's session.
func (s *Server) deskEventList(v *visit) error {
	e, refused := v.parseEventSearch()
	if refused != nil {
		writeProblem(v.w, refused)
		return nil
	}
	if err := v.knownAccount(e.account); err != nil {
		return err
	}
	v.r.Header.Set("Accept", asJSON)
	err := s.writeEvents(v.w, v.r, e.account, s.base+"/api/events", e.pairs, v.alive)
	var p *problem
	if errors.As(err, &p) {
		writeProblem(v.w, p)
		return nil
	}
	return err
}

// alive checks that the operator may still read.
func (v *visit) alive() error {
	if v.operatorOf(v.r) == nil {
		return errLeft
	}
	return nil
}

var errLeft = newProblem(http.StatusUnauthorized, "unauthorized", "The sign-in has ended.")

func countOf(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}

// headOf is the position after which a live tail continues a page.
func headOf(page eventlog.Page) string {
	if page.Version.Head.IsZero() {
		return "latest"
	}
	return page.Version.Head.String()
}

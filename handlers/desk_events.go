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
	"tollhouse/store/snapshot"
	"tollhouse/views"
)

// The explorer of events takes the query of GET /api/events and shows the same rows. It
// adds account, from and to.

const (
	deskEventsPath  = "/desk/events"
	accountsShown   = 500 // in the selection
	typesSuggested  = 300
	resourceEvents  = 20
	deskPeopleTimes = "give a day such as 2026-03-09, a time such as 2026-03-09 14:30, an age such as 2h, or Unix seconds"
)

// eventSearch is the query of the explorer.
type eventSearch struct {
	account  string
	own      string      // the operator's account, which addresses need not name
	from, to string      // as typed
	asked    []queryPair // as the API takes them, without from and to
	pairs    []queryPair // as the API takes them
	query    eventQuery
}

// parseEventSearch reads the query of the explorer.
func (v *visit) parseEventSearch() (e eventSearch, refused *problem) {
	pairs, refused := parseAPIQuery(v.r.URL.RawQuery)
	if refused != nil {
		return e, refused
	}
	account, given, pairs, refused := takePair(pairs, "account")
	if refused != nil {
		return e, refused
	}
	e.own = v.session.User.Account
	if e.account = account; !given {
		e.account = e.own
	}
	var hasFrom, hasTo bool
	if e.from, hasFrom, pairs, refused = takePair(pairs, "from"); refused != nil {
		return e, refused
	}
	if e.to, hasTo, pairs, refused = takePair(pairs, "to"); refused != nil {
		return e, refused
	}
	e.asked, e.pairs = pairs, slices.Clone(pairs)
	if hasFrom || hasTo {
		for _, pair := range pairs {
			if strings.HasPrefix(pair.name, "createdAt") {
				return e, newProblem(http.StatusBadRequest, "conflicting_parameters", "from and to cannot be combined with %s.", shownName(pair.name)).on("from")
			}
		}
	}
	now := v.now
	if hasFrom {
		from, _, ok := peopleTime(e.from, now)
		if !ok {
			return e, invalidParameter("from", "is not a time: %s.", deskPeopleTimes)
		}
		e.pairs = append(e.pairs, queryPair{"createdAt[gte]", strconv.FormatInt(from.Unix(), 10)})
	}
	if hasTo {
		_, to, ok := peopleTime(e.to, now)
		if !ok {
			return e, invalidParameter("to", "is not a time: %s.", deskPeopleTimes)
		}
		e.pairs = append(e.pairs, queryPair{"createdAt[lte]", strconv.FormatInt(to.Unix(), 10)})
	}
	e.query, refused = parseEventQuery(e.pairs)
	return e, refused
}

// peopleTime reads a time as people write it and returns the first and the last second
// that it means.
func peopleTime(text string, now time.Time) (first, last time.Time, ok bool) {
	text = strings.TrimSpace(text)
	for _, form := range []struct {
		layout string
		length time.Duration
	}{
		{time.DateOnly, day}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04", time.Minute},
		{"2006-01-02 15:04:05", time.Second}, {"2006-01-02T15:04:05", time.Second}, {time.RFC3339, time.Second},
	} {
		if at, err := time.Parse(form.layout, text); err == nil && at.Unix() >= 0 {
			return at, at.Add(form.length - time.Second), true
		}
	}
	if isDigits(text) && len(text) <= timestampDigitsMax {
		seconds, _ := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0), time.Unix(seconds, 0), true
	}
	age, ok := parseAge(text)
	if at := now.Add(-age); ok && at.Unix() >= 0 {
		return at, at, true
	}
	return first, last, false
}

// parseAge reads an age such as 2h, 90m or 7d.
func parseAge(text string) (time.Duration, bool) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays && isDigits(days) && len(days) <= 5 {
		n, _ := strconv.Atoi(days)
		return time.Duration(n) * day, true
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= 0
}

// address is the explorer's, with the search and a further parameter.
func (e eventSearch) address(path string, more ...string) string {
	var pairs []string
	if e.account != e.own {
		pairs = append(pairs, "account="+escaped(e.account))
	}
	for _, p := range e.asked {
		if p.name != "after" && p.name != "before" {
			pairs = append(pairs, escaped(p.name)+"="+escaped(p.value))
		}
	}
	for _, p := range []queryPair{{"from", e.from}, {"to", e.to}} {
		if p.value != "" {
			pairs = append(pairs, p.name+"="+escaped(p.value))
		}
	}
	for i := 0; i < len(more); i += 2 {
		pairs = append(pairs, more[i]+"="+escaped(more[i+1]))
	}
	if len(pairs) == 0 {
		return path
	}
	return path + "?" + strings.Join(pairs, "&")
}

func (e eventSearch) value(list string) string {
	var values []string
	for _, p := range e.asked {
		if isListParam(list, p.name) {
			values = append(values, p.value)
		}
	}
	return strings.Join(values, ",")
}

func (e eventSearch) single(name string) string {
	for _, p := range e.asked {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

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
	f.SizeMax = d.pageSize()
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

// rawAddress is that of the same page as the API sends it.
func (e eventSearch) rawAddress() string {
	pairs := []string{"account=" + escaped(e.account)}
	for _, p := range e.pairs {
		pairs = append(pairs, escaped(p.name)+"="+escaped(p.value))
	}
	return "/desk/event-list?" + strings.Join(pairs, "&")
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

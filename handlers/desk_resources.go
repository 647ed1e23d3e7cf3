package handlers

import (
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

const resourcesPath = "/desk/resources"

// displayMembers are the members that name a resource for people, the first one first.
var displayMembers = []string{"displayName", "name", "title", "businessName", "email"}

// deskResources is GET /desk/resources.
func (s *Server) deskResources(v *visit) error {
	p, refused := parseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.refuseRepeated("account", "kind", "resource", "after")
	}
	if refused != nil {
		return refused
	}
	account, kind, id := p.value("account"), strings.TrimSpace(p.value("kind")), strings.TrimSpace(p.value("resource"))
	if account == "" {
		account = v.session.User.Account
	}
	if err := v.knownAccount(account); err != nil {
		return err
	}
	kinds, err := v.kindsOf(account)
	if err != nil {
		return err
	}
	if kind == "" && len(kinds) > 0 {
		kind = kinds[0]
	}
	if id != "" {
		of, err := v.kindOfResource(account, kind, id)
		if err != nil {
			return err
		}
		if of != "" {
			v.redirectHere(v.w, v.resourceAddress(account, of, id))
			return nil
		}
	}
	accounts, err := v.accountOptions(account)
	if err != nil {
		return err
	}
	page := v.page(v.r)
	form := views.Form(page, views.DeskForm{Action: resourcesPath, Button: "Show resources", Fields: []views.DeskField{
		{As: "select", Name: "account", Label: "Account", Options: accounts},
		{Name: "kind", Label: "Kind", Value: kind, Suggestions: kinds},
		{Name: "resource", Label: "Resource", Value: id},
	}})
	if kind != "" && !eventlog.IsKind(kind) {
		v.show(http.StatusBadRequest, views.DeskProps{Name: "resources", Title: "Resources", Alert: "kind " + eventlog.KindRule + "."}, form)
		return nil
	}
	t := views.DeskTable{Label: "Resources", List: "resources", Columns: []string{"Id", "Name", "Last change"}, Next: "Next",
		Empty: "No resources of this kind yet. A write to the API or an import creates them."}
	switch {
	case id != "":
		t.Empty, t.Clear = "Nothing matches.", resourcesPath+"?account="+escaped(account)+"&kind="+kind
	case kind != "":
		if err := v.fillResources(&t, account, kind, p.value("after")); err != nil {
			return err
		}
	}
	v.show(http.StatusOK, views.DeskProps{Name: "resources", Title: "Resources", Lead: kind}, form, views.List(page, t))
	return nil
}

// kindOfResource returns the kind of the resource with an id: the given one if it has
// such a resource, or else that of the id's newest event. "" stands for no resource.
func (v *visit) kindOfResource(account, kind, id string) (string, error) {
	if !eventlog.IsID(id) {
		return "", nil
	}
	newest, _, err := v.listShown(account, eventlog.Filter{Resources: []string{id}, To: eventlog.CreatedAtMax, Limit: 1})
	if err != nil {
		return "", err
	}
	kinds := []string{kind}
	for _, e := range newest {
		of, _, _ := strings.Cut(e.Type, ".")
		kinds = append(kinds, of)
	}
	for _, of := range kinds {
		_, err := v.store.FindResource(v.ctx, account, of, id)
		if !errors.Is(err, record.ErrNotFound) {
			return of, err
		}
	}
	return "", nil
}

// fillResources reads a page of resources.
func (v *visit) fillResources(t *views.DeskTable, account, kind, after string) error {
	d := &factsFrom(v.ctx).demand
	found, err := v.store.ListResources(v.ctx, account, kind, after, deskPageSize, d.fits, []byte("["))
	if err != nil {
		return err
	}
	if err := d.settle(v.ctx, len(found.Data)); err != nil {
		return err
	}
	list, err := snapshot.Parse(append(found.Data, ']'), snapshot.DepthMax+4)
	if err != nil {
		return err
	}
	for _, resource := range list.Elements() {
		id, _ := resource.Member("id")
		cells := []views.DeskCell{{Text: id.Text(), Code: true, Href: v.resourceAddress(account, kind, id.Text())}, {Text: displayName(resource)}, {Text: "–"}}
		newest, _, err := v.listShown(account, eventlog.Filter{Resources: []string{id.Text()}, To: eventlog.CreatedAtMax, Limit: 1})
		if err != nil {
			return err
		}
		if len(newest) == 1 {
			cells[2] = views.DeskCell{When: moment(time.Unix(newest[0].CreatedAt, 0), v.now)}
		}
		t.Rows = append(t.Rows, views.DeskRow{Hook: "resource", ID: id.Text(), Cells: cells})
	}
	if found.More {
		t.Older = resourcesPath + "?account=" + escaped(account) + "&kind=" + kind + "&after=" + escaped(found.Last)
	}
	return nil
}

func (v *visit) resourceAddress(account, kind, id string) string {
	return resourcesPath + "/" + kind + "/" + id + "?account=" + escaped(account)
}

func displayName(resource snapshot.Value) string {
	for _, name := range displayMembers {
		if value, ok := resource.Member(name); ok && value.Kind() == snapshot.String {
			return value.Text()
		}
	}
	return "–"
}

// kindsOf are the kinds of the account's events.
func (v *visit) kindsOf(account string) (kinds []string, err error) {
	types, _, err := v.store.ListEventTypes(v.ctx, account)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		kind, _, _ := strings.Cut(t.Name, ".")
		if t.Count > 0 && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// deskResource is GET /desk/resources/:kind/:id.
func (s *Server) deskResource(v *visit) error {
	account, err := v.accountAsked()
	if err != nil {
		return err
	}
	kind, id := pathParam(v.r, "kind"), pathParam(v.r, "id")
	resource, err := s.store.FindResource(v.ctx, account, kind, id)
	if errors.Is(err, record.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "There is no such resource in this account.").because(err)
	}
	if err != nil {
		return err
	}
	document, err := snapshot.Parse(resource.JSON, snapshot.DepthMax+4)
	if err != nil {
		return err
	}
	p := v.page(v.r)
	members := []views.DeskFact{{Label: "ETag", DeskCell: views.DeskCell{Text: entityTag(resource.Event), Code: true}}}
	for _, m := range document.Members() {
		members = append(members, views.DeskFact{Label: m.Name, DeskCell: views.DeskCell{Text: plainValue(m.Value)}})
	}
	e := eventSearch{account: account, asked: []queryPair{{"resource", id}}}
	events, page, err := v.listShown(account, eventlog.Filter{Resources: []string{id}, To: eventlog.CreatedAtMax, Limit: resourceEvents})
	if err != nil {
		return err
	}
	t := views.DeskTable{Heading: "Newest events", List: "events", Columns: []string{"Event", "Resource", "Source", "When"}, Empty: "No events of this resource are left."}
	for _, ev := range events {
		t.Rows = append(t.Rows, v.eventRow(e, ev))
	}
	if page.More {
		t.Older, t.Next = e.address(deskEventsPath), "All events of "+id
	}
	v.show(http.StatusOK, views.DeskProps{Name: "resource", Title: displayOr(document, id), Lead: kind, Links: []views.Link{{Label: "All events", Href: e.address(deskEventsPath)}}},
		[]templ.Component{views.Facts(p, "Members", members), views.List(p, t), views.Folded("curl", v.curl("/api/resources/"+kind+"/"+id, nil), true)}...)
	return nil
}

func displayOr(resource snapshot.Value, id string) string {
	if name := displayName(resource); name != "–" {
		return name
	}
	return id
}

package desk

import (
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

const resourcesPath = "/desk/resources"

// displayMembers are the members that name a resource for people, the first one first.
var displayMembers = []string{"displayName", "name", "title", "businessName", "email"}

// resources is GET /desk/resources.
func (s *Server) resources(v *visit) error {
	p, refused := web.ParseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.RefuseRepeated("account", "kind", "resource", "after")
	}
	if refused != nil {
		return refused
	}
	account, kind, id := p.Value("account"), strings.TrimSpace(p.Value("kind")), strings.TrimSpace(p.Value("resource"))
	if account == "" {
		account = v.session.User.Account
	}
	if err := v.knownAccount(account); err != nil {
		return err
	}
	types, _, err := s.site.Store.Events.ListEventTypes(v.ctx, account)
	if err != nil {
		return err
	}
	kinds := kindsOf(types)
	if kind == "" && len(kinds) > 0 {
		kind = kinds[0]
	}
	if id != "" {
		of, err := v.kindOfResource(account, kind, id)
		if err != nil {
			return err
		}
		if of != "" {
			v.s.site.RedirectHere(v.w, v.resourceAddress(account, of, id))
			return nil
		}
	}
	shown := views.ResourcesProps{URL: resourcesPath, Kinds: kinds, Kind: kind, ID: id, ClearURL: kindAddress(account, kind), SearchURL: deskEventsPath + "?account=" + api.Escaped(account) + "&resource=" + api.Escaped(id)}
	if shown.Accounts, err = v.accountChoices(account); err != nil {
		return err
	}
	status := http.StatusOK
	switch {
	case kind != "" && !eventlog.IsKind(kind):
		status, shown.Refused = http.StatusBadRequest, "kind "+eventlog.KindRule+"."
	case id == "" && kind != "":
		if err := v.addResources(&shown, account, p.Value("after")); err != nil {
			return err
		}
	}
	shown.Frame = v.frame()
	v.draw(status, views.Resources(shown))
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
		_, err := v.s.site.Store.Events.FindResource(v.ctx, account, of, id)
		if !errors.Is(err, record.ErrNotFound) {
			return of, err
		}
	}
	return "", nil
}

// addResources reads a page of resources.
func (v *visit) addResources(p *views.ResourcesProps, account, after string) error {
	kind := p.Kind
	d := &web.FactsFrom(v.ctx).Lease
	found, err := v.s.site.Store.Events.SearchResources(v.ctx, account, kind, after, deskPageSize, d.Fits, v.s.api.SearchFor, []byte("["))
	if err != nil {
		return err
	}
	if err := d.Settle(v.ctx, len(found.Data)); err != nil {
		return err
	}
	list, err := snapshot.Parse(append(found.Data, ']'), snapshot.DepthMax+4)
	if err != nil {
		return err
	}
	for _, resource := range list.Elements() {
		id, _ := resource.Member("id")
		row := views.ListedResource{ID: id.Text(), Name: displayName(resource), URL: v.resourceAddress(account, kind, id.Text())}
		newest, _, err := v.listShown(account, eventlog.Filter{Resources: []string{id.Text()}, To: eventlog.CreatedAtMax, Limit: 1})
		if err != nil {
			return err
		}
		if len(newest) == 1 {
			row.Changed = web.Moment(time.Unix(newest[0].CreatedAt, 0), v.now)
		}
		p.Resources = append(p.Resources, row)
	}
	if found.More {
		p.Older = kindAddress(account, kind) + "&after=" + api.Escaped(found.Last)
	}
	return nil
}

// kindAddress is the list of the resources of a kind.
func kindAddress(account, kind string) string {
	return resourcesPath + "?account=" + api.Escaped(account) + "&kind=" + api.Escaped(kind)
}

// membersOf are the members of an object by dotted path. Lists are one member.
func membersOf(path string, object snapshot.Value) (list []views.Detail) {
	for _, m := range object.Members() {
		if m.Value.Kind() == snapshot.Object && len(m.Value.Members()) > 0 {
			list = append(list, membersOf(path+m.Name+".", m.Value)...)
			continue
		}
		list = append(list, views.Detail{Label: path + m.Name, Value: plainValue(m.Value)})
	}
	return list
}

func (v *visit) resourceAddress(account, kind, id string) string {
	return resourcesPath + "/" + kind + "/" + id + "?account=" + api.Escaped(account)
}

// displayName is the name of a resource for people, or "".
func displayName(resource snapshot.Value) string {
	for _, name := range displayMembers {
		if value, ok := resource.Member(name); ok && value.Kind() == snapshot.String {
			return value.Text()
		}
	}
	return ""
}

// kindsOf are the kinds that an account's types of events are of.
func kindsOf(types []eventlog.TypeUse) (kinds []string) {
	for _, t := range types {
		kind, _, _ := strings.Cut(t.Name, ".")
		if t.Count > 0 && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// resource is GET /desk/resources/:kind/:id.
func (s *Server) resource(v *visit) error {
	account, err := v.accountAsked()
	if err != nil {
		return err
	}
	kind, id := web.PathParam(v.r, "kind"), web.PathParam(v.r, "id")
	resource, err := s.site.Store.Events.FindResource(v.ctx, account, kind, id)
	if errors.Is(err, record.ErrNotFound) {
		return web.NewProblem(http.StatusNotFound, "not_found", "There is no such resource in this account.").Because(err)
	}
	if err != nil {
		return err
	}
	document, err := snapshot.Parse(resource.JSON, snapshot.DepthMax+4)
	if err != nil {
		return err
	}
	e := eventSearch{account: account, asked: []web.QueryPair{{Name: "resource", Value: id}}}
	p := views.ResourceProps{
		Kind: kind, ID: id, Name: displayName(document), ETag: web.EventTag(account, resource.Event), EventsURL: e.address(deskEventsPath), ListURL: kindAddress(account, kind), Curl: v.curl("/api/resources/"+kind+"/"+id, nil),
	}
	p.Members = membersOf("", document)
	events, page, err := v.listShown(account, eventlog.Filter{Resources: []string{id}, To: eventlog.CreatedAtMax, Limit: resourceEvents})
	if err != nil {
		return err
	}
	for _, ev := range events {
		row, err := v.listedEvent(e, ev)
		if err != nil {
			return err
		}
		p.List.Events = append(p.List.Events, row)
	}
	if page.More {
		p.List.Older = p.EventsURL
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Resource(p))
	return nil
}

package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// auditSearch is a search of the audit record as an operator writes it: names in any
// spelling, or ids.
type auditSearch struct {
	what, user, client, operator, source, from, to string
	after                                          string

	fromName, toName string // the parameters of from and to
}

var auditWords = []struct {
	what  store.Audited
	words string
}{
	{store.AuditLogin, "Sign-in"}, {store.AuditLoginRefused, "Sign-in refused"}, {store.AuditPasswordChanged, "Password changed"}, {store.AuditGrant, "Tokens issued"}, {store.AuditDenied, "Access denied by the user"},
	{store.AuditRefused, "Client, code or token refused"}, {store.AuditRevoke, "Access ended"}, {store.AuditRefreshReuse, "Refresh token used again"},
	{store.AuditCodeReplay, "Code used again"}, {store.AuditThrottle, "Slowed down"}, {store.AuditAdmin, "Change by an operator"},
	{store.AuditWebhook, "Webhook endpoint"},
}

func auditWord(what store.Audited) string {
	for _, w := range auditWords {
		if w.what == what {
			return w.words
		}
	}
	return string(what)
}

func isAuditKind(what string) bool {
	for _, w := range auditWords {
		if string(w.what) == what {
			return true
		}
	}
	return false
}

// auditKinds lists the kinds as a sentence does.
func auditKinds() string {
	var kinds []string
	for _, w := range auditWords {
		kinds = append(kinds, string(w.what))
	}
	last := len(kinds) - 1
	return strings.Join(kinds[:last], ", ") + " or " + kinds[last]
}

// nobody matches no line.
var nobody = []string{"\x00"}

// auditFilter resolves names. An unknown name matches nothing.
func (s *Server) auditFilter(ctx context.Context, a auditSearch) (f store.AuditFilter, err error) {
	f.What = store.Audited(a.what)
	if a.what != "" && !isAuditKind(a.what) {
		return f, invalidParameter("what", "is not a kind of audit line: give %s.", auditKinds())
	}
	if f.UserIDs, err = s.auditUser(ctx, a.user); err != nil {
		return f, err
	}
	if f.OperatorIDs, err = s.auditUser(ctx, a.operator); err != nil {
		return f, err
	}
	if a.client != "" {
		if f.ClientIDs, err = s.clientsNamed(ctx, a.client); err != nil {
			return f, err
		}
		f.ClientIDs = append(f.ClientIDs, a.client) // a deleted client's id
	}
	if a.source != "" {
		var ok bool
		if f.Source, ok = parseSource(a.source); !ok {
			return f, invalidParameter("source", "is not an address: give one such as 198.51.100.7, or a network such as 198.51.100.0/24.")
		}
	}
	var ok bool
	if a.from != "" {
		if f.From, _, ok = peopleTime(a.from, s.store.Now()); !ok {
			return f, invalidParameter(a.fromName, "is not a time: %s.", deskPeopleTimes)
		}
	}
	if a.to != "" {
		if _, f.To, ok = peopleTime(a.to, s.store.Now()); !ok {
			return f, invalidParameter(a.toName, "is not a time: %s.", deskPeopleTimes)
		}
		f.To = f.To.Add(999_999_999) // all of its last second
	}
	return f, nil
}

// auditUser returns the id of a user, who may be deleted.
func (s *Server) auditUser(ctx context.Context, name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	u, err := s.userNamed(ctx, name)
	switch {
	case err == nil:
		return []string{u.Subject()}, nil
	case !errors.Is(err, record.ErrNotFound):
		return nil, err
	case strings.HasPrefix(name, "usr_"):
		return []string{name}, nil
	}
	return nobody, nil
}

func parseSource(text string) (netip.Prefix, bool) {
	if addr, err := parseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err == nil
}

// address is that of the search, with a cursor.
func (a auditSearch) address(after string) string {
	var pairs []string
	for _, p := range []queryPair{{"what", a.what}, {"user", a.user}, {"client", a.client}, {"operator", a.operator}, {"source", a.source}, {"from", a.from}, {"to", a.to}, {"after", after}} {
		if p.value != "" {
			pairs = append(pairs, p.name+"="+escaped(p.value))
		}
	}
	if len(pairs) == 0 {
		return "/desk/audit"
	}
	return "/desk/audit?" + strings.Join(pairs, "&")
}

// deskAudit is GET /desk/audit.
func (s *Server) deskAudit(v *visit) error {
	p, refused := parseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.refuseRepeated("what", "user", "client", "operator", "source", "from", "to", "after")
	}
	if refused != nil {
		return refused
	}
	get := func(name string) string { return strings.TrimSpace(p.value(name)) }
	a := auditSearch{what: get("what"), user: get("user"), client: get("client"), operator: get("operator"), source: get("source"), from: get("from"), to: get("to"), after: get("after"), fromName: "from", toName: "to"}
	kinds := []views.DeskOption{{Label: "Everything"}}
	for _, w := range auditWords {
		kinds = append(kinds, views.DeskOption{Value: string(w.what), Label: w.words, Chosen: a.what == string(w.what)})
	}
	form := views.DeskForm{Action: "/desk/audit", Button: "Show lines", Clear: "/desk/audit", Fields: []views.DeskField{
		{As: "select", Name: "what", Label: "What", Options: kinds},
		{Name: "user", Label: "User", Value: a.user}, {Name: "client", Label: "Client", Value: a.client}, {Name: "operator", Label: "Operator", Value: a.operator},
		{Name: "source", Label: "Source", Value: a.source}, {Name: "from", Label: "From", Value: a.from}, {Name: "to", Label: "To", Value: a.to},
	}}
	page := views.DeskProps{Name: "audit", Title: "Audit"}
	t, err := v.auditTable(a, deskPageSize)
	var wrong *problem
	if errors.As(err, &wrong) && wrong.status == http.StatusBadRequest {
		noteProblem(v.ctx, wrong)
		page.Alert = wrong.description
		v.show(http.StatusBadRequest, page, views.Form(v.page(v.r), form))
		return nil
	}
	if err != nil {
		return err
	}
	v.show(http.StatusOK, page, views.Form(v.page(v.r), form), views.List(v.page(v.r), t))
	return nil
}

// auditTable draws a page of the search.
func (v *visit) auditTable(a auditSearch, limit int) (views.DeskTable, error) {
	t := views.DeskTable{Label: "Audit lines", List: "audit", Columns: []string{"When", "What", "Why", "User", "Client", "Operator", "Source", "Request"},
		Empty: "No lines yet. Each sign-in, token and change makes one."}
	f, err := v.auditFilter(v.ctx, a)
	if err != nil {
		return t, err
	}
	var before record.Position
	if a.after != "" {
		var ok bool
		if before, ok = record.ParsePosition(a.after); !ok {
			return t, invalidParameter("after", "must be the id of an audit line.")
		}
	}
	found, err := v.store.SearchAudit(v.ctx, f, before, limit)
	if err != nil {
		return t, err
	}
	names := auditNames{v: v, users: map[string]string{}, clients: map[string]string{}}
	for _, l := range found.Lines {
		t.Rows = append(t.Rows, views.DeskRow{Hook: "audit", ID: l.Position.String(), Cells: []views.DeskCell{
			{When: moment(l.At, v.now)},
			{Text: auditWord(l.What), Col: "what"},
			{Text: l.Reason, Col: "reason"},
			names.user(l.UserID, "user"),
			names.client(l.ClientID),
			names.user(l.OperatorID, "operator"),
			{Text: l.Source, Col: "source"},
			{Text: l.RequestID, Code: true},
		}})
	}
	if names.err != nil {
		return t, names.err
	}
	narrowed := a.address("") != "/desk/audit"
	if narrowed {
		t.Empty, t.Clear = "Nothing matches.", "/desk/audit"
	}
	if found.More {
		t.Older = a.address(found.Next.String())
		if len(found.Lines) < limit {
			t.Next = "Look further back"
		}
	}
	return t, nil
}

// auditNames finds the names of what audit lines have as ids.
type auditNames struct {
	v              *visit
	users, clients map[string]string
	err            error
}

func (n *auditNames) user(id, col string) views.DeskCell {
	c := views.DeskCell{Col: col}
	if id == "" {
		return c
	}
	name, known := n.users[id]
	if !known {
		u, err := n.v.store.FindUserBySubject(n.v.ctx, id)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			n.err = err
		}
		name = u.Username
		n.users[id] = name
	}
	if name == "" {
		c.Text = id + " (deleted)"
		return c
	}
	c.Text, c.Href = name, usersPath+"/"+id
	return c
}

func (n *auditNames) client(id string) views.DeskCell {
	c := views.DeskCell{Col: "client"}
	if id == "" {
		return c
	}
	name, known := n.clients[id]
	if !known {
		client, err := n.v.store.FindClient(n.v.ctx, id)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			n.err = err
		}
		name = client.Name
		n.clients[id] = name
	}
	if name == "" {
		c.Text = id + " (deleted)"
		return c
	}
	c.Text, c.Href = name, below(clientsPath, id)
	return c
}

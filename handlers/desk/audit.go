package desk

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

const auditPath = "/desk/audit"

// audit is GET /desk/audit.
func (s *Server) audit(v *visit) error {
	p, refused := web.ParseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.RefuseRepeated("what", "user", "client", "operator", "source", "from", "to", "after")
	}
	if refused != nil {
		return refused
	}
	get := func(name string) string { return strings.TrimSpace(p.Value(name)) }
	a := admin.AuditSearch{What: get("what"), User: get("user"), Client: get("client"), Operator: get("operator"), Source: get("source"), From: get("from"), To: get("to"), After: get("after"), FromName: "from", ToName: "to"}
	shown := views.AuditProps{URL: auditPath, What: a.What, User: a.User, Client: a.Client, Operator: a.Operator, Source: a.Source, From: shownTime(a.From), To: shownTime(a.To)}
	list, err := v.auditList(a, deskPageSize)
	status := http.StatusOK
	var wrong *web.Problem
	if errors.As(err, &wrong) && wrong.Status == http.StatusBadRequest {
		web.NoteProblem(v.ctx, wrong)
		status, shown.Refused, err = http.StatusBadRequest, wrong.Description, nil
	}
	if err != nil {
		return err
	}
	shown.List, shown.Frame = list, v.frame()
	v.draw(status, views.Audit(shown))
	return nil
}

// auditList reads a page of the search.
func (v *visit) auditList(a admin.AuditSearch, limit int) (list views.AuditList, err error) {
	known := a
	if a.What == views.FailedSignIns {
		known.What = ""
	}
	f, err := v.s.admin.AuditFilter(v.ctx, known)
	if err != nil {
		return list, err
	}
	if a.What == views.FailedSignIns {
		f.Kinds, f.ButReason = []store.Audited{store.AuditLoginRefused, store.AuditThrottle}, web.ClientRefused // of clients, which are throttled too
	}
	var before record.Position
	if a.After != "" {
		var ok bool
		if before, ok = record.ParsePosition(a.After); !ok {
			return list, web.InvalidParameter("after", "must be the id of an audit line.")
		}
	}
	begun := time.Now()
	found, err := v.s.site.Store.SearchAudit(v.ctx, f, before, limit)
	for err == nil && len(found.Lines) == 0 && found.More && time.Since(begun) < v.s.api.SearchFor {
		found, err = v.s.site.Store.SearchAudit(v.ctx, f, found.Next, limit)
	}
	if err != nil {
		return list, err
	}
	if list.Lines, err = v.auditLines(found.Lines); err != nil {
		return list, err
	}
	list.URL, list.Filtered = auditPath, auditAddress(a, "") != auditPath
	if list.Filtered && len(list.Lines) == 0 {
		err = v.addNewestLine(&list)
	}
	if found.More {
		list.Older, list.Short = auditAddress(a, found.Next.String()), len(found.Lines) < limit
	}
	return list, err
}

// addNewestLine says when the newest line was written, if the search found none.
func (v *visit) addNewestLine(list *views.AuditList) error {
	newest, err := v.s.site.Store.SearchAudit(v.ctx, store.AuditFilter{}, record.Position{}, 1)
	for _, l := range newest.Lines {
		list.Newest = web.Moment(l.At, v.now)
	}
	return err
}

// auditLines are audit lines as pages show them, with names.
func (v *visit) auditLines(lines []store.AuditLine) (shown []views.AuditLine, err error) {
	found, err := v.s.site.Store.NamesIn(v.ctx, lines)
	if err != nil {
		return nil, err
	}
	names := auditNames(found)
	for _, l := range lines {
		shown = append(shown, views.AuditLine{
			ID: l.Position.String(), At: web.Moment(l.At, v.now), What: string(l.What), Reason: l.Reason, Times: l.Count,
			User: names.user(l.UserID), Client: names.client(l.ClientID), Actor: names.actor(l.Actor), AtDesk: l.Actor.OperatorID != "", Source: l.Source, RequestID: l.RequestID, Amr: l.Amr.Values(),
		})
	}
	return shown, nil
}

type auditNames store.AuditNames

func (n auditNames) user(id string) views.Named {
	if id == "" {
		return views.Named{}
	}
	return views.Named{ID: id, Name: n.Users[id], URL: usersPath + "/" + id}
}

func (n auditNames) client(id string) views.Named {
	if id == "" {
		return views.Named{}
	}
	return views.Named{ID: id, Name: n.Clients[id], URL: below(clientsPath, id)}
}

// actor is who did it. A platform client has the name that it had then.
func (n auditNames) actor(a store.Actor) views.Named {
	if a.OperatorID != "" {
		return n.user(a.OperatorID)
	}
	named := n.client(a.ClientID)
	if named.Name == "" {
		named.ID = cmp.Or(a.ClientName, a.ClientID)
	}
	return named
}

// shownTime is the time of a link, which may be Unix seconds, as people type it.
func shownTime(text string) string {
	at, _, ok := admin.PeopleTime(text, time.Time{})
	if !ok || !web.IsDigits(text) {
		return text
	}
	return at.UTC().Format(time.DateTime)
}

// auditAddress is the address of a search, with a cursor.
func auditAddress(a admin.AuditSearch, after string) string {
	var pairs []string
	for _, p := range []web.QueryPair{
		{Name: "what", Value: a.What}, {Name: "user", Value: a.User}, {Name: "client", Value: a.Client}, {Name: "operator", Value: a.Operator},
		{Name: "source", Value: a.Source}, {Name: "from", Value: a.From}, {Name: "to", Value: a.To}, {Name: "after", Value: after},
	} {
		if p.Value != "" {
			pairs = append(pairs, p.Name+"="+api.Escaped(p.Value))
		}
	}
	if len(pairs) == 0 {
		return auditPath
	}
	return auditPath + "?" + strings.Join(pairs, "&")
}

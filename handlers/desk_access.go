package handlers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// deskAccess is GET /desk/access.
func (s *Server) deskAccess(v *visit) error {
	p, refused := parseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.refuseRepeated("user", "client", "after", "at", "session_after")
	}
	if refused != nil {
		return refused
	}
	page := v.page(v.r)
	userName, clientName := strings.TrimSpace(p.value("user")), strings.TrimSpace(p.value("client"))
	form := views.DeskForm{Action: "/desk/access", Button: "Show access", Clear: "/desk/access", Fields: []views.DeskField{
		{Name: "user", Label: "User", Value: userName}, {Name: "client", Label: "Client, by name or id", Value: clientName},
	}}
	var want store.FamilyFilter
	var unknownUser bool
	if userName != "" {
		u, err := v.userNamed(v.ctx, userName)
		if unknownUser = errors.Is(err, record.ErrNotFound); err != nil && !unknownUser {
			return err
		}
		want.User = &u
	}
	var clients []string
	if clientName != "" {
		var err error
		if clients, err = v.clientsNamed(v.ctx, clientName); err != nil {
			return err
		}
	}
	sessions, families := views.DeskTable{}, views.DeskTable{}
	narrowed := userName != "" || clientName != ""
	var list []store.Session
	var err error
	if !unknownUser && clientName == "" {
		if list, err = s.store.ListLiveSessions(v.ctx, want.User, p.value("session_after"), deskPageSize+1); err != nil {
			return err
		}
	}
	sessions = v.sessionTable(list[:min(len(list), deskPageSize)], "Browsers signed in")
	query := "/desk/access?user=" + escaped(userName) + "&client=" + escaped(clientName)
	if len(list) > deskPageSize {
		sessions.Older, sessions.Next = query+"&session_after="+list[deskPageSize-1].Name(), "Next"
	}
	var found []store.Family
	if !unknownUser && clientName == "" {
		found, err = s.store.ListFamilies(v.ctx, want, p.value("after"), deskPageSize+1)
	}
	after := p.value("after")
	for _, id := range clients[max(0, slices.Index(clients, p.value("at"))):] {
		if unknownUser || len(found) > deskPageSize {
			break
		}
		want.ClientID = id
		more, listErr := s.store.ListFamilies(v.ctx, want, after, deskPageSize+1-len(found))
		found, err = append(found, more...), errors.Join(err, listErr)
		after = "" // a cursor is of the first client
	}
	if err != nil {
		return err
	}
	families = v.familyTable(found[:min(len(found), deskPageSize)], "Applications with access")
	if len(found) > deskPageSize {
		last := found[deskPageSize-1]
		families.Older, families.Next = query+"&at="+escaped(last.ClientID)+"&after="+last.ID, "Next"
	}
	if narrowed {
		sessions.Empty, sessions.Clear = "Nothing matches.", "/desk/access"
		families.Empty, families.Clear = "Nothing matches.", "/desk/access"
	}
	parts := []views.DeskTable{sessions, families}
	if clientName != "" {
		parts = parts[1:] // a browser's sign-in belongs to no client
	}
	components := []templ.Component{views.Form(page, form)}
	for _, t := range parts {
		components = append(components, views.List(page, t))
	}
	v.show(http.StatusOK, views.DeskProps{Name: "access", Title: "Access"}, components...)
	return nil
}

// userNamed finds a user by name or id. A text in the form of an id is an id:
// otherwise a user with such a name would hide another. Errors: record.ErrNotFound.
func (s *Server) userNamed(ctx context.Context, name string) (store.User, error) {
	if store.IsSubject(name) {
		return s.store.FindUserBySubject(ctx, name)
	}
	return s.store.FindUser(ctx, name)
}

const clientsSearched = 500 // read in one transaction

// clientsNamed returns the ids of the clients with that id or name, in any case.
func (s *Server) clientsNamed(ctx context.Context, name string) (ids []string, err error) {
	after := ""
	for {
		clients, err := s.store.ListClients(ctx, after, clientsSearched)
		if err != nil {
			return nil, err
		}
		for _, c := range clients {
			if after = c.ID; c.ID == name || strings.EqualFold(c.Name, name) {
				ids = append(ids, c.ID)
			}
		}
		if len(clients) < clientsSearched {
			return ids, nil
		}
	}
}

func (v *visit) sessionTable(sessions []store.Session, heading string) views.DeskTable {
	t := views.DeskTable{Heading: heading, List: "sessions", Columns: []string{"User", "Signed in", "Last seen", "Ends", ""}, Empty: "Nobody is signed in. A sign-in in a browser is listed here."}
	for _, sn := range sessions {
		who := views.DeskCell{Text: sn.User.Username, Href: usersPath + "/" + sn.User.Subject()}
		if sn.Is(v.session.token) {
			who.Note = "this browser"
		}
		t.Rows = append(t.Rows, views.DeskRow{Hook: "session", ID: sn.Name(), Cells: []views.DeskCell{
			who, {When: moment(sn.AuthenticatedAt, v.now)}, {When: moment(sn.SeenAt, v.now)},
			{When: until(v.store.SessionEnds(sn), v.now)},
			{Act: &views.DeskAct{Do: "revoke", Action: "/desk/sessions/" + sn.Name() + "/revoke", Token: v.token(), Label: "Sign out", Of: sn.User.Username}},
		}})
	}
	return t
}

func (v *visit) familyTable(families []store.Family, heading string) views.DeskTable {
	t := views.DeskTable{Heading: heading, List: "families", Columns: []string{"Client", "User", "Scopes", "Since", "Last used", ""}, Empty: "No application has access. One that a user allows is listed here."}
	for _, f := range families {
		used := views.DeskCell{Text: "never"}
		if !f.UsedAt.IsZero() {
			used = views.DeskCell{When: moment(f.UsedAt, v.now)}
		}
		who, of := views.DeskCell{Text: f.Username, Href: usersPath + "/" + f.UserID}, f.ClientName+" for "+f.Username
		if f.UserID == "" {
			who, of = views.DeskCell{Text: "no user, for " + f.Account}, f.ClientName+" for "+f.Account
		}
		t.Rows = append(t.Rows, views.DeskRow{Hook: "family", ID: f.ID, Cells: []views.DeskCell{
			{Text: f.ClientName, Href: below(clientsPath, f.ClientID)}, who,
			{Text: strings.Join(f.Permissions, ", ")}, {When: moment(f.CreatedAt, v.now)}, used,
			{Act: &views.DeskAct{Do: "revoke", Action: "/desk/families/" + f.ID + "/revoke", Token: v.token(), Label: "Revoke", Of: of}},
		}})
	}
	return t
}

// without returns a table without the column that would repeat the page's own record.
func without(t views.DeskTable, column string) views.DeskTable {
	i := slices.Index(t.Columns, column)
	t.Columns = slices.Delete(t.Columns, i, i+1)
	for r := range t.Rows {
		t.Rows[r].Cells = slices.Delete(t.Rows[r].Cells, i, i+1)
	}
	return t
}

// deskRevokeSession is POST /desk/sessions/:id/revoke.
func (s *Server) deskRevokeSession(v *visit) error {
	ended, err := s.store.DeleteSessionNamed(v.ctx, pathParam(v.r, "id"))
	if errors.Is(err, record.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "That sign-in has ended already.").because(err)
	}
	if err != nil {
		return err
	}
	s.auditSignedOut(v.r, ended.User, "signed out by the operator")
	if ended.Is(v.session.token) {
		v.redirectHere(v.w, "/login?to="+toDesk)
		return nil
	}
	return v.finish(doneSessionEnded, "/desk/access")
}

// deskRevokeFamily is POST /desk/families/:id/revoke.
func (s *Server) deskRevokeFamily(v *visit) error {
	_, err := s.store.RevokeFamily(v.ctx, by(v.ctx), pathParam(v.r, "id"))
	if errors.Is(err, record.ErrNotFound) {
		return newProblem(http.StatusNotFound, "not_found", "That access has ended already.").because(err)
	}
	if err != nil {
		return err
	}
	return v.finish(doneAccessRevoked, "/desk/access")
}

// until formats a time to come.
func until(t, now time.Time) views.Moment {
	m := moment(t, now)
	if left := t.Sub(now); left > 0 {
		m.Phrase = "in " + strings.TrimSuffix(ago(max(left, time.Minute)), " ago")
	}
	return m
}

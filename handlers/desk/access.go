package desk

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// access is GET /desk/access.
func (s *Server) access(v *visit) error {
	p, refused := web.ParseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.RefuseRepeated("user", "client", "account", "after", "at", "session_after")
	}
	if refused != nil {
		return refused
	}
	userName, clientName := strings.TrimSpace(p.Value("user")), strings.TrimSpace(p.Value("client"))
	shown := views.AccessProps{URL: accessPath, User: userName, Client: clientName}
	want := store.FamilyFilter{Account: strings.TrimSpace(p.Value("account"))}
	var unknownUser bool
	if userName != "" {
		u, err := v.s.admin.UserNamed(v.ctx, userName)
		if unknownUser = errors.Is(err, record.ErrNotFound); err != nil && !unknownUser {
			return err
		}
		want.User = &u
	}
	var clients []string
	if clientName != "" {
		var err error
		if clients, err = v.s.admin.ClientsNamed(v.ctx, clientName); err != nil {
			return err
		}
	}
	var list []store.Session
	var err error
	if !unknownUser && clientName == "" {
		if list, err = s.site.Store.ListLiveSessions(v.ctx, want.User, p.Value("session_after"), accessPageSize+1); err != nil {
			return err
		}
	}
	shown.Browsers = v.browsers(list[:min(len(list), accessPageSize)])
	query := accessPath + "?user=" + api.Escaped(userName) + "&client=" + api.Escaped(clientName)
	if len(list) > accessPageSize {
		shown.NextBrowsers = query + "&session_after=" + list[accessPageSize-1].Name()
	}
	_, each := p.Values["account"] // empty for a client that acts for any
	switch {
	case unknownUser || clientName != "" && len(clients) == 0:
		shown.Access = v.accessList(nil)
	case clientName != "" && (userName != "" || each):
		shown.Access, err = v.familyPage(want, clients, p, query+"&account="+api.Escaped(want.Account))
	default:
		shown.Access, shown.TooMany, err = v.accessPage(want, clients, p, query)
	}
	if err != nil {
		return err
	}
	shown.Frame = v.frame()
	v.draw(http.StatusOK, views.Access(shown))
	return nil
}

const (
	accessPath     = "/desk/access"
	accessPageSize = 25 // of each of its two lists
)

// familyPage lists the families of one client and user, or of a client that acts for itself.
func (v *visit) familyPage(want store.FamilyFilter, clients []string, p web.Params, query string) (views.AccessList, error) {
	var found []store.Family
	after := p.Value("after")
	for _, id := range clients[max(0, slices.Index(clients, p.Value("at"))):] {
		if len(found) > accessPageSize {
			break
		}
		want.ClientID = id
		more, err := v.s.site.Store.ListFamilies(v.ctx, want, after, accessPageSize+1-len(found))
		if err != nil {
			return views.AccessList{}, err
		}
		found, after = append(found, more...), "" // a cursor is of the first client
	}
	var list views.AccessList
	for _, f := range found[:min(len(found), accessPageSize)] {
		list.Rows = append(list.Rows, v.listedAccess(f))
	}
	if len(found) > accessPageSize {
		last := found[accessPageSize-1]
		list.Older = query + "&at=" + api.Escaped(last.ClientID) + "&after=" + last.ID
	}
	return list, nil
}

// accessPage lists access by client and user. The families of one page are counted; at is the
// row of them to begin with.
func (v *visit) accessPage(want store.FamilyFilter, clients []string, p web.Params, query string) (shown views.AccessList, tooMany bool, err error) {
	if len(clients) == 0 {
		clients = []string{""}
	}
	var list []store.Access
	after, next := p.Value("after"), ""
	for _, id := range clients {
		want.ClientID = id
		more, rest, err := v.s.site.Store.ListAccess(v.ctx, want, after)
		if err != nil {
			return shown, false, err
		}
		list, next = append(list, more...), rest
	}
	at, _ := strconv.Atoi(p.Value("at"))
	at = max(0, min(at, len(list)))
	rows := list[at:min(len(list), at+accessPageSize)]
	shown = v.accessList(rows)
	switch {
	case at+len(rows) < len(list):
		shown.Older = fmt.Sprintf("%s&after=%s&at=%d", query, api.Escaped(after), at+len(rows))
	case next != "" && len(clients) > 1:
		return shown, true, nil
	case next != "":
		shown.Older = query + "&after=" + next
	}
	return shown, false, nil
}

// accessOn is the access on the page of a record, with the address of all of it.
func (v *visit) accessOn(list []store.Access, all string) views.AccessList {
	shown := v.accessList(list[:min(len(list), deskFamiliesMax)])
	if len(list) > deskFamiliesMax {
		shown.Older = all
	}
	return shown
}

// accessList has one row for each client and user. An id of a family stands for all of them.
func (v *visit) accessList(list []store.Access) views.AccessList {
	var shown views.AccessList
	for _, a := range list {
		row := v.listedAccess(a.Family)
		row.Families, row.FamiliesURL = a.Families, accessPath+"?client="+api.Escaped(a.ClientID)
		if a.UserID != "" {
			row.FamiliesURL += "&user=" + api.Escaped(a.UserID)
		} else {
			row.FamiliesURL += "&account=" + api.Escaped(a.Account)
		}
		shown.Rows = append(shown.Rows, row)
	}
	return shown
}

func (v *visit) listedAccess(f store.Family) views.ListedAccess {
	a := views.ListedAccess{
		ID: f.ID, Client: f.ClientName, ClientURL: below(clientsPath, f.ClientID), Account: f.Account, Scopes: f.Permissions,
		Since: web.Moment(f.CreatedAt, v.now), Used: v.momentOrNever(f.UsedAt), RevokeURL: "/desk/families/" + f.ID + "/revoke",
	}
	if f.UserID != "" {
		a.Username, a.UserURL = f.Username, usersPath+"/"+f.UserID
	}
	return a
}

func (v *visit) browsers(sessions []store.Session) (shown []views.Browser) {
	for _, sn := range sessions {
		shown = append(shown, views.Browser{
			ID: sn.Name(), Name: sn.Browser, Username: sn.User.Username, UserURL: usersPath + "/" + sn.User.Subject(), Here: sn.Is(v.session.Token),
			Since: web.Moment(sn.AuthenticatedAt, v.now), Seen: web.Moment(sn.SeenAt, v.now), Ends: web.Moment(v.s.site.Store.SessionEnds(sn), v.now),
			RevokeURL: "/desk/sessions/" + sn.Name() + "/revoke",
		})
	}
	return shown
}

// revokeSession is POST /desk/sessions/:id/revoke.
func (s *Server) revokeSession(v *posted) error {
	ended, err := s.site.Store.DeleteSessionNamed(v.ctx, web.PathParam(v.r, "id"), v.guard())
	if errors.Is(err, record.ErrNotFound) { // it has ended
		return v.finish(views.DoneSessionEnded, "/desk/access")
	}
	if err != nil {
		return err
	}
	if ended.Is(v.session.Token) {
		v.s.site.RedirectHere(v.w, oauth.SignInForDesk)
		return nil
	}
	return v.finish(views.DoneSessionEnded, "/desk/access")
}

// revokeFamily is POST /desk/families/:id/revoke. With all it revokes every family of the
// same client and user.
func (s *Server) revokeFamily(v *posted) (err error) {
	if id := web.PathParam(v.r, "id"); v.form.Has("all") {
		err = s.site.Store.RevokeAccess(v.ctx, web.By(v.ctx), id, v.guard())
	} else {
		_, err = s.site.Store.RevokeFamily(v.ctx, web.By(v.ctx), id, v.guard())
	}
	if err = record.GoneIsNil(err); err != nil { // what is gone has ended
		return err
	}
	return v.finish(views.DoneAccessRevoked, "/desk/access")
}

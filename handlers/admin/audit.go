package admin

import (
	"context"
	"strconv"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

var auditCalls = []platformCall{{
	method: "GET", path: "/audit", handle: listAudit, scope: store.ScopeAuditRead,
	id: "listAudit", does: "List the lines of the audit record, oldest first", filters: auditFilters, sends: "AuditList", headers: []string{"Tollhouse-Notice"},
}}

var auditFilters = []api.FormParam{
	{"what", "string", "Only lines of this kind, such as admin, login or revoke.", `"admin"`},
	{"user", "string", "Only lines about the user with this id or name.", `"odile"`},
	{"client", "string", "Only lines about the client with this id or name.", `"tollhouse_larkspur"`},
	{"account", "string", "Only lines about this account.", `"acct_larkspur"`},
	{"since", "string", "Only lines from this time on: a day, RFC 3339, Unix seconds, or an age such as 2h.", `"2026-06-01"`},
	{"until", "string", "Only lines up to this time; a day includes all of it.", `"2026-06-02"`},
}

var auditForm = api.Form{
	Name: "AuditLine", Does: "Who did what to what. Names are those of now; what was deleted has none.",
	Example: `{"id":"01kt1ag0000001kx5qkgq9h1tm","at":"2026-06-01T12:00:00Z","what":"admin","reason":"user created","user_id":"usr_01kt1ag0000001kx5qkgq9h1tm","username":"odile","account":"acct_larkspur","source":"198.51.100.7","request_id":"req_k5phyugrl7yiylttebwvewwddq","actor_client_id":"tollhouse_platform","actor_client":"Backend"}`,
	Members: []api.FormMember{
		{"id", "string!", "Its id, and its place in the order."},
		{"at", "string!", "When it was, by RFC 3339."},
		{"what", "string!", "Its kind."},
		{"reason", "string!", "What was done, or why it was refused; it may be empty."},
		{"client_id", "string", "The client that it is about."},
		{"user_id", "string", "The user that it is about."},
		{"client_name", "string", "That client's name."},
		{"username", "string", "That user's name."},
		{"account", "string", "The account that it is about."},
		{"family_id", "string", "The authorization that it is about."},
		{"source", "string", "The address from which it was asked for."},
		{"request_id", "string", "The id of the request."},
		{"actor_client_id", "string", "The platform client that did it."},
		{"actor_client", "string", "That client's name at the time."},
		{"operator_id", "string", "The user who did it at the desk."},
		{"operator", "string", "That user's name."},
		{"amr", "[]string", "How the user signed in, of a login or grant (RFC 8176)."},
		{"count", "integer", "How many refusals or changes the line counts, if it counts them."},
	},
}

var auditForms = []api.Form{auditForm, listForm("AuditList", auditForm, "A page of lines. Keep nextCursor, even of an empty page, to continue later; after=latest starts after the newest line.")}

// AdminAuditLine is an audit line as sent.
type AdminAuditLine struct {
	ID       string `json:"id"`
	At       string `json:"at"`
	What     string `json:"what"`
	Reason   string `json:"reason"`
	ClientID string `json:"client_id,omitempty"`
	UserID   string `json:"user_id,omitempty"`

	// What was deleted since has no name.
	ClientName string `json:"client_name,omitempty"`
	Username   string `json:"username,omitempty"`

	Account   string `json:"account,omitempty"`
	FamilyID  string `json:"family_id,omitempty"`
	Source    string `json:"source,omitempty"`
	RequestID string `json:"request_id,omitempty"`

	// Who did it: a platform client, or an operator at the desk, who has no name once
	// deleted. Neither for a command and for what the server does itself.
	ActorClientID string `json:"actor_client_id,omitempty"`
	ActorClient   string `json:"actor_client,omitempty"`
	OperatorID    string `json:"operator_id,omitempty"`
	Operator      string `json:"operator,omitempty"`

	Amr []string `json:"amr,omitempty"` // of a login or grant

	// How many refusals or changes the line counts, if it counts them.
	Count int `json:"count,omitempty"`
}

// latest is the cursor behind the newest line there is.
const latest = "latest"

// listAudit is GET /audit: oldest first, after the line with the given id.
func listAudit(c *call) error {
	q, limit, err := c.listed(auditFilters, "operator", "source")
	if err != nil {
		return err
	}
	filter, err := c.s.AuditFilter(c.ctx(), AuditSearch{
		What: q["what"], User: q["user"], Client: q["client"], Account: q["account"], Operator: q["operator"], Source: q["source"],
		From: q["since"], To: q["until"], FromName: "since", ToName: "until",
	})
	if err != nil {
		return err
	}
	c.takeTime()
	if q["after"] == latest {
		newest, err := c.s.site.Store.SearchAudit(c.ctx(), store.AuditFilter{}, record.Position{}, 1)
		if err != nil {
			return err
		}
		return sendPage(c, nil, limit, newest.Next.String(), showAudit(store.AuditNames{}), auditID)
	}
	var behind record.Position
	if after, given := q["after"]; given {
		var ok bool
		if behind, ok = record.ParsePosition(after); !ok {
			return web.InvalidParameter("after", "must be the id of an audit line, or latest.")
		}
		c.s.api.NoteAhead(c.w, "after", behind)
	}
	lines, passed, more, err := c.s.matchingAudit(c.ctx(), filter, behind, limit+1)
	if err != nil {
		return err
	}
	names, err := c.s.site.Store.NamesIn(c.ctx(), lines)
	if err != nil {
		return err
	}
	page := api.PageOf(lines, limit, q["after"], showAudit(names), auditID)
	if !page.HasMore && !passed.IsZero() { // a rare line is not searched for again where none is
		page.HasMore, page.Next = more, passed.String()
	}
	return api.SendPage(c.w, c.r, page)
}

func auditID(l AdminAuditLine) string { return l.ID }

// showAudit shows a line with names.
func showAudit(names store.AuditNames) func(l store.AuditLine) AdminAuditLine {
	return func(l store.AuditLine) AdminAuditLine {
		return AdminAuditLine{
			ID: l.Position.String(), At: l.At.Format(time.RFC3339), What: string(l.What), Reason: l.Reason,
			ClientID: l.ClientID, UserID: l.UserID, Account: l.AccountID, FamilyID: l.FamilyID, Source: l.Source, RequestID: l.RequestID,
			ActorClientID: l.Actor.ClientID, ActorClient: l.Actor.ClientName, OperatorID: l.Actor.OperatorID, Operator: names.Users[l.Actor.OperatorID],
			Username: names.Users[l.UserID], ClientName: names.Clients[l.ClientID], Amr: l.Amr.Values(), Count: l.Count,
		}
	}
}

// Why is the reason as people read it, with the number of what the line counts.
func (l AdminAuditLine) Why() string { return auditWhy(l.Reason, l.Count) }

func auditWhy(reason string, count int) string {
	switch count {
	case 0:
		return reason
	case 1:
		return reason + " (1 time)"
	}
	return reason + " (" + strconv.Itoa(count) + " times)"
}

const auditReadMax = 500 // lines in one transaction

// matchingAudit returns up to limit lines that match, after a position, the position up to
// which it has looked, and whether lines may follow. It reads store.AuditSearchedMax lines at
// most.
func (s *Server) matchingAudit(ctx context.Context, f store.AuditFilter, after record.Position, limit int) (found []store.AuditLine, passed record.Position, more bool, err error) {
	passed = after
	for range store.AuditSearchedMax / auditReadMax {
		lines, err := s.site.Store.ListAudit(ctx, passed, auditReadMax)
		if err != nil {
			return nil, passed, false, err
		}
		for _, l := range lines {
			if passed = l.Position; f.Matches(l) {
				found = append(found, l)
			}
			if len(found) == limit {
				return found, passed, true, nil
			}
		}
		if len(lines) < auditReadMax {
			return found, passed, false, nil
		}
	}
	return found, passed, true, nil
}

package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

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

	// How many refusals or changes the line counts, if it counts them.
	Count int `json:"count,omitempty"`
}

// listAudit is GET /admin/audit: oldest first, after the line with the given id.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	var behind record.Position
	if after != "" {
		var ok bool
		if behind, ok = record.ParsePosition(after); !ok {
			return web.InvalidRequest("after must be the id of an audit line.").On("after")
		}
		s.api.NoteAhead(w, "after", behind)
	}
	search, err := auditWanted(r)
	if err != nil {
		return err
	}
	filter, err := s.AuditFilter(r.Context(), search)
	if err != nil {
		return err
	}
	takeTime(w)
	lines, err := s.matchingAudit(r.Context(), filter, behind, limit+1)
	if err != nil {
		return err
	}
	users, clients, err := s.auditNames(r.Context(), lines)
	if err != nil {
		return err
	}
	writeAdminList(w, lines, limit, func(l store.AuditLine) any {
		return AdminAuditLine{
			ID: l.Position.String(), At: l.At.Format(time.RFC3339), What: string(l.What), Reason: l.Reason,
			ClientID: l.ClientID, UserID: l.UserID, Account: l.AccountID, FamilyID: l.FamilyID, Source: l.Source, RequestID: l.RequestID,
			ActorClientID: l.Actor.ClientID, ActorClient: l.Actor.ClientName, OperatorID: l.Actor.OperatorID, Operator: users[l.Actor.OperatorID],
			Username: users[l.UserID], ClientName: clients[l.ClientID], Count: l.Count,
		}
	})
	return nil
}

// auditWanted reads the filters of a request: names in any spelling, or ids.
func auditWanted(r *http.Request) (a AuditSearch, err error) {
	a.FromName, a.ToName = "since", "until"
	for name, to := range map[string]*string{"what": &a.What, "user": &a.User, "client": &a.Client, "account": &a.Account, "operator": &a.Operator, "source": &a.Source, "since": &a.From, "until": &a.To} {
		if *to, err = wanted(r, name); err != nil {
			return a, err
		}
	}
	return a, nil
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

// matchingAudit returns up to limit lines that match, after a position. It reads as far
// as it must.
func (s *Server) matchingAudit(ctx context.Context, f store.AuditFilter, behind record.Position, limit int) (found []store.AuditLine, err error) {
	for {
		lines, err := s.site.Store.ListAudit(ctx, behind, auditReadMax)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			if behind = l.Position; f.Matches(l) {
				found = append(found, l)
			}
			if len(found) == limit {
				return found, nil
			}
		}
		if len(lines) < auditReadMax {
			return found, nil
		}
	}
}

// auditNames returns the names of the users, operators and clients in the lines, by id.
// What was deleted since has none.
func (s *Server) auditNames(ctx context.Context, lines []store.AuditLine) (users, clients map[string]string, err error) {
	users, clients = map[string]string{"": ""}, map[string]string{"": ""}
	for _, l := range lines {
		for _, id := range []string{l.UserID, l.Actor.OperatorID} {
			if _, known := users[id]; known {
				continue
			}
			u, err := s.site.Store.FindUserBySubject(ctx, id)
			if err != nil && !errors.Is(err, record.ErrNotFound) {
				return nil, nil, err
			}
			users[id] = u.Username
		}
		if _, known := clients[l.ClientID]; known {
			continue
		}
		c, err := s.site.Store.FindClient(ctx, l.ClientID)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, nil, err
		}
		clients[l.ClientID] = c.Name
	}
	return users, clients, nil
}

package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
)

// audited records an administrative change that succeeded.
func (s *Server) audited(what string, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		if err != nil {
			return err
		}
		s.auditChange(r, what)
		return nil
	}
}

func (s *Server) auditChange(r *http.Request, what string) {
	line := factsFrom(r.Context()).change
	line.What, line.Reason, line.By = store.AuditAdmin, what, by(r.Context())
	s.store.Audit(line)
}

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

	// Who made the change at the desk. A deleted user has no name.
	OperatorID string `json:"operator_id,omitempty"`
	Operator   string `json:"operator,omitempty"`
}

// adminListAudit is GET /admin/audit: oldest first, after the line with the given id.
func (s *Server) adminListAudit(w http.ResponseWriter, r *http.Request) error {
	after, limit, err := adminPage(r)
	if err != nil {
		return err
	}
	var behind record.Position
	if after != "" {
		var ok bool
		if behind, ok = record.ParsePosition(after); !ok {
			return invalidRequest("after must be the id of an audit line.").on("after")
		}
	}
	search, err := auditWanted(r)
	if err != nil {
		return err
	}
	filter, err := s.auditFilter(r.Context(), search)
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
			OperatorID: l.OperatorID, Operator: users[l.OperatorID], Username: users[l.UserID], ClientName: clients[l.ClientID],
		}
	})
	return nil
}

// auditWanted reads the filters of a request: names in any spelling, or ids.
func auditWanted(r *http.Request) (a auditSearch, err error) {
	a.fromName, a.toName = "since", "until"
	for name, to := range map[string]*string{"what": &a.what, "user": &a.user, "client": &a.client, "operator": &a.operator, "source": &a.source, "since": &a.from, "until": &a.to} {
		if *to, err = wanted(r, name); err != nil {
			return a, err
		}
	}
	return a, nil
}

const auditReadMax = 500 // lines in one transaction

// matchingAudit returns up to limit lines that match, after a position. It reads as far
// as it must.
func (s *Server) matchingAudit(ctx context.Context, f store.AuditFilter, behind record.Position, limit int) (found []store.AuditLine, err error) {
	for {
		lines, err := s.store.ListAudit(ctx, behind, auditReadMax)
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
		for _, id := range []string{l.UserID, l.OperatorID} {
			if _, known := users[id]; known {
				continue
			}
			u, err := s.store.FindUserBySubject(ctx, id)
			if err != nil && !errors.Is(err, record.ErrNotFound) {
				return nil, nil, err
			}
			users[id] = u.Username
		}
		if _, known := clients[l.ClientID]; known {
			continue
		}
		c, err := s.store.FindClient(ctx, l.ClientID)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, nil, err
		}
		clients[l.ClientID] = c.Name
	}
	return users, clients, nil
}

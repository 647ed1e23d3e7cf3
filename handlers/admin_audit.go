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
	ID        string `json:"id"`
	At        string `json:"at"`
	What      string `json:"what"`
	Reason    string `json:"reason"`
	ClientID  string `json:"client_id,omitempty"`
	UserID    string `json:"user_id,omitempty"`
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
	lines, err := s.store.ListAudit(r.Context(), behind, limit+1)
	if err != nil {
		return err
	}
	operators, err := s.operatorNames(r.Context(), lines)
	if err != nil {
		return err
	}
	writeAdminList(w, lines, limit, func(l store.AuditLine) any {
		return AdminAuditLine{
			ID: l.Position.String(), At: l.At.Format(time.RFC3339), What: string(l.What), Reason: l.Reason,
			ClientID: l.ClientID, UserID: l.UserID, Account: l.AccountID, FamilyID: l.FamilyID, Source: l.Source, RequestID: l.RequestID,
			OperatorID: l.OperatorID, Operator: operators[l.OperatorID],
		}
	})
	return nil
}

// operatorNames returns the names of the operators in the lines, by id.
func (s *Server) operatorNames(ctx context.Context, lines []store.AuditLine) (map[string]string, error) {
	names := map[string]string{}
	for _, l := range lines {
		if _, known := names[l.OperatorID]; known || l.OperatorID == "" {
			continue
		}
		u, err := s.store.FindUserBySubject(ctx, l.OperatorID)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, err
		}
		names[l.OperatorID] = u.Username
	}
	return names, nil
}

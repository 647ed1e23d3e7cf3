package api

import (
	"context"

	"tollhouse/handlers/web"
	"tollhouse/store"
)

// AuditRefused records that a token was refused by a rule of the platform API, with the error
// code as the reason: 60 a minute for each client, and then their number. of names the object, if
// the request is about one. The line of a user's token names the user and the client instead.
func (s *Server) AuditRefused(ctx context.Context, p store.Principal, code string, of store.AuditLine) {
	line := of
	line.What, line.Reason, line.By = store.AuditRefused, code, web.By(ctx)
	line.Actor = store.Actor{ClientID: p.ClientID, ClientName: p.ClientName}
	if p.UserID != "" {
		line.ClientID, line.UserID, line.AccountID, line.FamilyID = p.ClientID, p.UserID, p.Account, ""
	}
	s.site.Store.AuditRefusal(line)
}

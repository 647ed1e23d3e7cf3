package api

import (
	"context"

	"tollhouse/handlers/web"
	"tollhouse/store"
)

// AuditRefused records that a token was refused by a rule of the platform API, with the error
// code as the reason: 60 a minute for each client, and then their number. The line of a user's
// token names the user and the client too.
func (s *Server) AuditRefused(ctx context.Context, p store.Principal, code string) {
	line := store.AuditLine{What: store.AuditRefused, Reason: code, By: web.By(ctx)}
	line.Actor = store.Actor{ClientID: p.ClientID, ClientName: p.ClientName}
	if p.UserID != "" {
		line.ClientID, line.UserID, line.AccountID = p.ClientID, p.UserID, p.Account
	}
	s.site.Store.AuditRefusal(line)
}

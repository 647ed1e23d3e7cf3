// Package admin answers the commands of the operator, over a socket that only the operator
// can reach, or in the command's own process. So it asks for no credentials there.
//
// Mount in server.go lists the routes that only the socket has. A handler reads a small JSON
// body (readAdminBody refuses unknown members) or the name in the path (NameIn), calls one
// method of the store, and names what changed with noteAdmin.
//
//	platform.go                           the table of calls that manage records, and how they pass
//	clients.go, users.go, accounts.go     these calls, one file for each noun
//	sessions.go, tokens.go                sign-ins and tokens, listed and revoked
//	events.go, export.go, import.go, purge.go
//	audit.go, audit_search.go             the audit record, for the desk too
//	backup.go, stats.go                   the store
//	status.go                             the server: status, settings, doctor
//	webhooks.go                           hold and resume; api has the other webhook calls
//
// Secrets are sent in bodies, never in URLs, and returned once. It needs web, of oauth the
// address of a page, and of api the lists of events, the webhook calls, the form of bodies and
// pages, and the account that a request names.
package admin

// Package desk shows the operators' pages below /desk.
//
// WithDesk looks at every public request for /desk. If [Server.Admits] allows its source and
// connection, and its session is an operator's, it goes to the desk's own router; anybody
// else gets what an unknown address gets. routes in desk.go lists the pages. A page is a
// method that takes a visit: the request and its session. One that takes a form has it as
// posted (form.go), once read has checked the form's token, asked for the password if the
// operator has not re-authenticated recently, and asked once whether to do what takes
// something away, with the price of it (price.go). kept.go remembers forms that created
// something, so that sending one again creates nothing.
//
//	overview.go                            the first page; views draws its plots
//	events.go, event.go, event_search.go, tail.go
//	resources.go, clients.go, users.go, access.go, audit.go, webhooks.go
//	backups.go, health.go                  the store, the server and its settings
//
// It needs the session and pages of web, the password check and sign-in of oauth, events and
// webhook tests of api, and of admin the audit search, names of users and clients, and status.
// The words of the pages are in views.
package desk

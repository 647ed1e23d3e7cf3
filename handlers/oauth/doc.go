// Package oauth is the door for tokens, and for people who sign in and allow access.
//
// A program's request to /oauth/v2/token, revoke or introspect is parsed (token.go), its
// client is authenticated (clientauth.go), and one method of the store does the rest:
// token_grants.go has a function for each grant, revoke.go and introspect.go have one each.
//
// A person arrives at GET /oauth/v2/auth (authorize.go), which checks the query into an
// authRequest. Without a usable sign-in login.go shows the form and checks the password
// (password.go: throttled, audited; device.go knows the browser). Then remembered.go sends
// the person on, or consent.go asks; its ticket (ticket.go) carries the state, so nothing is
// stored before the decision. Only redirect.go leads back to a client.
//
// The other routes, by file: account.go /account and its forms, new_password.go
// /new-password, login.go also /logout, metadata.go the metadata of RFC 8414, and in dev
// callback.go /callback and auto.go --auto-login and --auto-consent. password_form.go
// checks the fields of a new password for two of these pages.
//
// It needs a web.Site, and a throttle of its own. The desk hands in DeskFor: where
// operators go after a sign-in; nil without a desk.
package oauth

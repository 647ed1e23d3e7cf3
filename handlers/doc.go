// Package handlers builds tollhouse's HTTP surface out of its rooms, one for each door,
// and mounts them. Each has one type with what it needs, and a doc.go that tells how a
// request passes through it. A room imports only rooms before it in this list:
//
//	throttle  guesses, counted by user, client and source
//	web       what every request passes: router, errors, queries, bodies, pages, cookies
//	passkey   WebAuthn: options for the browser, and whether its answer is right
//	oauth     tokens; sign-in, consent, account and new password
//	api       events, resources, webhook endpoints, and their description
//	admin     what the command line calls
//	dev       the testers' controls below /_dev
//	desk      the operators' pages
//	docs      the start page and the reference
//
// Every request has the same steps: parse, authenticate, one method of the store,
// respond; a request with a token is authenticated first. Handlers return errors. web
// renders and logs them, the desk's in the frame that the desk gives them.
package handlers

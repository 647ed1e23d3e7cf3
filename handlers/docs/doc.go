// Package docs shows the start page and the API reference, which anybody may read.
//
// Mount in server.go lists the routes. They take no credentials: home looks at the browser's
// session to decide what the start page says.
//
//	/           home.go: for strangers, for users with their newest events, and for
//	            operators with figures and a link to the desk
//	/docs       docs.go: the examples as commands, filled in with what works in dev
//	/docs/:tag  docs.go; reference.go reads the OpenAPI description for both
//
// It needs api for the description and the form of an event, desk for whether and where an
// operator may open it, oauth for the demo client's callback and the commands of the first steps, and dev
// for the token in the examples of an instance of dev.
package docs

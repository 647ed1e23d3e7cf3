// Package web is what every request passes, and what all rooms need to answer it.
//
// A request enters by one of the handlers that a Site makes: Public or ForOperators
// (site.go), or beside TLS Plain or Challenged (https.go), which only redirect to https.
//
//   - request.go gives it an id, common headers, CORS headers (cors.go) and its source
//     (proxies.go), opens its lease (load.go), and writes its one log line at the end.
//   - host.go refuses a foreign Host and removes the path of the public URL, in Public only;
//     hosts.go has the further hosts of dev.
//   - router.go finds the route. [Router.On] adds one for programs, [Router.Page] a page.
//   - handle.go calls the handler of a room and writes the error that it returns: as JSON
//     (write.go), or as a page (page.go).
//
// Handlers read with params.go (OAuth parameters, in three encodings), query.go (queries of
// the API) and decode.go (JSON bodies). They answer with write.go, page.go and etag.go,
// choose a representation with accept.go, and make errors with errors.go: a Problem is an
// error with its wire form. context.go has the facts of the request; served.go collects its
// outcome for metrics and plots.
//
// For people there are session.go, cookies.go, form_token.go and done.go (the outcome that the
// next page shows). static.go and health.go serve the only routes of this room.
//
// It needs the store, the server key and a log. Of the other rooms it knows only throttle,
// for the networks that share a limit; dev hands in Watch, which is nil in serve.
package web

// Package api answers programs that hold an access token: events, resources and webhook
// endpoints, and the OpenAPI description of all that is public.
//
// Mount in server.go lists the routes. bearer in bearer.go admits a request if its token is
// active and has the scope, and puts the token's principal into the context, with the account
// for which a platform client acts (acting.go). The handler
// parses the query and the body, calls one method of the store with the principal's account,
// and sends the result within the account's share of memory.
//
//	/api/events                  events.go; event_filter.go, event_created_at.go and
//	                             event_time_meant.go parse the query, event_kept.go keeps
//	                             pages, event_wait.go waits, event_stream.go streams
//	/api/event-types             event_types.go
//	/api/resources               resources.go
//	/api/webhook-endpoints       webhooks.go, webhook_deliveries.go; webhook_call.go is the
//	                             request of a token or of an operator, webhook_body.go its body
//	                             and webhook_tests.go the test event of an endpoint
//	/openapi.json                openapi.go
//
// A body may arrive long after its header, so changes check the token again before they
// write, and streams check it after each read. From other rooms it needs web only. The
// operators' rooms use its lists, streams and webhook calls for any account, which
// account.go finds.
package api

// Package webhooks sends events to the URLs of webhook endpoints.
//
// The request is that of Standard Webhooks (request.go). The [Client] makes one attempt:
// it connects only to addresses that store/webhook/target allows (dial.go), follows no
// redirect, and reads little of the answer (client.go).
package webhooks

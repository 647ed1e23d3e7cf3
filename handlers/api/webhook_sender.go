package api

import (
	"context"
)

// Webhooks is what the handlers ask of the sender of webhooks. cli/server sets it where a
// sender runs; a command that opens the store in its own process has none. Of changes the
// sender hears from the store itself.
type Webhooks interface {
	// Test sends one event of the type system.test to an endpoint now, whatever its
	// state, and reports what came of it. The event is in no log, its resource is the
	// endpoint's id, and no cursor moves. An attempt that failed is no error. It may be
	// called concurrently. Errors: record.ErrNotFound, webhook.ErrSecretLost.
	Test(ctx context.Context, id string) (WebhookTest, error)
}

// WebhookTest is what came of a test.
type WebhookTest struct {
	Delivered bool    `json:"delivered"`
	Status    *int    `json:"status"` // null if there was no answer
	Error     *string `json:"error"`  // null if it was delivered
	MS        int64   `json:"ms"`
	WebhookID string  `json:"webhookId"`
}

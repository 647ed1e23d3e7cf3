package api

import (
	"time"

	"tollhouse/store/webhook"
)

// WebhookEndpoint is a webhook endpoint in an answer.
type WebhookEndpoint struct {
	webhook.Object
	Secret  string           `json:"secret,omitempty"`  // only when it was just created
	Waiting *webhook.Waiting `json:"waiting,omitempty"` // only when it was just enabled
	Notices []string         `json:"notices,omitempty"` // only when types were just given
}

// WebhookRotated is the answer of rotate-secret, the only one with the new secret.
type WebhookRotated struct {
	ID      string                 `json:"id"`
	Secret  string                 `json:"secret"`
	Secrets []webhook.ObjectSecret `json:"secrets"`
}

// WebhookRetried is the answer of retry.
type WebhookRetried struct {
	Queued  int      `json:"queued"`
	Notices []string `json:"notices,omitempty"`
}

// WebhookHold says whether all deliveries of the instance are held.
type WebhookHold struct {
	Held   bool   `json:"held"`
	Since  *int64 `json:"since"`  // Unix seconds
	Reason string `json:"reason"` // "" if they are not held
}

// UnixOrNull returns Unix seconds, nil for the zero time.
func UnixOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	at := t.Unix()
	return &at
}

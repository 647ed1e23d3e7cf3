package webhooks

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"tollhouse/store/secret"
)

// Message is one attempt to deliver an event.
type Message struct {
	URL     string
	ID      string         // of the event, the same at every attempt
	Body    []byte         // as GET /api/events/:id answers it
	Time    time.Time      // of this attempt, by the clock of the machine
	Secrets []secret.Token // those that sign, newest first

	Endpoint string
	Attempt  int    // from 1
	Gap      string // "AFTER..OLDEST" behind removed events, or ""
	Version  string // of the sender
}

// Request returns the signed request of the message, by Standard Webhooks 1.0.0.
func (m *Message) Request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{
		"Content-Type":       {"application/json"},
		"User-Agent":         {"tollhouse-webhooks/" + m.Version},
		"webhook-id":         {m.ID},
		"webhook-timestamp":  {strconv.FormatInt(m.Time.Unix(), 10)},
		"webhook-signature":  {secret.SignWebhook(m.Secrets, m.ID, m.Time, m.Body)},
		"tollhouse-endpoint": {m.Endpoint},
		"tollhouse-attempt":  {strconv.Itoa(m.Attempt)},
		// An empty list is not sent. It says that the transport may send the request again
		// when the receiver has just closed the kept connection.
		"Idempotency-Key": {},
	}
	if m.Gap != "" {
		r.Header["tollhouse-gap"] = []string{m.Gap}
	}
	if m.Endpoint == "" { // of a command that listens
		delete(r.Header, "tollhouse-endpoint")
	}
	return r, nil
}

package webhooks

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/secret"
)

// escapeRest percent-encodes what a path and a query cannot contain (RFC 3986 §3.3, §3.4) and
// leaves the rest as it is. Receivers and proxies refuse other bytes.
func escapeRest(text string) string {
	const kept = "!$&'()*+,-./:;=?@[]_~%"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(kept, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// Message is one attempt to deliver an event.
type Message struct {
	URL     string
	ID      string         // of the event, the same at every attempt
	Body    []byte         // as GET /api/events/:id answers it
	Time    time.Time      // of this attempt, by the clock of the machine
	Secrets []secret.Token // those that sign, newest first

	Endpoint string
	Attempt  int    // from 1
	Gap      string // "AFTER..OLDEST" after removed events, or ""
	Version  string // of the sender
}

// Request returns the signed request of the message, by Standard Webhooks 1.0.0.
func (m *Message) Request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	// With a RawPath that is not valid net/url would send its own form, which has no %2F.
	r.URL.RawPath, r.URL.RawQuery = escapeRest(r.URL.RawPath), escapeRest(r.URL.RawQuery)
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

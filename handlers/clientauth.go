package handlers

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"tollhouse/store"
	"tollhouse/store/record"
)

// clientCredentials are those of a request (RFC 6749 §2.3.1): in the Authorization
// header or in the body, never both.
type clientCredentials struct {
	id, secret string
	basic      bool // the header was used
}

// parseClientCredentials reads them. Our choice: a confidential client may use
// either way, since libraries differ.
func parseClientCredentials(r *http.Request, p params) (clientCredentials, *problem) {
	headers := r.Header.Values("Authorization")
	if len(headers) > 1 {
		return clientCredentials{}, invalidRequest("The request has more than one Authorization header.")
	}
	if len(headers) == 0 {
		return clientCredentials{id: p.value("client_id"), secret: p.value("client_secret")}, nil
	}
	c, ok := parseBasic(headers[0])
	if !ok {
		return clientCredentials{}, invalidClient(true)
	}
	if p.has("client_secret") {
		return clientCredentials{}, invalidRequest("The client authenticates in both the Authorization header and the body; use only one.")
	}
	if p.has("client_id") && p.value("client_id") != c.id {
		return clientCredentials{}, invalidRequest("The client_id in the body differs from the one in the Authorization header.")
	}
	return c, nil
}

// parseBasic reads RFC 7617 credentials, form-encoded as in RFC 6749 §2.3.1.
func parseBasic(header string) (clientCredentials, bool) {
	scheme, encoded, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Basic") {
		return clientCredentials{}, false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimLeft(encoded, " "))
	if err != nil {
		return clientCredentials{}, false
	}
	rawID, rawSecret, found := strings.Cut(string(raw), ":")
	if !found {
		return clientCredentials{}, false
	}
	id, err := url.QueryUnescape(rawID)
	if err != nil || !isText(id) {
		return clientCredentials{}, false
	}
	secret, err := url.QueryUnescape(rawSecret)
	if err != nil || !isText(secret) {
		return clientCredentials{}, false
	}
	return clientCredentials{id: id, secret: secret, basic: true}, true
}

func (s *Server) authenticateClient(r *http.Request, c clientCredentials) (store.Client, error) {
	ctx := r.Context()
	client, err := s.store.AuthenticateClient(ctx, c.id, c.secret)
	if errors.Is(err, record.ErrMismatch) {
		if tooSoon := s.throttledClient(r); tooSoon != nil {
			return store.Client{}, tooSoon.because(err)
		}
		return store.Client{}, invalidClient(c.basic).because(err)
	}
	if err != nil {
		return store.Client{}, err
	}
	note(ctx, slog.String("client_id", client.ID))
	return client, nil
}

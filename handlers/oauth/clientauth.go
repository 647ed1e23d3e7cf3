package oauth

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// clientCredentials are those of a request (RFC 6749 §2.3.1): in the Authorization
// header or in the body, never both.
type clientCredentials struct {
	ID, Secret       string
	RawID, rawSecret string // of Basic: not form-decoded
}

// parseClientCredentials reads them. Our choice: a confidential client may use
// either way, since libraries differ. A header of another scheme does not authenticate a
// client: the sessions of OAuth libraries add their access token to every request, and
// some programs send an empty header. The id shares no memory with the request: caches keep it
// for long, and the request has secrets.
func parseClientCredentials(r *http.Request, p web.Params, inDev bool) (clientCredentials, *web.Problem) {
	headers := r.Header.Values("Authorization")
	if len(headers) > 1 {
		return clientCredentials{}, web.InvalidRequest("The request has more than one Authorization header.")
	}
	header := strings.TrimSpace(strings.Join(headers, ""))
	scheme, _, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Basic") {
		if header != "" && !p.Has("client_id") {
			return clientCredentials{}, wrongScheme(header)
		}
		return clientCredentials{ID: strings.Clone(p.Value("client_id")), Secret: p.Value("client_secret")}, nil
	}
	c, ok := ParseBasic(header)
	if !ok && c.RawID != "" && inDev {
		c.ID, c.Secret, ok = c.RawID, c.rawSecret, true
	}
	if !ok {
		return clientCredentials{}, web.InvalidClient()
	}
	if p.Has("client_secret") {
		return clientCredentials{},
			web.InvalidRequest("The client authenticates in both the Authorization header and the body; use only one.")
	}
	if p.Has("client_id") && p.Value("client_id") != c.ID && (!inDev || p.Value("client_id") != c.RawID) {
		return clientCredentials{},
			web.InvalidRequest("The client_id in the body differs from the one in the Authorization header.")
	}
	c.ID = strings.Clone(c.ID)
	return c, nil
}

// wrongScheme refuses a request whose only credentials have a scheme that authenticates no
// client.
func wrongScheme(header string) *web.Problem {
	p := web.InvalidClient()
	what := "The Authorization header does not use the scheme Basic"
	if scheme, _ := web.AuthScheme(header); scheme != "" {
		what = "The scheme " + scheme + " does not authenticate a client"
	}
	p.Description = what + "; use Basic, or send client_id and client_secret in the body."
	return p
}

// ParseBasic reads RFC 7617 credentials, form-encoded as in RFC 6749 §2.3.1. If only the
// form-encoding is wrong, it returns false and the raw credentials.
func ParseBasic(header string) (c clientCredentials, ok bool) {
	scheme, encoded, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Basic") {
		return clientCredentials{}, false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimLeft(encoded, " "))
	if err != nil || !web.IsText(string(raw)) {
		return clientCredentials{}, false
	}
	if c.RawID, c.rawSecret, found = strings.Cut(string(raw), ":"); !found {
		return clientCredentials{}, false
	}
	id, err := url.QueryUnescape(c.RawID)
	if err != nil || !web.IsText(id) {
		return c, false
	}
	text, err := url.QueryUnescape(c.rawSecret)
	if err != nil || !web.IsText(text) {
		return c, false
	}
	c.ID, c.Secret = id, text
	return c, true
}

func (s *Server) authenticateClient(r *http.Request, c clientCredentials) (store.Client, error) {
	ctx := r.Context()
	source := web.FactsFrom(ctx).Source
	isDear := false // an imported secret was checked
	admit := func() (caller secret.Caller, err error) {
		caller, wait := s.throttle.BeginSecret(c.ID, source)
		if isDear = wait == 0; !isDear {
			web.OutcomeOf(ctx).Throttled = true
			s.auditRefusal(ctx, store.AuditLine{What: store.AuditThrottle, Reason: web.ClientRefused})
			err = tooMany(wait)
		}
		return caller, err
	}
	client, err := s.site.Store.AuthenticateClient(ctx, c.ID, c.Secret, admit)
	if errors.Is(err, record.ErrMismatch) && s.site.Testers && (c.RawID != c.ID || c.rawSecret != c.Secret) {
		// Many programs do not form-encode, and the secrets that testers choose hold
		// +, % and :.
		client, err = s.site.Store.AuthenticateClient(ctx, c.RawID, c.rawSecret, admit)
	}
	if errors.Is(err, record.ErrMismatch) {
		if isDear {
			s.throttle.FailedSecret(c.ID, source)
		}
		if tooSoon := s.throttledClient(r); tooSoon != nil {
			return store.Client{}, tooSoon.Because(err)
		}
		return store.Client{}, web.InvalidClient().Because(err)
	}
	if err != nil {
		return store.Client{}, err
	}
	web.Note(ctx, slog.String("client_id", client.ID))
	return client, nil
}

// throttledClient counts a failed client authentication and returns a refusal if the
// source has failed too often, or nil.
func (s *Server) throttledClient(r *http.Request) *web.Problem {
	ctx := r.Context()
	const reason = web.ClientRefused
	web.OutcomeOf(ctx).Refusal = reason
	if isForeignPage(s.site, r) {
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditRefused, Reason: reason})
		return nil
	}
	if wait := s.throttle.Failed(web.FactsFrom(ctx).Source); wait > 0 {
		web.OutcomeOf(ctx).Throttled = true
		s.auditRefusal(ctx, store.AuditLine{What: store.AuditThrottle, Reason: reason})
		return tooMany(wait)
	}
	s.auditRefusal(ctx, store.AuditLine{What: store.AuditRefused, Reason: reason})
	return nil
}

// isForeignPage reports whether a page of another site sent the request, and not one of a
// public client. Any page can do that in its visitor's browser, also without CORS, so its
// failures are not the visitor's: they would be kept from signing in. A program that sends
// such an Origin gains nothing, since the right secret never waits.
func isForeignPage(s *web.Site, r *http.Request) bool {
	return s.ForeignOrigin(r) != nil && !s.IsPublicClient(r)
}

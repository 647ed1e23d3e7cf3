package oauth

import (
	"errors"
	"log/slog"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// allowRemembered sends the user on without a consent screen if they allowed all that is
// requested before, and the client remembers consent. It reports whether it did.
func (s *Server) allowRemembered(w http.ResponseWriter, r *http.Request, a authRequest,
	session *web.BrowserSession) (done bool, err error) {
	if a.client.ConsentEpoch.IsZero() || a.hasPrompt("consent") || a.hasPrompt("select_account") || !isNavigation(r) {
		return false, nil
	}
	code, err := s.site.Store.AllowRemembered(r.Context(), store.Consent{Amr: session.Amr,
		Client: a.client, User: session.User, RedirectURI: a.redirectURI, Scope: a.scope, Challenge: a.challenge,
	})
	if errors.Is(err, record.ErrNotFound) {
		return false, nil
	}
	if errors.Is(err, store.ErrTooOften) {
		return false, allowedTooOften().Because(err)
	}
	if err != nil {
		return false, err
	}
	web.Note(r.Context(), slog.String("client_id", a.client.ID), slog.String("user_id", session.User.Subject()),
		slog.String("decision", "remembered"))
	a.redirectWithCode(w, s.site.IssuerOf(r), code)
	return true, nil
}

// isNavigation reports whether a person's browser opens the request as a page of its own.
// A frame, a script's request and a guess of what the person opens next are none (W3C
// Fetch Metadata). Browsers that do not say so are believed: SameSite=Lax keeps the
// session out of other sites' frames and scripts.
func isNavigation(r *http.Request) bool {
	mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	for _, guess := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if r.Header.Get(guess) != "" {
			return false
		}
	}
	return r.Method == http.MethodGet && (mode == "" || mode == "navigate") && (dest == "" || dest == "document")
}

package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// showConsent asks the user.
func (s *Server) showConsent(w http.ResponseWriter, r *http.Request, a authRequest, session *browserSession) error {
	var permissions []string
	for _, name := range (a.scope.Effective()).Names() {
		permissions = append(permissions, views.ScopeWords(name))
	}
	account, err := s.accountName(r.Context(), session.User.Account)
	if err != nil {
		return err
	}
	pageHeaders(w, true, a.redirectURI)
	s.render(w, r, http.StatusOK, views.Consent(views.ConsentProps{
		Page: s.signedInPage(r), ClientName: a.client.Name, Username: session.User.Username,
		NotYouURL:   "/oauth/v2/auth?" + a.toSignIn(),
		Permissions: permissions, Account: account, GoesTo: goesTo(a.redirectURI),
		Action: "/consent", Ticket: s.sealTicket(a, session), AccountURL: "/account",
	}))
	return nil
}

// accountName returns the account's display name, or its id.
func (s *Server) accountName(ctx context.Context, id string) (string, error) {
	a, err := s.store.FindAccount(ctx, id)
	if errors.Is(err, record.ErrNotFound) || err == nil && a.Name == "" {
		return id, nil
	}
	return a.Name, err
}

// goesTo returns where the browser goes next: a host, or the application of a
// private scheme.
func goesTo(redirectURI string) string {
	u, err := url.Parse(redirectURI)
	if err != nil || u.Host == "" {
		scheme, _, _ := strings.Cut(redirectURI, ":")
		return "the application " + scheme
	}
	return u.Host
}

// consent is POST /consent.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) error {
	p, err := parseBody(w, r)
	if err != nil {
		return err
	}
	if refused := p.refuseRepeated("ticket", "decision"); refused != nil {
		return refused
	}
	session, err := s.session(r)
	if err != nil {
		return err
	}
	t, sound := s.openTicket(p.value("ticket"))
	if session == nil || p.has("ticket") && sound && !t.belongsTo(s, session) || !p.has("ticket") {
		return startAgain(http.StatusForbidden, "It belongs to another sign-in.")
	}
	if !sound {
		return startAgain(http.StatusBadRequest, "The form is damaged, or the server has been set up again since.")
	}
	if !s.store.Now().Before(t.ends(s.store.Lifetimes())) {
		return startAgain(http.StatusBadRequest, "It was left unanswered for too long.")
	}
	a, refusal, err := s.parseAuthRequest(r.Context(), t.Query)
	if err != nil {
		return err
	}
	if refusal != nil {
		return startAgain(http.StatusBadRequest, "The application may no longer ask for this.")
	}
	note(r.Context(), slog.String("client_id", a.client.ID), slog.String("user_id", session.User.Subject()))
	switch p.value("decision") {
	case "allow":
		return s.allow(w, r, a, t, session)
	case "deny":
		return s.deny(w, r, a, t, session)
	}
	return invalidRequest("The parameter decision must be allow or deny.").on("decision")
}

func (s *Server) allow(w http.ResponseWriter, r *http.Request, a authRequest, t ticket, session *browserSession) error {
	if !t.Scope.Covers(a.scope) {
		return startAgain(http.StatusBadRequest, "The application now has more permissions than this page listed.")
	}
	code, err := s.store.Allow(r.Context(), s.consentTo(a, t, session))
	switch {
	case errors.Is(err, record.ErrReplayed):
		return alreadyDecided().because(err)
	case errors.Is(err, record.ErrDisabled):
		return startAgain(http.StatusForbidden, "The user or the application has been disabled in the meantime.").because(err)
	case errors.Is(err, store.ErrTooOften):
		return allowedTooOften().because(err)
	case err != nil:
		return err
	}
	note(r.Context(), slog.String("decision", "allow"))
	s.redirectWithCode(w, r, a, code)
	return nil
}

// consentTo is what a decision on t is about.
func (s *Server) consentTo(a authRequest, t ticket, session *browserSession) store.Consent {
	return store.Consent{
		Client: a.client, User: session.User, RedirectURI: a.redirectURI, Scope: a.scope, Challenge: a.challenge,
		Ticket: secret.HashOf(t.ID), TicketEnds: t.ends(s.store.Lifetimes()), Epoch: t.Epoch,
	}
}

func (s *Server) deny(w http.ResponseWriter, r *http.Request, a authRequest, t ticket, session *browserSession) error {
	err := s.store.Deny(r.Context(), s.consentTo(a, t, session))
	if errors.Is(err, record.ErrReplayed) {
		return alreadyDecided().because(err)
	}
	if err != nil {
		return err
	}
	note(r.Context(), slog.String("decision", "deny"))
	// Denying costs nothing, so a user could fill the audit record with it.
	s.auditBounded(r.Context(), store.AuditLine{
		What: store.AuditDenied, Reason: "denied_by_user",
		ClientID: a.client.ID, UserID: session.User.Subject(), AccountID: session.User.Account,
	})
	s.redirectDenied(w, r, a)
	return nil
}

// allowedTooOften refuses a client that keeps requesting codes for a user.
func allowedTooOften() *problem {
	return tooOften("The client requests codes for this user too often", store.ClientGrantEvery).asPage(pageText{
		title: "Too many requests", message: "The application asks for access in your name too often. Nothing was allowed.",
		next: "Wait a moment, then start again from the application.",
	})
}

func startAgain(status int, message string) *problem {
	return newProblem(status, "invalid_ticket", "The consent ticket is invalid, expired or from another sign-in.").asPage(pageText{
		title: "This request is no longer valid", message: message + " Nothing was allowed.",
		next: "Start again from the application.",
	})
}

func alreadyDecided() *problem {
	return newProblem(http.StatusBadRequest, "invalid_ticket", "This consent ticket was already used.").asPage(pageText{
		title: "You have already answered", message: "Only your first answer counts.",
		next: "If the application did not continue, start again from there.",
	})
}

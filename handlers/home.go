package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/stats"
	"tollhouse/views"
)

const (
	eventsHomeMax  = 10
	firstUserAdded = "tollhouse user create NAME --operator"
)

func (s *Server) home(w http.ResponseWriter, r *http.Request) error {
	session, err := s.session(r)
	if err != nil {
		return err
	}
	props := views.HomeProps{Page: s.page(r), SignInURL: "/login", SignOutURL: "/logout", Links: []views.Link{
		{Label: "API reference", Href: docsPath, Note: "every endpoint, with examples"},
	}}
	if session != nil {
		err = s.homeOfUser(r, session, &props)
	} else {
		err = s.homeOfStranger(r, &props)
	}
	if err != nil {
		return err
	}
	if s.demo != nil {
		props.Version, props.Steps = s.version, s.firstSteps(s.issuerOf(r))
		if store.MatchRedirectURI(s.demo.RedirectURI, s.demoCallback(r)) {
			props.Links = append([]views.Link{{Label: "Try the sign-in", Href: s.demoAuthorizePath(r), Note: "sign in, allow or deny, and see what an application receives"}}, props.Links...)
		}
	}
	pageHeaders(w, session != nil, "") // without a session the page has no form
	s.render(w, r, http.StatusOK, views.Home(props))
	return nil
}

// homeOfStranger adds what a stranger sees: no command and no version, but for whoever
// sits at the machine of a server without users.
func (s *Server) homeOfStranger(r *http.Request, props *views.HomeProps) error {
	props.Links = append(props.Links, views.Link{Label: "Service status", Href: "/readyz", Note: "says ok when the server accepts requests"})
	if !isAtTheMachine(r) {
		return nil
	}
	users, err := s.store.ListUsers(r.Context(), "", 1)
	if err == nil && len(users) == 0 {
		props.FirstUser = firstUserAdded
	}
	return err
}

// isAtTheMachine reports whether a request comes from this machine for a loopback host,
// through no proxy.
func isAtTheMachine(r *http.Request) bool {
	return !isForwarded(r) && peerAddr(r.RemoteAddr).IsLoopback() && isLoopbackHost(strings.ToLower(hostWithoutPort(r.Host)))
}

func (s *Server) homeOfUser(r *http.Request, session *browserSession, props *views.HomeProps) error {
	props.Page, props.Username, props.FormToken = s.signedInPage(r), session.User.Username, s.logoutToken(session.token)
	props.Links = append([]views.Link{{Label: "Your account", Href: "/account", Note: "applications with access, your sign-ins, your password"}}, props.Links...)
	granted, whole, err := s.store.ListGranted(r.Context(), session.User)
	if err != nil {
		return err
	}
	props.Access = accessWords(len(granted), whole)
	if props.Events, err = s.homeEvents(r.Context(), session.User.Account); err != nil {
		return err
	}
	if s.desk == nil || !session.User.Operator {
		return nil
	}
	if !s.deskAdmits(r) {
		if !s.isPrivate(r) {
			props.DeskNote = "The desk is not shown here: over plain http, a password would be readable on the network."
		}
		return nil
	}
	props.DeskURL = deskPath
	props.Figures, err = s.homeFigures(r.Context())
	return err
}

// homeFigures are those of the last 24 hours.
func (s *Server) homeFigures(ctx context.Context) ([]views.Detail, error) {
	day, _ := stats.NewRange(stats.RangeDefault, s.store.Now())
	plots, err := s.store.Plots(ctx, day, "")
	if err != nil {
		return nil, err
	}
	return []views.Detail{
		{Label: "Events", Value: grouped(totalOf(plots, stats.PlotEvents))},
		{Label: "Sign-ins refused", Value: grouped(seriesOf(plots, stats.PlotSignIns, "refused").Total)},
		{Label: "Tokens issued", Value: grouped(totalOf(plots, stats.PlotTokens))},
	}, nil
}

func accessWords(n int, whole bool) string {
	switch {
	case !whole:
		return fmt.Sprintf("At least %d applications have access to your account.", n)
	case n == 0:
		return "No application has access to your account."
	case n == 1:
		return "1 application has access to your account."
	}
	return fmt.Sprintf("%d applications have access to your account.", n)
}

// homeEvents returns the newest events of an account.
func (s *Server) homeEvents(ctx context.Context, account string) (shown []views.HomeEvent, err error) {
	page, err := s.store.ListEvents(ctx, account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: eventsHomeMax}, nil)
	if err != nil {
		return nil, err
	}
	var events []shownEvent
	if err := json.Unmarshal([]byte("["+strings.TrimSuffix(string(page.Data), ",")+"]"), &events); err != nil {
		return nil, fmt.Errorf("read the newest events: %w", err)
	}
	now := s.store.Now()
	for _, e := range events {
		row := views.HomeEvent{ID: e.ID, Type: e.Type, Resource: e.Resource, When: moment(time.Unix(e.CreatedAt, 0), now)}
		if row.Changes, err = e.changes(); err != nil {
			return nil, err
		}
		if more := len(row.Changes) - changesShownMax; more > 0 {
			row.Changes, row.More = row.Changes[:changesShownMax], fmt.Sprintf("And %d more.", more)
		}
		shown = append(shown, row)
	}
	return shown, nil
}

func (s *Server) demoAuthorizePath(r *http.Request) string {
	q := url.Values{"client_id": {s.demo.ClientID}, "response_type": {"code"}, "redirect_uri": {s.demoCallback(r)}, "state": {"demo"}}
	return "/oauth/v2/auth?" + q.Encode()
}

// firstSteps are dev's commands to paste. Its credentials are fixed and public; a seed
// file may have none.
func (s *Server) firstSteps(issuer string) []views.Step {
	if s.demo.ClientSecret == "" || s.demo.Password == "" {
		return nil
	}
	return []views.Step{
		{Title: "Get a token", Command: fmt.Sprintf("curl %s/oauth/v2/token -d grant_type=password -d client_id=%s -d client_secret=%s -d username=%s -d password='%s'",
			issuer, s.demo.ClientID, s.demo.ClientSecret, s.demo.Username, s.demo.Password)},
		{Title: "List events with it", Command: fmt.Sprintf("curl '%s/api/events?limit=3' -H 'Authorization: Bearer ACCESS_TOKEN'", issuer)},
	}
}

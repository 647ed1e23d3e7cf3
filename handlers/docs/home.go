package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/desk"
	"tollhouse/handlers/web"
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
	session, err := s.site.Session(r)
	if err != nil {
		return err
	}
	props := views.HomeProps{Page: s.site.Page(r), SignInURL: "/login", SignOutURL: "/logout", DocsURL: web.DocsPath, AccountURL: "/account", StatusURL: "/readyz"}
	if session != nil {
		err = s.homeOfUser(r, session, &props)
	} else {
		err = s.homeOfStranger(r, &props)
	}
	if err != nil {
		return err
	}
	if s.site.Testers {
		props.ControlsURL = web.DevPath + "/"
	}
	if s.site.Demo != nil {
		props.Version = s.site.Version
		props.TokenCommand, props.ListCommand = s.firstSteps(s.site.IssuerOf(r))
		if store.MatchRedirectURI(s.site.Demo.RedirectURI, s.oauth.DemoCallback(r)) {
			props.TryURL = s.demoAuthorizePath(r)
		}
	}
	forms := web.Nowhere
	if session != nil {
		forms = web.ToUs
	}
	web.PageHeaders(w, forms)
	s.site.Render(w, r, http.StatusOK, views.Home(props))
	return nil
}

// homeOfStranger adds what a stranger sees: no command and no version, but for whoever
// sits at the machine of a server without users.
func (s *Server) homeOfStranger(r *http.Request, props *views.HomeProps) error {
	if !isAtTheMachine(r) {
		return nil
	}
	users, err := s.site.Store.ListUsers(r.Context(), "", 1)
	if err == nil && len(users) == 0 {
		props.FirstUser = s.oauth.Command(firstUserAdded)
	}
	return err
}

// isAtTheMachine reports whether a request comes from this machine for a loopback host,
// through no proxy.
func isAtTheMachine(r *http.Request) bool {
	return !web.IsForwarded(r) && web.PeerAddr(r.RemoteAddr).IsLoopback() && web.IsLoopbackHost(strings.ToLower(web.HostWithoutPort(r.Host)))
}

func (s *Server) homeOfUser(r *http.Request, session *web.BrowserSession, props *views.HomeProps) error {
	props.Page, props.Username, props.FormToken = s.site.SignedInPage(r), session.User.Username, s.site.SessionFormToken(web.LogoutForm, session.Token)
	granted, whole, err := s.site.Store.ListGranted(r.Context(), session.User)
	if err != nil {
		return err
	}
	props.Applications, props.Uncounted = len(granted), !whole
	if props.Events, err = s.homeEvents(r.Context(), session.User.Account); err != nil {
		return err
	}
	if !s.desk.IsOn() || !session.User.Operator {
		return nil
	}
	if !s.desk.Admits(r) {
		props.DeskUnsafe = !s.site.IsPrivate(r)
		return nil
	}
	props.DeskURL = web.DeskPath
	props.LastDay, err = s.lastDay(r.Context())
	return err
}

// lastDay counts what happened in the last 24 hours.
func (s *Server) lastDay(ctx context.Context) (*views.DayCounts, error) {
	day, _ := stats.NewRange(stats.RangeDefault, s.site.Store.Now())
	plots, err := s.site.Store.Plots(ctx, day, "")
	if err != nil {
		return nil, err
	}
	return &views.DayCounts{
		Events: desk.TotalOf(plots, stats.PlotEvents), Refused: desk.SeriesOf(plots, stats.PlotSignIns, "refused").Total, Tokens: desk.TotalOf(plots, stats.PlotTokens),
	}, nil
}

// homeEvents returns the newest events of an account.
func (s *Server) homeEvents(ctx context.Context, account string) (shown []views.HomeEvent, err error) {
	page, err := s.site.Store.Events.ListEvents(ctx, account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: eventsHomeMax}, nil)
	if err != nil {
		return nil, err
	}
	var events []api.ShownEvent
	if err := json.Unmarshal([]byte("["+strings.TrimSuffix(string(page.Data), ",")+"]"), &events); err != nil {
		return nil, fmt.Errorf("read the newest events: %w", err)
	}
	now := s.site.Store.Now()
	for _, e := range events {
		row := views.HomeEvent{ID: e.ID, Type: e.Type, Resource: e.Resource, When: web.Moment(time.Unix(e.CreatedAt, 0), now)}
		if row.Changes, err = e.Changes(); err != nil {
			return nil, err
		}
		if more := len(row.Changes) - api.ChangesShownMax; more > 0 {
			row.Changes, row.More = row.Changes[:api.ChangesShownMax], more
		}
		shown = append(shown, row)
	}
	return shown, nil
}

func (s *Server) demoAuthorizePath(r *http.Request) string {
	q := url.Values{"client_id": {s.site.Demo.ClientID}, "response_type": {"code"}, "redirect_uri": {s.oauth.DemoCallback(r)}, "state": {"demo"}}
	return "/oauth/v2/auth?" + q.Encode()
}

// firstSteps are dev's commands to paste. Its credentials are fixed and public; a seed
// file may have none.
func (s *Server) firstSteps(issuer string) (token, list string) {
	if s.site.Demo.ClientSecret == "" || s.site.Demo.Password == "" {
		return "", ""
	}
	return fmt.Sprintf("curl %s/oauth/v2/token -d grant_type=password -d client_id=%s -d client_secret=%s -d username=%s -d password='%s'",
			issuer, s.site.Demo.ClientID, s.site.Demo.ClientSecret, s.site.Demo.Username, s.site.Demo.Password),
		fmt.Sprintf("curl '%s/api/events?limit=3' -H 'Authorization: Bearer ACCESS_TOKEN'", issuer)
}

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
	props := views.HomeProps{Page: s.site.Page(r)}
	if session != nil {
		err = s.homeOfUser(r, session, &props)
	} else {
		err = s.homeOfStranger(r, &props)
	}
	if err == nil && s.site.Demo != nil {
		props.Demo, err = s.homeDemo(r, session != nil)
	}
	if err != nil {
		return err
	}
	forms := web.Nowhere
	if session != nil {
		forms = web.ToUs
	}
	web.PageHeaders(w, forms)
	if props.Demo != nil {
		web.AllowScript(w, false) // to copy
	}
	s.site.Render(w, r, http.StatusOK, views.Home(props))
	return nil
}

// homeOfStranger adds what a stranger sees: no command and no version, but for whoever
// sits at the machine of a server without users.
func (s *Server) homeOfStranger(r *http.Request, props *views.HomeProps) error {
	props.SignInURL = "/login"
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
	props.Page, props.Username, props.SignOutToken = s.site.SignedInPage(r), session.User.Username, s.site.SessionFormToken(web.LogoutForm, session.Token)
	var err error
	if props.Account, err = web.AccountName(r.Context(), s.site.Store, session.User.Account); err != nil {
		return err
	}
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

// lastDay counts what happened in the last 24 hours, and in those before.
func (s *Server) lastDay(ctx context.Context) (*views.DayCounts, error) {
	now := s.site.Store.Now()
	day, _ := stats.NewRange(stats.RangeDefault, now)
	plots, err := s.site.Store.Plots(ctx, day, "")
	if err != nil {
		return nil, err
	}
	before, err := s.site.Store.Plots(ctx, day.Before(), "")
	if err != nil {
		return nil, err
	}
	return &views.DayCounts{Day: desk.ShownPlots(plots, now), Before: desk.ShownPlots(before, now)}, nil
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

// homeDemo is what dev says to testers: first steps to paste, and where to go with a browser.
// Its credentials are fixed and public; a seed file may have none.
func (s *Server) homeDemo(r *http.Request, isSignedIn bool) (*views.HomeDemo, error) {
	demo := s.site.Demo
	shown := &views.HomeDemo{Version: s.site.Version, Username: demo.Username, Password: demo.Password}
	if s.site.Testers {
		shown.ControlsURL = web.DevPath + "/"
	}
	if s.desk.Admits(r) && !isSignedIn {
		shown.DeskURL = web.DeskPath
	}
	if callback := s.oauth.DemoCallback(r); store.MatchRedirectURI(demo.RedirectURI, callback) {
		q := url.Values{"client_id": {demo.ClientID}, "response_type": {"code"}, "redirect_uri": {callback}, "state": {"demo"}}
		shown.TryURL = "/oauth/v2/auth?" + q.Encode()
	}
	if demo.ClientSecret == "" || demo.Password == "" {
		return shown, nil
	}
	const bearer = " -H 'Authorization: Bearer ACCESS_TOKEN'"
	issuer := s.site.IssuerOf(r)
	shown.TokenCommand = "curl -sS " + web.CurlWord(issuer+"/oauth/v2/token") + " -d grant_type=password" + web.CurlField("client_id", demo.ClientID) +
		web.CurlField("client_secret", demo.ClientSecret) + web.CurlField("username", demo.Username) + web.CurlField("password", demo.Password)
	shown.ListCommand = "curl -sS " + web.CurlWord(issuer+"/api/events?limit=3") + bearer
	customer, err := s.aCustomer(r.Context(), "")
	if customer != "" {
		shown.ChangeCommand = "curl -sS " + web.CurlWord(issuer+"/api/resources/customer/"+customer) + " -X PATCH" + bearer +
			" -H 'Content-Type: application/merge-patch+json' -d " + web.CurlWord(`{"city":"Larkspur"}`)
	}
	return shown, err
}

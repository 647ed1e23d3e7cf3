package oauth

import (
	"net/http"

	"tollhouse/handlers/throttle"
	"tollhouse/handlers/web"
	"tollhouse/store"
)

// SignInForDesk is where somebody signs in for the desk.
const SignInForDesk = "/login?to=" + toDesk

// Config configures a Server.
type Config struct {
	// Command completes the commands in a text with the flags that name this store.
	Command func(text string) string
	// Unthrottled lets guesses pass; only dev has it.
	Unthrottled bool
}

// Server answers clients at the token endpoints, and people at the pages of sign-in,
// consent and account.
type Server struct {
	site     *web.Site
	throttle *throttle.Throttle
	Command  func(string) string // completes commands
	// DeskFor returns the desk's path if the user may open it with such a request, or "";
	// nil without a desk.
	DeskFor func(r *http.Request, u store.User) string
}

// New returns a Server. It starts nothing.
func New(site *web.Site, c Config) *Server {
	s := &Server{site: site, throttle: throttle.New(site.Store.Now), Command: c.Command}
	s.throttle.Off = c.Unthrottled
	return s
}

// Mount adds the routes.
func (s *Server) Mount(r *web.Router) {
	r.On("POST", "/oauth/v2/token", s.token)
	r.On("POST", "/oauth/v2/revoke", s.revoke)
	r.On("POST", "/oauth/v2/introspect", s.introspect)
	r.Get(web.MetadataPath, s.metadata)
	r.Page("GET", "/oauth/v2/auth", s.authorize)

	r.Page("GET", "/login", s.loginForm)
	r.Page("POST", "/login", s.login)
	r.Page("GET", NewPasswordPath, s.newPassword)
	r.Page("POST", NewPasswordPath, s.setNewPassword)
	r.Page("POST", "/consent", s.consent)
	r.Page("POST", "/logout", s.logout)
	r.Page("GET", "/account", s.account)
	r.Page("POST", "/account/revoke", s.revokeClient)
	r.Page("POST", "/account/webhook-off", s.turnOffWebhook)
	r.Page("POST", "/account/sign-out-others", s.signOutOthers)
	r.Page("POST", "/account/password", s.changePassword)
	secondFactor{s, s.site}.mount(r)
	if s.site.Demo != nil {
		r.Page("GET", "/callback", s.callback)
	}
}

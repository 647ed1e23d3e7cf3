package server

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/handlers/web"
	"tollhouse/store/snapshot"
)

// readyLine is what a server prints on standard output when it is ready, for scripts.
// Members may be added and are never removed.
type readyLine struct {
	Ready       int      `json:"ready"` // always 1: the version of this line
	URL         string   `json:"url"`
	Listen      []string `json:"listen"`
	AdminSocket *string  `json:"admin_socket,omitempty"` // of dev only where a directory can be written
	Store       string   `json:"store,omitempty"`        // postgres, or nothing for a data directory
	Version     string   `json:"version"`
	PID         int      `json:"pid"`
	Metrics     string   `json:"metrics,omitempty"`       // the URL of /metrics, if it has its own listener
	Redirect    string   `json:"http_redirect,omitempty"` // the listener that redirects to https, if any
	Dev         string   `json:"dev,omitempty"`           // the URL of dev's controls
	*demoLine
}

// demoLine is what dev adds: the demo's credentials, or the first client and user of a
// seed file, if it has any.
type demoLine struct {
	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"`
	RedirectURI  string `json:"redirect_uri,omitempty"`
	Username     string `json:"username,omitempty"`
	Password     string `json:"password,omitempty"`
	Account      string `json:"account,omitempty"`
	Desk         string `json:"desk,omitempty"` // its URL, if the user is an operator

	PlatformClientID string `json:"platform_client_id,omitempty"`
	PlatformSecret   string `json:"platform_client_secret,omitempty"`

	WebhookEndpoint string `json:"webhook_endpoint,omitempty"`
	WebhookSecret   string `json:"webhook_secret,omitempty"`
}

func addressesOf(listeners []net.Listener) []string {
	addrs := make([]string, len(listeners))
	for i, l := range listeners {
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// announce prints that the server is ready: the ready line for scripts, or a few lines
// for a person on a terminal.
func (p *Program) announce(r *running, demo *web.Demo) {
	line := readyLine{
		Ready: 1, URL: r.server().Site.PublicURL(), Listen: addressesOf(r.listeners), Version: r.version, PID: os.Getpid(),
	}
	if r.admin != nil {
		socket := r.admin.Addr().String()
		line.AdminSocket = &socket
	}
	if r.presence != nil {
		line.Store = "postgres"
		line.AdminSocket = cmp.Or(line.AdminSocket, new(string))
	}
	if r.monitor != nil {
		line.Metrics = baseURL(r.monitor).String() + "/metrics"
	}
	if r.plain != nil {
		line.Redirect = r.plain.Addr().String()
	}
	if demo != nil {
		line.Dev = line.URL + web.DevPath
		line.demoLine = &demoLine{
			ClientID: demo.ClientID, ClientSecret: demo.ClientSecret, RedirectURI: demo.RedirectURI, Username: demo.Username, Password: demo.Password,
			Account: demo.Account, WebhookEndpoint: demo.WebhookEndpoint, WebhookSecret: demo.WebhookSecret,
			PlatformClientID: demo.PlatformClientID, PlatformSecret: demo.PlatformSecret,
		}
		if demo.Operator && r.config.desk != nil {
			line.Desk = line.URL + "/desk"
		}
	}
	if p.JSON || !term.IsTerminal(p.Out) {
		if text, err := snapshot.EncodeJSON(line); err == nil {
			p.Announce(string(text) + "\n") // a closed standard output does not stop the server
		}
		return
	}
	if demo != nil {
		p.Announce(devWelcome(line))
		return
	}
	at := r.at
	p.Announce(serveWelcome(line, at))
}

func devWelcome(l readyLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tollhouse dev %s, in memory: everything is lost when it stops (Ctrl-C)\n\n", l.Version)
	show := func(name, value, rest string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-14s %s%s\n", name, value, rest)
		}
	}
	show("open", l.URL, "")
	show("sign in", l.Username, " / "+l.Password)
	if l.Desk != "" { // signed out, its own address is a 404
		show("desk", l.URL, "/login?to=desk (as "+l.Username+", an operator)")
	}
	secret := ""
	if l.ClientSecret != "" {
		secret = " / " + l.ClientSecret
	}
	show("client", l.ClientID, secret)
	show("platform", l.PlatformClientID, " / "+l.PlatformSecret)
	show("redirect", l.RedirectURI, " (any port)")
	show("account", l.Account, "")
	show("webhook", l.WebhookEndpoint, " / "+l.WebhookSecret)
	show("controls", l.Dev, "")
	if l.AdminSocket != nil {
		show("commands", "tollhouse event list --admin-socket "+term.ShellQuote(*l.AdminSocket), "")
	}
	b.WriteString("\n")
	if l.ClientSecret == "" || l.Username == "" {
		return b.String() // a seed file without them
	}
	token := "curl -s " + term.ShellQuote(l.URL+"/oauth/v2/token") + " -d grant_type=password"
	for _, field := range [][2]string{{"client_id", l.ClientID}, {"client_secret", l.ClientSecret}, {"username", l.Username}, {"password", l.Password}} {
		token += " -d " + field[0] + "=" + url.QueryEscape(field[1]) // fixtures may have any characters
	}
	fmt.Fprintf(&b, `A token:
  %s

The latest events, with a token of their own:
  curl -s %s -H "Authorization: Bearer $(%s | sed 's/.*"access_token":"\([^"]*\)".*/\1/')"

Reset the data:
  curl -s -X POST %s

`, token, term.ShellQuote(l.URL+"/api/events?limit=3"), token, term.ShellQuote(l.Dev+"/reset"))
	return b.String()
}

func serveWelcome(l readyLine, at string) string {
	return fmt.Sprintf(`tollhouse %s is ready at %s, listening on %s (Ctrl-C stops it)

  tollhouse user create NAME %s
  tollhouse client create --name NAME --redirect-uri https://app.example/callback %s
  curl -s %s/readyz

`, l.Version, l.URL, strings.Join(l.Listen, " and "), at, at, l.URL)
}

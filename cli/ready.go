package cli

import (
	"fmt"
	"net"
	"os"
	"strings"

	"tollhouse/handlers"
)

// readyLine is what a script reads from a server's standard output, once it
// answers. Its form is a promise: members may be added, and none is removed.
type readyLine struct {
	Ready       int      `json:"ready"` // always 1: the version of this line
	URL         string   `json:"url"`
	Listen      []string `json:"listen"`
	AdminSocket string   `json:"admin_socket"`
	Version     string   `json:"version"`
	PID         int      `json:"pid"`
	*demoLine
}

// demoLine is what dev adds.
type demoLine struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RedirectURI  string `json:"redirect_uri"`
	Username     string `json:"username"`
	Password     string `json:"password"`
	Account      string `json:"account"`
}

func addressesOf(listeners []net.Listener) []string {
	addrs := make([]string, len(listeners))
	for i, l := range listeners {
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// announce says that the server answers: a line for scripts, or, on a terminal,
// a few for a person.
func (p *program) announce(r *running, demo *handlers.Demo) {
	line := readyLine{
		Ready: 1, URL: r.server.Issuer(), Listen: addressesOf(r.listeners), AdminSocket: r.admin.Addr().String(),
		Version: version(), PID: os.Getpid(),
	}
	if demo != nil {
		line.demoLine = &demoLine{demo.ClientID, demo.ClientSecret, demo.RedirectURI, demo.Username, demo.Password, demo.Account}
	}
	if p.json || !isTerminal(p.stdout) {
		_ = p.printJSON(line) // whoever does not listen is not served worse for it
		return
	}
	if demo != nil {
		fmt.Fprint(p.stdout, devWelcome(line))
		return
	}
	fmt.Fprint(p.stdout, serveWelcome(line, p.data))
}

func devWelcome(l readyLine) string {
	token := fmt.Sprintf("curl -s %s -d grant_type=password -d client_id=%s -d client_secret=%s -d username=%s -d password=%s",
		quoteForShell(l.URL+"/oauth/v2/token"), l.ClientID, l.ClientSecret, l.Username, l.Password)
	return fmt.Sprintf(`tollhouse dev %s, in memory: all is gone when it stops (Ctrl-C)

  open           %s
  sign in        %s / %s
  client         %s / %s
  redirect       %s (any port)
  account        %s
  other commands tollhouse event list --admin-socket %s

A token:
  %s

The latest events, with a token of their own:
  curl -s %s -H "Authorization: Bearer $(%s | sed 's/.*"access_token":"\([^"]*\)".*/\1/')"

`, l.Version, l.URL, l.Username, l.Password, l.ClientID, l.ClientSecret, l.RedirectURI, l.Account, quoteForShell(l.AdminSocket),
		token, quoteForShell(l.URL+"/api/events?limit=3"), token)
}

func serveWelcome(l readyLine, data string) string {
	data = quoteForShell(data)
	return fmt.Sprintf(`tollhouse %s answers at %s, listening on %s (Ctrl-C stops it)

  tollhouse user create NAME --data %s
  tollhouse client create --name NAME --redirect-uri https://app.example/callback --data %s
  curl -s %s/readyz

`, l.Version, l.URL, strings.Join(l.Listen, " and "), data, data, l.URL)
}

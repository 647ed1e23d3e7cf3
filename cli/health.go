package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
)

// healthWait bounds the request to a URL.
const healthWait = 10 * time.Second

func (p *program) healthCommand() *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "health",
		Short: "check whether the server is ready; exit 0 if it is",
		Long: `Check whether the server is ready: exit 0 if it is, 1 if it is not, 69 if no server
answers. It uses the admin socket. With --url, or if no server answers on that socket, it
requests /readyz from the URL or from the first address of TOLLHOUSE_LISTEN, so it also
works in a container that runs tollhouse dev.`,
		Args: operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			if address != "" {
				return p.healthOf(ctx, address)
			}
			err := p.healthOnSocket(ctx)
			if listens := p.listenURL(); listens != "" && isUnanswered(err) {
				return p.healthOf(ctx, listens)
			}
			return err
		}),
	}
	c.Flags().StringVar(&address, "url", "", "`URL` of the server to check, instead of the admin socket (default: without a socket, the first address of TOLLHOUSE_LISTEN)")
	return c
}

func (p *program) healthOnSocket(ctx context.Context) error {
	if p.store.Given() && p.adminSocket == "" {
		return term.Fail(term.ExitUnreachable, "name a server with --url or --admin-socket; tollhouse status lists all servers of the database", "no server is named")
	}
	a, err := p.connectRunning(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	var state struct {
		Status string `json:"status"`
	}
	if err := a.call(ctx, "GET", "/readyz", nil, &state); err != nil {
		return notReady(err)
	}
	return p.Done(map[string]string{"status": state.Status, "url": a.info.URL, "version": a.info.Version},
		"ready: tollhouse %s at %s", a.info.Version, a.info.URL)
}

// isUnanswered reports whether the socket gave no answer, perhaps because we may not
// open its directory: the user of a container need not be that of its image.
func isUnanswered(err error) bool {
	return err != nil && term.FailureOf(err).Code == term.ExitUnreachable || errors.Is(err, fs.ErrPermission)
}

// notReady is the failure when a server answers that it is not ready.
func notReady(err error) error {
	f := term.FailureOf(err)
	if f.Code != term.ExitBusy {
		return err
	}
	return term.Fail(term.ExitFailed, "see Monitoring in docs/operations.md for what to do", "%w", f.Err)
}

// healthOf asks the server at a URL.
func (p *program) healthOf(ctx context.Context, address string) error {
	address = strings.TrimSuffix(address, "/")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return term.Usage("give it as http://127.0.0.1:8080", "--url %q is not the URL of a server", term.MaskedURL(address))
	}
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		var inURL *url.Error
		if errors.As(err, &inURL) {
			err = inURL.Err
		}
		return term.Fail(term.ExitUnreachable, "start a server, or name a running one with --url", "no server answers at %s: %w", address, term.SystemReason(err))
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return p.Done(map[string]string{"status": "ok", "url": address}, "ready: %s", address)
	case http.StatusServiceUnavailable:
		because := ""
		if f := term.FailureOf(refusal(answer)); f.Code == term.ExitBusy { // it says why
			because = ": " + f.Error()
		}
		return term.Fail(term.ExitFailed, "see Monitoring in docs/operations.md for what to do", "the server at %s is not ready%s", address, because)
	}
	return term.Fail(term.ExitFailed, "check with curl what listens there", "%s/readyz answers with status %d, so it is not tollhouse", address, answer.StatusCode)
}

// listenURL returns the URL of the first address of TOLLHOUSE_LISTEN, or "".
func (p *program) listenURL() string {
	for _, pair := range p.environ {
		value, found := strings.CutPrefix(pair, variablePrefix+"LISTEN=")
		addresses := term.SplitLists(strings.Fields(value))
		if !found || len(addresses) == 0 {
			continue
		}
		host, port, err := net.SplitHostPort(addresses[0])
		if err != nil || port == "0" {
			return ""
		}
		// A server that listens on all addresses also listens on loopback.
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			host = "127.0.0.1"
			if ip.Is6() {
				host = "::1"
			}
		}
		return "http://" + net.JoinHostPort(host, port)
	}
	return ""
}

package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/cli/webhooks"
	"tollhouse/store/secret"
)

const (
	listenTimeout     = 30 * time.Second // of one attempt
	listenDialTimeout = 10 * time.Second
	listenRetry       = time.Second
	listenDrainMax    = 64 << 10 // bytes of an answer that are read, to use the connection again

	webhookSecretFileMax = 128 // bytes
)

func (p *program) webhookListen() *cobra.Command {
	var forwardTo, account, after, secretFile string
	var all bool
	var types []string
	var since term.Ago
	c := &cobra.Command{
		Use:   "listen --forward-to URL",
		Short: "post events to a program on this machine as they are recorded, until interrupted",
		Long: `Post the events of an account to a program on this machine, until interrupted. Each event
is one signed request, as for a webhook endpoint, in the order of the log. No endpoint is
created, and any URL is allowed.

This needs a running server, or a database named with --store. If the server restarts,
listen continues where it was. If no program answers at the URL, listen tries the event
again every second. A response other than 2xx is printed, and the next event follows.`,
		Args: operands(),
	}
	flags := c.Flags()
	flags.StringVar(&forwardTo, "forward-to", "", "the `URL` to post to, such as http://127.0.0.1:3000/hook")
	addAccountFlag(c, &account)
	addAllAccountsFlag(c, &all)
	addTypeFlag(c, &types)
	flags.Var(&since, "since", "start with events at or after this `time`: 2026-03-09, RFC 3339, Unix seconds, or an age such as 2h")
	flags.StringVar(&after, "after", "", "start after the event with this `id`")
	flags.StringVar(&secretFile, "secret-file", "", "`file` with the secret to sign with, created if it does not exist; without it each run has a new secret")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if err := checkForwardTo(forwardTo); err != nil {
			return err
		}
		t, err := p.newTail(all, filterQuery(account, types, nil), since, after)
		if err != nil {
			return err
		}
		key, err := p.listenSecret(secretFile)
		if err != nil {
			return err
		}
		l := &listener{p: p, to: forwardTo, key: key, client: newListenClient(), retry: listenRetry}
		t.ready, t.event = l.ready, l.forward
		err = inFlags(listFlags, t.run(ctx))
		if ctx.Err() != nil {
			return t.resumable(err)
		}
		return err
	})
	return c
}

func checkForwardTo(to string) error {
	const example = "give it as http://127.0.0.1:3000/hook"
	if to == "" {
		return term.Usage(example, "webhook listen needs --forward-to")
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return term.Usage(example, "--forward-to %q is not the URL of a program", term.MaskedURL(to))
	}
	return nil
}

// listenSecret reads the secret from file, or makes one and writes it there if the file
// does not exist.
func (p *program) listenSecret(file string) (secret.Token, error) {
	if file == "" {
		return secret.NewWebhookSecret(nil), nil
	}
	if file != "-" {
		made := secret.NewWebhookSecret(nil)
		switch err := writeNewFile(file, made.Reveal()+"\n"); {
		case err == nil:
			return made, nil
		case !errors.Is(err, fs.ErrExist):
			return secret.Token{}, term.Fail(term.ExitCannotCreate, "name a file in a directory that you may write", "--secret-file %s: %w", file, term.PathReason(err))
		}
	}
	return p.readWebhookSecret(file)
}

func writeNewFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// readWebhookSecret reads a webhook secret from a file, or from standard input.
func (p *program) readWebhookSecret(file string) (secret.Token, error) {
	text, err := p.ReadSecret("webhook secret", "--secret-file", file, webhookSecretFileMax)
	if err != nil {
		return secret.Token{}, err
	}
	key, ok := secret.ParseWebhookSecret(text)
	if !ok {
		return secret.Token{}, term.Usage("give whsec_ and the base64 of 24 to 64 bytes", "--secret-file %s has no webhook secret", file)
	}
	return key, nil
}

func newListenClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:              nil,
			DialContext:        (&net.Dialer{Timeout: listenDialTimeout}).DialContext,
			ForceAttemptHTTP2:  true,
			DisableCompression: true,
			IdleConnTimeout:    90 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       listenTimeout,
	}
}

// listener posts events to a program, one at a time.
type listener struct {
	p      *program
	to     string
	key    secret.Token
	client *http.Client
	retry  time.Duration // between two attempts while the program is away
	begun  bool
}

// attemptShown is the line of one attempt with --json.
type attemptShown struct {
	Event  string `json:"event"`
	Type   string `json:"type"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	MS     int64  `json:"ms"`
}

// ready prints the secret, once.
func (l *listener) ready(after string) error {
	if l.begun {
		return nil
	}
	l.begun = true
	if l.p.JSON {
		return l.p.PrintJSON(struct {
			Ready     int    `json:"ready"`
			ForwardTo string `json:"forward_to"`
			Secret    string `json:"secret"`
			After     string `json:"after"`
		}{1, l.to, l.key.Reveal(), after})
	}
	return l.p.PrintRows(term.Row{"signing secret", l.key.Reveal()}, term.Row{"forward to", l.to})
}

// forward posts an event until a program has received it.
func (l *listener) forward(ctx context.Context, wire []byte) error {
	var e eventShown
	if err := json.Unmarshal(wire, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	if !l.p.JSON {
		fmt.Fprintf(l.p.Out, "--> %s %s\n", term.Visible(e.Type), term.Visible(e.ID))
	}
	for attempt := 1; ; attempt++ {
		start := time.Now()
		status, err := l.post(ctx, e.ID, attempt, wire)
		took := time.Since(start)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		away := isAway(err)
		if !away || attempt == 1 {
			if err := l.report(e, status, err, took, away); err != nil {
				return err
			}
		}
		if !away {
			return nil
		}
		if err := term.Sleep(ctx, l.retry); err != nil {
			return err
		}
	}
}

// post makes one attempt.
func (l *listener) post(ctx context.Context, id string, attempt int, body []byte) (status int, err error) {
	m := webhooks.Message{URL: l.to, ID: id, Body: body, Time: time.Now(), Secrets: []secret.Token{l.key}, Attempt: attempt, Version: version()}
	r, err := m.Request(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, listenDrainMax)
	return answer.StatusCode, answer.Body.Close()
}

func (l *listener) report(e eventShown, status int, err error, took time.Duration, away bool) error {
	line := attemptShown{Event: e.ID, Type: e.Type, Status: status, MS: took.Milliseconds()}
	if err != nil {
		line.Error = l.reason(err)
	}
	switch {
	case l.p.JSON:
		return l.p.PrintJSON(line)
	case away:
		_, err = fmt.Fprintf(l.p.Out, "<-- %s: the event waits until %s answers\n", term.Visible(line.Error), term.Visible(l.to))
	case err != nil:
		_, err = fmt.Fprintf(l.p.Out, "<-- %s after %d ms\n", term.Visible(line.Error), line.MS)
	default:
		_, err = fmt.Fprintf(l.p.Out, "<-- %d in %d ms\n", status, line.MS)
	}
	return err
}

// isAway reports whether no program took the request: it is not running, or it exited
// before it answered. Our choice: one that is silent for too long has received the event.
func isAway(err error) bool {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.As(err, &certificate):
		return true
	case errors.As(err, &op):
		return op.Op == "dial" || !op.Timeout()
	}
	return false
}

// reason says why an attempt failed, without the URL.
func (l *listener) reason(err error) string {
	var failed *url.Error
	if errors.As(err, &failed) {
		if failed.Timeout() && !isAway(err) {
			return fmt.Sprintf("no answer in %s", l.client.Timeout)
		}
		err = failed.Err
	}
	var inDNS *net.DNSError
	switch {
	case errors.As(err, &inDNS):
		return "unknown host " + inDNS.Name
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the program closed the connection"
	}
	return term.SystemReason(err).Error()
}

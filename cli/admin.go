package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// admin is a client of the admin API, over a socket or in this process.
type adminClient struct {
	http *http.Client
	info admin.AdminInfo
	// database is what the servers of a database agreed on, or nil.
	database *database.Opened

	own       bool         // served by this process, without a server's address
	keyless   bool         // in this process without the server key, so it cannot seal secrets
	wanted    string       // the fingerprint of the key that the data wants, or ""
	created   string       // the data directory or database in which a store was created, or ""
	discard   func() error // removes that store; nil if it is kept
	failed    bool         // the command failed, so close discards a store without facts
	discarded bool
	fatal     func() error // returns the write failure that left the store unusable, or nil
	close     func() error
}

const answerSizeMax = 64 << 20 // bytes of an answer that is read whole: a page of 500 clients at their largest

// newSocketAdmin returns a client of the server on the socket at path.
func newSocketAdmin(path string) *adminClient {
	transport := datadir.SocketTransport(path)
	return &adminClient{
		http:  &http.Client{Transport: transport},
		fatal: func() error { return nil },
		close: func() error { transport.CloseIdleConnections(); return nil },
	}
}

// requireKey refuses to seal or open secrets with another key than the server's.
func (a *adminClient) requireKey() error {
	if a.keyless && a.wanted != "" {
		return term.Fail(term.ExitConfig, "name the key file with --key-file, or run the command while the server is running", "this command needs the server key with the fingerprint %s, but the key here is a different one", a.wanted)
	}
	if a.keyless {
		return term.Fail(term.ExitConfig, "name the key file with --key-file, or run the command while the server is running", "this command needs the server key, which cannot be read")
	}
	return nil
}

// ask fetches adminInfo. It fails if no server answers.
func (a *adminClient) ask(ctx context.Context) error {
	if !a.own { // a stopped process accepts connections but never answers
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, datadir.LockTries)
		defer cancel()
	}
	return a.call(ctx, "GET", "/admin/info", nil, &a.info)
}

// call sends in as JSON, when it is not nil, and reads the answer into out,
// when that is not nil. A refusal becomes a term.Failure with its exit code.
func (a *adminClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	answer, err := a.send(ctx, method, path, "application/json", body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerSizeMax))
	if err != nil {
		return brokenAnswer(err)
	}
	if out == nil || answer.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return term.Fail(term.ExitFailed, "use the same version of tollhouse as the server", "cannot read the server's answer: %w", err)
	}
	return nil
}

// send makes one request and returns a successful answer. The caller closes its
// body.
func (a *adminClient) send(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, adminURL(path), body)
	if err != nil {
		return nil, fmt.Errorf("compose the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if method == http.MethodPut { // a command that creates changes nothing that exists
		req.Header.Set("If-None-Match", "*")
	}
	return a.do(req)
}

func adminURL(path string) string { return "http://tollhouse" + path }

// do is send for a prepared request.
func (a *adminClient) do(req *http.Request) (*http.Response, error) {
	answer, err := a.http.Do(req)
	if err != nil {
		return nil, brokenAnswer(err)
	}
	if answer.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, refusal(answer)
}

// brokenAnswer is the failure when the server went away.
func brokenAnswer(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // without the address, which is a placeholder
	}
	return term.Fail(term.ExitUnreachable, "check that the server is running: tollhouse health", "the server did not answer: %w", err)
}

// refusal turns an error answer into a term.Failure.
func refusal(answer *http.Response) error {
	var refused struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
		Param       string `json:"param"`
		Hint        string `json:"hint"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerSizeMax))
	if err != nil {
		return brokenAnswer(err)
	}
	if json.Unmarshal(text, &refused) != nil || refused.Description == "" {
		return term.Fail(term.ExitFailed, "", "the server answered with status %d", answer.StatusCode)
	}
	f := &term.Failure{Code: term.ExitFailed, Hint: refused.Hint, Err: errors.New(asClause(refused.Description)), Param: refused.Param}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType:
		f.Code = term.ExitUsage
	case http.StatusNotFound, http.StatusGone:
		f.Code = term.ExitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		f.Code = term.ExitConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Code = term.ExitNotAllowed
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		f.Code = term.ExitBusy
	}
	if refused.Code == admin.StoreDamaged || refused.Code == web.DiskFull {
		f.Code = term.ExitIO
	}
	if f.Hint == "" && f.Code == term.ExitFailed {
		f.Hint = "see the server's log for request id " + answer.Header.Get("X-Request-Id")
	}
	return f
}

// pathOf makes a path of the calls of management, which have the same paths over the
// network.
func pathOf(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return web.PlatformPath + "/" + strings.Join(parts, "/")
}

// adminPathOf makes a path of the calls that only the admin API has. Names are escaped twice
// (admin.NameIn).
func adminPathOf(noun string, parts ...string) string {
	path := "/admin/" + noun
	for _, part := range parts {
		path += "/" + url.PathEscape(url.PathEscape(part))
	}
	return path
}

// userNamed returns a user, who has a name for people and an id for calls.
func (a *adminClient) userNamed(ctx context.Context, name string) (admin.AdminUser, error) {
	var found api.Page[admin.AdminUser]
	if err := a.call(ctx, "GET", pathOf("users")+"?"+url.Values{"username": {name}}.Encode(), nil, &found); err != nil {
		return admin.AdminUser{}, err
	}
	if len(found.Data) == 0 {
		return admin.AdminUser{}, term.Fail(term.ExitNotFound, "tollhouse user list shows the users", "unknown user %q", web.ShownName(name))
	}
	return found.Data[0], nil
}

// userPath returns the path of a user.
func userPath(ctx context.Context, a *adminClient, name string) (string, error) {
	u, err := a.userNamed(ctx, name)
	return pathOf("users", u.UserID), err
}

// ofUser makes one call below the path of a user.
func (a *adminClient) ofUser(ctx context.Context, name, method, below string, in, out any) error {
	path, err := userPath(ctx, a, name)
	if err != nil {
		return err
	}
	return a.call(ctx, method, path+below, in, out)
}

// list walks a list of the admin API for a command. With --json it prints each
// item; otherwise it passes the item to row.
func list[T any](ctx context.Context, p *program, command, path string, row func(T)) error {
	return p.manage(ctx, command, needsData, func(a *adminClient) error {
		return each(ctx, a, path, func(item T) error {
			if p.JSON {
				return p.PrintJSON(item)
			}
			row(item)
			return nil
		})
	})
}

// only returns path filtered by properties. An empty property matches any value.
func only(path string, properties map[string]string) string {
	query := url.Values{}
	for name, value := range properties {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// each walks a list of the admin API to its end, a page at a time. path may have a query.
func each[T any](ctx context.Context, a *adminClient, path string, visit func(T) error) error {
	after := ""
	for {
		var page api.Page[T]
		query := url.Values{"limit": {"500"}}
		if after != "" {
			query.Set("after", after)
		}
		to := "?"
		if strings.Contains(path, to) {
			to = "&"
		}
		if err := a.call(ctx, "GET", path+to+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, item := range page.Data {
			if err := visit(item); err != nil {
				return err
			}
		}
		after = page.Next
		if !page.HasMore || len(page.Data) == 0 {
			return nil
		}
	}
}

// asClause turns the server's sentence into part of a line.
func asClause(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	second, _ := utf8.DecodeRuneInString(sentence[size:])
	if unicode.IsUpper(first) && !unicode.IsUpper(second) {
		sentence = string(unicode.ToLower(first)) + sentence[size:]
	}
	if n := len(sentence); n > 0 && sentence[n-1] == '.' {
		sentence = sentence[:n-1]
	}
	return sentence
}

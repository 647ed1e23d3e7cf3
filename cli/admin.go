package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// admin is the admin API, wherever it is answered.
type admin struct {
	http  *http.Client
	info  adminInfo
	fatal func() error // after which the store is not to be trusted, or nil
	close func() error
}

// adminInfo is what the server says of itself.
type adminInfo struct {
	Mode     string `json:"mode"`    // serve or dev
	Account  string `json:"account"` // when none is named
	URL      string `json:"url"`
	Version  string `json:"version"`
	Instance string `json:"instance"`
}

const answerSizeMax = 64 << 20 // bytes of an answer that is read whole: a page of 500 clients at their largest

// newSocketAdmin speaks to the server on the socket at path.
func newSocketAdmin(path string) *admin {
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return dialAdmin(path) },
		DisableCompression: true,
		MaxIdleConns:       1,
	}
	return &admin{
		http:  &http.Client{Transport: transport},
		fatal: func() error { return nil },
		close: func() error { transport.CloseIdleConnections(); return nil },
	}
}

// ask fetches what the server says of itself, which also tells that there is one.
func (a *admin) ask(ctx context.Context) error {
	return a.call(ctx, "GET", "/admin/info", nil, &a.info)
}

// call sends in as JSON, when it is not nil, and reads the answer into out,
// when that is not nil. A refusal becomes a fault with its exit code.
func (a *admin) call(ctx context.Context, method, path string, in, out any) error {
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
		return fail(exitFailed, "use the tollhouse that the server was started with", "the server's answer cannot be read: %w", err)
	}
	return nil
}

// send makes one request and returns an answer that is no refusal. Its body is
// the caller's to close.
func (a *admin) send(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, adminURL(path), body)
	if err != nil {
		return nil, fmt.Errorf("compose the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	return a.do(req)
}

// adminURL is where a path of the admin API is, wherever it is answered.
func adminURL(path string) string { return "http://tollhouse" + path }

// do is send for a request with headers of its own.
func (a *admin) do(req *http.Request) (*http.Response, error) {
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

// brokenAnswer is the fault when the server went away.
func brokenAnswer(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err // without the address, which means nothing to people
	}
	return fail(exitUnreachable, "look whether the server still runs: tollhouse health", "the server did not answer: %w", err)
}

// refusal turns the one error shape into a fault.
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
		return fail(exitFailed, "", "the server answered with status %d", answer.StatusCode)
	}
	f := &fault{code: exitFailed, hint: refused.Hint, err: errors.New(asClause(refused.Description)), param: refused.Param}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType:
		f.code = exitUsage
	case http.StatusNotFound, http.StatusGone:
		f.code = exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		f.code = exitConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		f.code = exitNotAllowed
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		f.code = exitBusy
	}
	if refused.Code == "store_damaged" {
		f.code = exitIO
	}
	if f.hint == "" && f.code == exitFailed {
		f.hint = "the log has the reason under request id " + answer.Header.Get("X-Request-Id")
	}
	return f
}

// pathOf makes a path of the admin API. Names are escaped twice (handlers'
// nameIn): a name may hold a slash.
func pathOf(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
		if i > 0 { // the first part is our own
			parts[i] = url.PathEscape(parts[i])
		}
	}
	return "/admin/" + strings.Join(parts, "/")
}

// list walks a list of the admin API for a command: with --json each item is
// printed, and else it is given to row. path and next are those of each.
func list[T any](ctx context.Context, p *program, command, path string, next func(T) string, row func(T)) error {
	return p.manage(ctx, command, needsData, func(a *admin) error {
		return each(ctx, a, path, next, func(item T) error {
			if p.json {
				return p.printJSON(item)
			}
			row(item)
			return nil
		})
	})
}

// only is the path of a list of those items alone that have these properties; one
// that is "" is any.
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

// each walks a list of the admin API to its end, a page at a time. next names
// the item after which the following page begins. path may have a query.
func each[T any](ctx context.Context, a *admin, path string, next func(T) string, visit func(T) error) error {
	after := ""
	for {
		var page struct {
			Data    []T  `json:"data"`
			HasMore bool `json:"hasMore"`
		}
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
			after = next(item)
		}
		if !page.HasMore || len(page.Data) == 0 {
			return nil
		}
	}
}

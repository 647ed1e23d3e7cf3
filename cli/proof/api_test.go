package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// client is a caller of the token endpoint and of the API at one address.
type client struct {
	base string
	http *http.Client
	credentials
	patient bool // asks again while the server is busy
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	url    *url.URL // that answered, after redirects
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

// errorCode returns the error of the one error shape.
func (a answer) errorCode() string {
	var problem struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(a.body, &problem) != nil {
		return ""
	}
	return problem.Error
}

// refused reports whether the answer is this error.
func (a answer) refused(status int, code string) bool {
	return a.status == status && a.errorCode() == code
}

// errLost says that a connection broke before the whole answer was read, or that the
// server lost its database: what was asked for may have happened, or not.
var errLost = errors.New("the connection was lost before the answer")

// send sends a request; header is names and values.
func (c *client) send(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	for end := time.Now().Add(busyMax); ; time.Sleep(100 * time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
		if err != nil {
			return answer{}, err
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		a, err := exchange(c.http, r)
		if err != nil || a.status != http.StatusServiceUnavailable || !c.patient || time.Now().After(end) {
			return a, err
		}
	}
}

// busyMax is how long a patient client asks again.
const busyMax = 20 * time.Second

// exchange sends a request and reads the answer to its end.
func exchange(client *http.Client, r *http.Request) (answer, error) {
	resp, err := client.Do(r)
	if err != nil {
		return answer{}, lost(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, lost(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: text, url: resp.Request.URL}
	if a.isUnknown() {
		return a, errLost
	}
	return a, nil
}

// lost tells a connection that broke from a server that does not answer.
func lost(err error) error {
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return fmt.Errorf("no answer within %v: %w", requestWait, err)
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// call sends a request to the API with an access token.
func (c *client) call(ctx context.Context, access, method, path, body string) (answer, error) {
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	return c.send(ctx, method, path, body, "Authorization", "Bearer "+access, "Content-Type", contentType)
}

// tokens are what the token endpoint gives.
type tokens struct {
	Access    string `json:"access_token"`
	Refresh   string `json:"refresh_token"`
	ExpiresIn int    `json:"expires_in"`
}

// same reports whether two answers carry the same pair.
func (p tokens) same(other tokens) bool {
	return p.Access == other.Access && p.Refresh == other.Refresh
}

// grant asks the token endpoint; fields are names and values. Any answer but a
// pair comes back as an answer without one.
func (c *client) grant(ctx context.Context, grantType string, fields ...string) (tokens, answer, error) {
	form := url.Values{"grant_type": {grantType}, "client_id": {c.ID}, "client_secret": {c.Secret}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	a, err := c.send(ctx, http.MethodPost, "/oauth/v2/token", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if err != nil || a.status != http.StatusOK {
		return tokens{}, a, err
	}
	var p tokens
	if err := json.Unmarshal(a.body, &p); err != nil || p.Access == "" || p.Refresh == "" {
		return tokens{}, a, fmt.Errorf("token answer %s: %w", a, err)
	}
	return p, a, nil
}

// event is an Event of the specification.
type event struct {
	ID        string `json:"id"`
	Owner     string `json:"owner"`
	Resource  string `json:"resource"`
	Source    string `json:"source"`
	Type      string `json:"type"`
	CreatedAt int64  `json:"createdAt"`
	Data      struct {
		Object   map[string]any `json:"object"`
		Previous map[string]any `json:"previousAttributes"`
	} `json:"eventData"`
}

// eventPage is the envelope of a list.
type eventPage struct {
	Data    []event `json:"data"`
	HasMore bool    `json:"hasMore"`
	Next    string  `json:"nextCursor"`
}

const (
	pageLimit   = 1000 // the largest that the API gives
	noSuchEvent = "evt_00000000000000000000000000"
)

// eventsAfter lists what came after a cursor, oldest first; "" begins at the beginning.
func (c *client) eventsAfter(ctx context.Context, access, cursor string) (events []event, err error) {
	err = c.eachEvent(ctx, access, cursor, "", func(e event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}

// eachEvent calls fn for what came after a cursor, page by page, until fn fails. query
// may narrow the list, and ends in &.
func (c *client) eachEvent(ctx context.Context, access, cursor, query string, fn func(event) error) error {
	for {
		path := fmt.Sprintf("/api/events?%sorder=asc&limit=%d", query, pageLimit)
		if cursor != "" {
			path += "&after=" + url.QueryEscape(cursor)
		}
		a, err := c.call(ctx, access, http.MethodGet, path, "")
		if err != nil {
			return err
		}
		var p eventPage
		if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusOK {
			return fmt.Errorf("list events: %s", a)
		}
		for _, e := range p.Data {
			if err := fn(e); err != nil {
				return err
			}
		}
		if !p.HasMore {
			return nil
		}
		cursor = p.Next
	}
}

// mergePatch is RFC 7396: what target becomes under patch. It changes neither.
func mergePatch(target, patch map[string]any) map[string]any {
	merged := make(map[string]any, len(target))
	for name, value := range target {
		merged[name] = value
	}
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(merged, name)
		case isObject:
			was, _ := merged[name].(map[string]any)
			merged[name] = mergePatch(was, inner)
		default:
			merged[name] = value
		}
	}
	return merged
}

// sameJSON compares decoded values.
func sameJSON(a, b map[string]any) bool { return reflect.DeepEqual(a, b) }

// asClient returns a caller of this server with credentials.
func (s *server) asClient(c credentials) *client {
	return &client{base: s.base, http: &http.Client{Timeout: requestWait}, credentials: c}
}

// isUnknown reports whether an answer, to a program or on a page, says that its outcome is
// unknown.
func (a answer) isUnknown() bool {
	return a.status == http.StatusInternalServerError && unknownOutcome.Match(a.body)
}

var unknownOutcome = regexp.MustCompile(`The outcome (of the request )?is unknown[.;]`)

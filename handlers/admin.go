package handlers

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tollhouse/store/snapshot"
)

// The admin API serves the command line: JSON over a socket that only the operator
// can reach, or in the command's own process. Secrets are sent in bodies, never in
// URLs, and are returned only once.

const (
	adminPageSizeDefault = 100
	adminPageSizeMax     = 500
	adminDepthMax        = 3 // nesting of a body
)

// AdminInfo is the answer of GET /admin/info.
type AdminInfo struct {
	Mode     string `json:"mode"`    // serve or dev
	Account  string `json:"account"` // when a request names none
	URL      string `json:"url"`
	Version  string `json:"version"`
	Instance string `json:"instance"`
}

// adminInfo is GET /admin/info.
func (s *Server) adminInfo(w http.ResponseWriter, _ *http.Request) error {
	mode := "serve"
	if s.demo != nil {
		mode = "dev"
	}
	writeJSON(w, http.StatusOK, AdminInfo{mode, s.defaultAccount(), s.issuer, s.version, s.store.InstanceID()})
	return nil
}

// adminList is the envelope of the admin API's lists. The next page starts after
// the last name of this one.
type adminList struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	HasMore bool   `json:"hasMore"`
}

// writeAdminList sends a page of which one item more than requested was read.
func writeAdminList[T any](w http.ResponseWriter, items []T, limit int, shown func(T) any) {
	page := adminList{Object: "list", Data: make([]any, 0, len(items)), HasMore: len(items) > limit}
	for _, item := range items[:min(len(items), limit)] {
		page.Data = append(page.Data, shown(item))
	}
	writeJSON(w, http.StatusOK, page)
}

// adminPage reads the two parameters of a list: after, and limit.
func adminPage(r *http.Request) (after string, limit int, err error) {
	p, refused := parseOAuthParams(r.URL.RawQuery)
	if refused != nil {
		return "", 0, refused
	}
	if refused := p.refuseRepeated("after", "limit"); refused != nil {
		return "", 0, refused
	}
	limit = adminPageSizeDefault
	if p.has("limit") {
		limit, err = strconv.Atoi(p.value("limit"))
		if err != nil || limit < 1 || limit > adminPageSizeMax {
			return "", 0, invalidRequest("limit must be a number from 1 to %d.", adminPageSizeMax).on("limit")
		}
	}
	return p.value("after"), limit, nil
}

// readAdminBody decodes the body of an admin request into to. Unknown members are
// refused, so that a misspelt setting is not silently lost. An empty body counts
// as an empty object.
func readAdminBody(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	v, err := snapshot.Parse(body, adminDepthMax) // refuses repeated members
	if err != nil {
		return invalidRequest("The body is not valid JSON: %v.", err)
	}
	if v.Kind() != snapshot.Object {
		return invalidRequest("The body must be a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalidRequest("The body is not valid for this request: %v.", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalidRequest("Unexpected data follows the JSON object.")
	}
	return nil
}

// nameIn returns the name in the path. It is decoded twice, because the router
// splits the path after decoding once and a name may contain a slash.
func nameIn(r *http.Request) (string, error) {
	name, err := url.PathUnescape(pathParam(r, "id"))
	if err != nil || !isText(name) {
		return "", invalidRequest("The name in the path is not percent-encoded text; a percent sign in a name is written as %%2525.")
	}
	return name, nil
}

// absent says that the name is unknown, with a hint where to look.
func absent(what, name, hint string) *problem {
	p := newProblem(http.StatusNotFound, "not_found", "Unknown %s %q.", what, shownName(name))
	p.extra = map[string]any{"hint": hint}
	return p
}

// takeTime lifts the deadlines of a request whose work grows with the stored data,
// such as a deletion. Only the operator can reach this socket. A command that opens the
// store itself has no connection.
func takeTime(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
}

// noteAdmin adds the changed object to the request's log and audit lines.
func noteAdmin(r *http.Request, name, value string) {
	note(r.Context(), slog.String(name, value))
	change := &factsFrom(r.Context()).change
	switch name {
	case "client_id":
		change.ClientID = value
	case "user_id":
		change.UserID = value
	case "account_id":
		change.AccountID = value
	}
}

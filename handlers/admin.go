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

// The admin API is what the command line speaks: JSON over a socket that only
// the operator can reach, or to this same code in the command's own process.
// Secrets come in bodies, never in addresses, and go out once.

const (
	adminPageSizeDefault = 100
	adminPageSizeMax     = 500
	adminDepthMax        = 3 // objects and arrays in each other in a body
)

// adminInfo is GET /admin/info: what a command must know before it can choose.
func (s *Server) adminInfo(w http.ResponseWriter, _ *http.Request) error {
	mode := "serve"
	if s.demo != nil {
		mode = "dev"
	}
	writeJSON(w, http.StatusOK, map[string]string{
		"mode": mode, "account": s.defaultAccount(), "url": s.issuer, "version": s.version, "instance": s.store.InstanceID(),
	})
	return nil
}

// adminList is the envelope of the admin API's lists: every one of them is
// walked by the last name of the page before.
type adminList struct {
	Object  string `json:"object"`
	Data    []any  `json:"data"`
	HasMore bool   `json:"hasMore"`
}

// writeAdminList sends a page that was read with one item more than asked for.
func writeAdminList[T any](w http.ResponseWriter, items []T, limit int, shown func(T) any) {
	page := adminList{Object: "list", Data: make([]any, 0, len(items)), HasMore: len(items) > limit}
	for _, item := range items[:min(len(items), limit)] {
		page.Data = append(page.Data, shown(item))
	}
	writeJSON(w, http.StatusOK, page)
}

// adminPage reads the two parameters of a list: after, and limit.
func adminPage(r *http.Request) (after string, limit int, err error) {
	p, refused := parsePairs(r.URL.RawQuery)
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

// readAdminBody reads a body of the admin API into the struct that to points
// to. Members that it does not have are refused: a slip in a name must not be
// a setting that silently does not hold. No body is an empty object.
func readAdminBody(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	v, err := snapshot.Parse(body, adminDepthMax) // refuses a member that comes twice
	if err != nil {
		return invalidRequest("The body is not what readers of JSON agree on: %v.", err)
	}
	if v.Sort() != snapshot.Object {
		return invalidRequest("The body must be a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalidRequest("The body does not have the form of this request: %v.", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalidRequest("There is more after the end of the body.")
	}
	return nil
}

// nameIn returns the name in the path. It is decoded twice, so that a name may
// hold a slash: the router splits the path after it was decoded once.
func nameIn(r *http.Request) (string, error) {
	name, err := url.PathUnescape(pathParam(r, "id"))
	if err != nil || !isText(name) {
		return "", invalidRequest("The name in the path is not percent-encoded text; a percent sign in a name is written as %%2525.")
	}
	return name, nil
}

// absent is the answer when nothing has that name, with a hint where to look.
func absent(what, name, hint string) *problem {
	p := newProblem(http.StatusNotFound, "not_found", "There is no %s %q.", what, shownName(name))
	p.extra = map[string]any{"hint": hint}
	return p
}

// takeTime lifts the deadlines of a request whose work grows with what is
// stored, as erasing does. Only the operator reaches this socket, and an answer
// that is cut off leaves them guessing. In the command's own process there is no
// connection.
func takeTime(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
}

// noteAdmin puts what was changed into the request's log line, and into its
// audit line.
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

package dev

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/views"
)

// The page at /_dev/ is for people: the journal, and forms. A form names the operation of a
// call; its fields are the members of the call's body, and the call's own handler does it.

const (
	pagePath        = web.DevPath + "/"
	pageRequestsMax = 50
	pageForm        = "dev form" // the MAC label of its forms' tokens
	showRequest     = "n"        // query parameter: the request that is shown whole
)

// orPage answers browsers with the page, and programs as before.
func (s *Server) orPage(programs web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Add("Vary", "Accept")
		if !web.AsksForHTML(r) {
			return programs(w, r)
		}
		return s.asPage(s.showPage)(w, r)
	}
}

// asPage sends the errors of a handler as pages.
func (s *Server) asPage(h web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := h(w, r); err != nil {
			p := web.AsProblem(err)
			web.NoteProblem(r.Context(), p)
			s.site.WriteProblemPage(w, r, p)
		}
		return nil
	}
}

// showPage is GET /_dev/. An empty field of its filter is none.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) error {
	typed := r.URL.Query()
	maps.DeleteFunc(typed, func(_ string, values []string) bool { return strings.Join(values, "") == "" })
	asked := *r
	asked.URL = &url.URL{RawQuery: typed.Encode()}
	known := []string{showRequest}
	for _, p := range journalFilters {
		known = append(known, p[0])
	}
	return withQuery(known, func(w http.ResponseWriter, r *http.Request) error {
		filter, _, refused := parseJournalQuery(r)
		if refused != nil {
			return refused
		}
		p := views.DevProps{Filter: map[string]string{}, Done: s.site.TakeDone(w, r)}
		for name := range typed {
			p.Filter[name] = typed.Get(name)
		}
		n, _ := strconv.ParseInt(typed.Get(showRequest), 10, 64) // what is no number is no request
		if found, _, _ := s.controls.Journal.Find(Filter{Since: n - 1}, 1); n > 0 && len(found) == 1 {
			shown := s.shownRequest(found[0])
			p.Request = &shown
		}
		return s.drawPage(w, r, http.StatusOK, filter, p)
	})(w, &asked)
}

// drawPage adds the state of the instance to p.
func (s *Server) drawPage(w http.ResponseWriter, r *http.Request, status int, filter Filter, p views.DevProps) error {
	count, err := s.controls.Control.Counts(r.Context())
	if err != nil {
		return err
	}
	p.Page, p.FormToken = s.site.Page(r), s.site.FormToken(w, r, pageForm)
	p.URL, p.ListURL = pagePath, web.DevPath+"/openapi.json"
	p.Clients, p.Users, p.Accounts, p.Events, p.Resources = count.Clients, count.Users, count.Accounts, count.Events, count.Resources
	p.Resets, p.Snapshots = s.controls.Control.Resets(), s.controls.Control.Names()
	clock := s.controls.Clock.State()
	p.Clock, p.Running = web.Moment(clock.Shows, clock.Shows), clock.Running
	newest, matching := s.controls.Journal.newest(filter, pageRequestsMax)
	for _, text := range newest {
		p.Requests = append(p.Requests, s.shownRequest(text))
	}
	p.Matching = matching
	p.Total, _ = s.controls.Journal.Count()
	for _, rule := range s.controls.Faults.List() {
		shown := views.DevFault{ID: rule.ID, Match: string(web.EncodeJSON(rule.Ask.Match)), Do: string(web.EncodeJSON(rule.Ask.Do)), Hits: rule.Hits, Seen: rule.Seen, Left: -1}
		if rule.Ask.Count > 0 {
			shown.Left = rule.Ask.Count - rule.Hits
		}
		p.Faults = append(p.Faults, shown)
	}
	web.PageHeaders(w, web.ToUs)
	web.AllowScript(w, true)
	s.site.Render(w, r, status, views.Dev(p))
	return nil
}

// shownRequest reads an entry of the journal.
func (s *Server) shownRequest(text json.RawMessage) views.DevRequest {
	var e struct {
		N                                    int64
		At                                   time.Time
		Method, Path, Error, Username, Fault string
		ClientID                             string `json:"client_id"`
		Status                               int
		Notices                              []string
	}
	_ = json.Unmarshal(text, &e) // the journal wrote it
	var lines bytes.Buffer
	_ = json.Indent(&lines, text, "", "  ")
	return views.DevRequest{N: e.N, Method: e.Method, Path: e.Path, Error: e.Error, Client: e.ClientID, Username: e.Username, Fault: e.Fault,
		JSON: lines.String(), When: web.Moment(e.At, s.controls.Clock.Now()), Status: e.Status, Notices: e.Notices}
}

// newest returns up to limit of the selected entries as JSON, the newest first, and how many
// there are.
func (j *Journal) newest(f Filter, limit int) (found []json.RawMessage, count int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range slices.Backward(j.entries) {
		e := &j.entries[i]
		if !f.selects(e) {
			continue
		}
		if count++; count <= limit {
			found = append(found, e.json())
		}
	}
	return found, count
}

// sendForm is POST /_dev/?call=ID: it sends the call for the form.
func (s *Server) sendForm(endpoints []devEndpoint) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mediaType != "application/x-www-form-urlencoded" {
			return web.NotFound(w, r) // programs use the calls
		}
		return s.asPage(func(w http.ResponseWriter, r *http.Request) error {
			form, err := web.ParseBody(w, r)
			if err != nil {
				return err
			}
			if !s.site.CheckFormToken(r, pageForm, form.Value("form_token")) {
				return web.NewProblem(http.StatusForbidden, "stale_form", "The form is of another browser, or its cookie is gone.").
					AsPage(views.ErrorText{Kind: views.ErrorStaleForm})
			}
			name := r.URL.Query().Get("call")
			i := slices.IndexFunc(endpoints, func(e devEndpoint) bool { return e.id == name && e.method != http.MethodGet })
			if i < 0 {
				return web.InvalidRequest("Unknown call.").On("call")
			}
			return s.send(w, r, endpoints[i], form)
		})(w, r)
	}
}

// send sends a call and shows what it answered.
func (s *Server) send(w http.ResponseWriter, r *http.Request, e devEndpoint, form web.Params) error {
	answer := &answered{header: http.Header{}}
	if err := e.serve(answer, e.call(r, form)); err != nil {
		p := web.AsProblem(err)
		web.NoteProblem(r.Context(), p)
		return s.drawPage(w, r, p.Status, Filter{}, views.DevProps{
			Refused: views.DevRefusal{Call: e.id, Text: p.Description, Member: p.Param, Typed: form.Values}})
	}
	if e.id != makeTokensCall {
		s.site.DoneAt(w, r, views.DoneOf(e.id), pagePath)
		return nil
	}
	var issued oauth.TokenAnswer
	if err := json.Unmarshal(answer.body.Bytes(), &issued); err != nil {
		return err
	}
	return s.drawPage(w, r, http.StatusOK, Filter{}, views.DevProps{
		Tokens: &views.DevTokens{Access: issued.AccessToken, Refresh: issued.RefreshToken, ExpiresIn: issued.ExpiresIn}})
}

// call returns the call of a form. Empty fields are no members.
func (e devEndpoint) call(r *http.Request, form web.Params) *http.Request {
	call := r.Clone(r.Context())
	call.Method, call.URL = e.method, &url.URL{Path: web.DevPath + e.path}
	_, param, _ := strings.Cut(e.path, ":")
	web.SetPathParam(call, param, form.Value(param))
	body := map[string]any{}
	for name, value := range form.Values {
		if value == "" || name == "form_token" || name == param {
			continue
		}
		in := body
		if outer, inner, nested := strings.Cut(name, "."); nested {
			if in, nested = body[outer].(map[string]any); !nested {
				in = map[string]any{}
				body[outer] = in
			}
			name = inner
			in[name] = typed(kindOf(kindOf(e.takes, outer), inner), value)
			continue
		}
		in[name] = typed(kindOf(e.takes, name), value)
	}
	call.Body, call.ContentLength = http.NoBody, 0
	call.Header.Del("Content-Type")
	if len(body) > 0 || e.needsBody {
		text := web.EncodeJSON(body)
		call.Body, call.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		call.Header.Set("Content-Type", web.AsJSON)
	}
	return call
}

// kindOf returns the kind of a member of what a call takes, by its published form.
func kindOf(form, member string) string {
	for _, f := range slices.Concat(devClockForms, devControlForms, devFaultForms, devMakeForms) {
		i := slices.IndexFunc(f.Members, func(m api.FormMember) bool { return m[0] == member })
		if f.Name == form && i >= 0 {
			return strings.TrimSuffix(f.Members[i][1], "!")
		}
	}
	return ""
}

// typed is the text of a field as a member of that kind. What is none stays a text, which the
// call refuses.
func typed(kind, text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && kind == "integer" {
		return n
	}
	if is, err := strconv.ParseBool(text); err == nil && kind == "boolean" {
		return is
	}
	return text
}

// answered keeps the answer of a call.
type answered struct {
	header http.Header
	body   bytes.Buffer
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) WriteHeader(int)             {}
func (a *answered) Write(b []byte) (int, error) { return a.body.Write(b) }

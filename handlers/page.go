package handlers

import (
	"bytes"
	"mime"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"tollhouse/views"
)

// pageText is how a problem is told to a person.
type pageText struct {
	title, message, next string
	details              []detail
	forDeveloper         string
	command              string // shown in dev only
	toStart              bool   // the start page is a way on
}

type detail struct{ label, value string }

// asPage says how the problem is told to a person.
func (p *problem) asPage(text pageText) *problem {
	p.page = &text
	return p
}

// badRequestPage is for a request that does not say what it must. It shows
// nothing of the query: anybody can write one, and its words would look like
// ours (attack 50).
func badRequestPage(message string) pageText {
	return pageText{
		title:        "This link does not fit together",
		message:      message + " You did nothing wrong.",
		next:         "Go back to the application and begin again. If it happens again, show whoever runs it what is written below.",
		forDeveloper: "Build the address with a URL library: client_id, redirect_uri and response_type=code, each once and percent-encoded.",
	}
}

// page returns what every screen knows.
func (s *Server) page(r *http.Request) views.Page {
	return views.Page{Base: s.base, Host: s.shownHost(r), Dev: s.demo != nil, RequestID: requestID(r.Context())}
}

// formAction is the part of the policy that says where forms may lead. Chromium
// holds every hop of the redirect after a form to it, so it can never name an
// origin: a callback that redirects on would be blocked, and [::1] is no source
// at all (CSP 3 §2.3.1 has no IPv6 literals).
func formAction(redirectURI string) string {
	scheme, _, _ := strings.Cut(redirectURI, ":")
	switch scheme {
	case "", "https":
		return "'self' https:"
	}
	return "'self' https: " + scheme + ":"
}

// pageHeaders sets what every page carries (attack 0). formTo is the redirect
// URI that the forms of the page lead to, or "".
func pageHeaders(w http.ResponseWriter, hasForm bool, formTo string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	action := "'none'"
	if hasForm {
		action = "'self'"
		// Under no-referrer Chromium posts "Origin: null", and on plain http off
		// loopback, where no Sec-Fetch header is sent, every sign-in would be
		// taken for another site's.
		h.Set("Referrer-Policy", "same-origin")
	}
	if formTo != "" {
		action = formAction(formTo)
	}
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'none'; form-action "+action+
		"; frame-ancestors 'none'; base-uri 'none'")
}

// render draws a screen whole before the first byte is sent, so that one that
// fails can still become an error.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, screen templ.Component) {
	var body bytes.Buffer
	if err := screen.Render(r.Context(), &body); err != nil {
		p := serverError(err)
		noteProblem(r.Context(), p)
		writeProblem(w, p)
		return
	}
	writeBody(w, status, "text/html; charset=utf-8", body.Bytes())
}

// writeProblemPage answers a problem as a page, or as JSON to whoever asks for
// JSON by name.
func (s *Server) writeProblemPage(w http.ResponseWriter, r *http.Request, p *problem) {
	if asksForJSON(r) {
		writeProblem(w, p)
		return
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	text := p.page
	if text == nil {
		text = plainPage(p)
	}
	props := views.ErrorProps{Page: s.page(r), Title: text.title, Message: text.message, Next: text.next, ForDeveloper: text.forDeveloper}
	for _, d := range text.details {
		props.Details = append(props.Details, views.Detail{Label: d.label, Value: d.value})
	}
	if s.demo != nil {
		props.Command = text.command
	}
	if text.toStart {
		props.Links = []views.Link{{Label: "Start page", Href: "/"}}
	}
	pageHeaders(w, false, "")
	s.render(w, r, p.status, views.Error(props))
}

// plainPage is for problems that have no words of their own for people.
func plainPage(p *problem) *pageText {
	switch {
	case p.status == http.StatusNotFound:
		return &pageText{title: "There is no such page", message: "The address leads nowhere on this server.", next: "Check it for a typing error, or begin at the start page.", toStart: true}
	case p.status == http.StatusServiceUnavailable:
		return &pageText{title: "Too much is going on just now", message: "The server could not take this, and nothing was changed. It is not your doing.", next: "Wait a moment, then try again."}
	case p.status >= 500:
		return &pageText{title: "Something went wrong here", message: "The server could not finish this. It is not your doing.", next: "Try again in a moment. If it stays, tell whoever runs this server the request id below."}
	}
	return &pageText{title: "That did not work", message: p.description, next: "Go back and begin again."}
}

// asksForJSON reports whether Accept names application/json: browsers do not.
func asksForJSON(r *http.Request) bool { return accepts(r, "application/json") }

// asksForHTML reports whether Accept names text/html: browsers do.
func asksForHTML(r *http.Request) bool { return accepts(r, "text/html") }

func accepts(r *http.Request, wanted string) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if mediaType, _, err := mime.ParseMediaType(part); err == nil && mediaType == wanted {
				return true
			}
		}
	}
	return false
}

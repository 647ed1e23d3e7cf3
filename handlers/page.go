package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"tollhouse/store/record"
	"tollhouse/views"
)

// pageText is a problem's text for people.
type pageText struct {
	title, message, next string
	details              []detail
	forDeveloper         string
	command              string // shown in dev only
	toStart              bool   // link to the start page
	toSignIn             bool   // and, for strangers, to the sign-in page
	links                []views.Link
}

type detail struct{ label, value string }

func (p *problem) asPage(text pageText) *problem {
	p.page = &text
	return p
}

// badRequestPage is for invalid authorization requests. It shows nothing of the query:
// anybody can write one, and its words would look like ours.
func badRequestPage(message string) pageText {
	return pageText{
		title:        "This sign-in link is not valid",
		message:      message + " You did nothing wrong.",
		next:         "Go back to the application and try again. If it happens again, show its developers the details below.",
		forDeveloper: "Build the address with a URL library. Send client_id, redirect_uri and response_type=code, each once and percent-encoded.",
	}
}

// shownWord returns what a page may show of a parameter: one word of at most so many
// bytes, as every valid one is. A sentence from a link would look like ours.
func shownWord(text string, sizeMax int) string {
	if len(text) > sizeMax || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return fmt.Sprintf("not shown: it is longer than %d characters, or has characters other than visible ASCII", sizeMax)
	}
	return text
}

// page returns what every screen needs.
func (s *Server) page(r *http.Request) views.Page {
	return views.Page{Base: s.base, Host: s.shownHost(r), Dev: s.demo != nil, Instance: s.instance, Logo: s.logo.path, RequestID: requestID(r.Context())}
}

func (s *Server) signedInPage(r *http.Request) views.Page {
	p := s.page(r)
	p.SignedIn = true
	return p
}

// formAction is the form-action directive. Chromium applies it to every redirect after
// a form, so it cannot name an origin: a callback that redirects would be blocked, and
// [::1] is no valid source (CSP 3 §2.3.1 has no IPv6 literals).
func formAction(redirectURI string) string {
	scheme, _, _ := strings.Cut(redirectURI, ":")
	switch scheme {
	case "", "https":
		return "'self' https:"
	}
	return "'self' https: " + scheme + ":"
}

// pageHeaders sets the headers of every page. formTo is the redirect URI that its
// forms lead to, or "".
func pageHeaders(w http.ResponseWriter, hasForm bool, formTo string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	action := "'none'"
	if hasForm {
		action = "'self'"
		// Under no-referrer Chromium posts "Origin: null". On plain http off loopback
		// it sends no Sec-Fetch header either, so every sign-in would look cross-site.
		h.Set("Referrer-Policy", "same-origin")
	}
	if formTo != "" {
		action = formAction(formTo)
	}
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'none'; form-action "+action+
		"; frame-ancestors 'none'; base-uri 'none'")
}

// render draws the screen before it sends the first byte, so that a failure can still
// become an error.
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

// writeProblemPage sends a problem as a page, or as JSON if the caller asks for it by
// name.
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
	if text.toSignIn && !s.isSignedIn(r) {
		props.Links = append(props.Links, views.Link{Label: "Sign in", Href: s.signInFromNowhere()})
	}
	props.Links = append(props.Links, text.links...)
	pageHeaders(w, false, "")
	s.render(w, r, p.status, views.Error(props))
}

// isSignedIn reports whether the browser has a live session. If the store cannot answer,
// it has none.
func (s *Server) isSignedIn(r *http.Request) bool {
	session, err := s.session(r)
	return err == nil && session != nil
}

// signInFromNowhere is where a 404 page offers to sign in. An operator whose session has
// ended gets back to the desk, everybody else to the start page.
func (s *Server) signInFromNowhere() string {
	if s.desk == nil {
		return "/login"
	}
	return "/login?to=" + toDesk
}

// plainPage is for problems without a page of their own.
func plainPage(p *problem) *pageText {
	switch {
	case p.status == http.StatusNotFound:
		return &pageText{title: "Page not found", message: "This address does not exist on this server.", next: "Check it for typing errors, or go to the start page.", toStart: true, toSignIn: true}
	case errors.Is(p, record.ErrFull):
		return &pageText{title: "No changes now", message: "The server cannot accept changes now, and nothing was changed. This is not your fault.", next: "Try again later."}
	case p.status == http.StatusServiceUnavailable:
		return &pageText{title: "The server is busy", message: "The server could not handle the request, and nothing was changed. This is not your fault.", next: "Try again in a moment."}
	case errors.Is(p, record.ErrUnknownOutcome):
		return &pageText{title: "Something went wrong", message: p.description, next: "Check whether it was done before you try again. If it keeps happening, report the request id below."}
	case p.status >= 500:
		return &pageText{title: "Something went wrong", message: "The server could not complete the request. This is not your fault.", next: "Try again in a moment. If it keeps happening, report the request id below."}
	}
	return &pageText{title: "The request failed", message: p.description, next: "Go back and try again."}
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

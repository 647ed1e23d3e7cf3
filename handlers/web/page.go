package web

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"tollhouse/store/record"
	"tollhouse/views"
)

// AsPage adds what the problem's page says.
func (p *Problem) AsPage(text views.ErrorText) *Problem {
	p.Page = &text
	return p
}

// SentWord is what a page may show of a parameter: one word of at most so many bytes, as
// every valid one is. A sentence from a link would look like ours.
func SentWord(name, text string, sizeMax int) views.SentValue {
	if len(text) > sizeMax || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return views.SentValue{Name: name, SizeMax: sizeMax, Hidden: true}
	}
	return views.SentValue{Name: name, Value: text}
}

// Page returns what every screen needs.
func (s *Site) Page(r *http.Request) views.Page {
	return views.Page{Base: s.Base(), Host: s.shownHost(r), Dev: s.Demo != nil, Instance: s.instance,
		Logo: s.logo.path, RequestID: RequestID(r.Context())}
}

// SignedInPage is Page for a browser that is signed in.
func (s *Site) SignedInPage(r *http.Request) views.Page {
	p := s.Page(r)
	p.SignedIn = true
	return p
}

// formsLead says where the forms of a page lead.
type formsLead int

const (
	Nowhere formsLead = iota // there are none
	ToUs
	ToClients // through us
)

const policyName = "Content-Security-Policy"

// PageHeaders sets the headers of every page.
func PageHeaders(w http.ResponseWriter, forms formsLead) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Frame-Options", "DENY")
	scripts, action := "'none'", "; form-action 'none'"
	if forms != Nowhere {
		action = "; form-action 'self'"
		// Under no-referrer Chromium posts "Origin: null". On plain http off loopback
		// it sends no Sec-Fetch header either, so every sign-in would look cross-site.
		h.Set("Referrer-Policy", "same-origin")
	}
	if forms == ToClients {
		// Browsers apply form-action to every redirect that follows, also to those of the
		// client's own callback, which may lead to any scheme.
		scripts, action = "'self'", ""
	}
	h.Set(policyName, "default-src 'none'; style-src 'self'; img-src 'self'; script-src "+scripts+action+
		"; frame-ancestors 'none'; base-uri 'none'")
}

// AllowScript lets the page load our own scripts, and these fetch our own pages.
func AllowScript(w http.ResponseWriter, fetches bool) {
	allowed := "script-src 'self'"
	if fetches {
		allowed += "; connect-src 'self'"
	}
	w.Header().Set(policyName, strings.Replace(w.Header().Get(policyName), "script-src 'none'", allowed, 1))
}

// AllowPasskeys lets the page load the script for passkeys, which writes no markup.
func AllowPasskeys(w http.ResponseWriter) {
	AllowScript(w, false)
	w.Header().Set(policyName, w.Header().Get(policyName)+"; require-trusted-types-for 'script'")
}

// Render draws the screen before it sends the first byte, so that a failure can still
// become an error.
func (s *Site) Render(w http.ResponseWriter, r *http.Request, status int, screen templ.Component) {
	var body bytes.Buffer
	if err := screen.Render(r.Context(), &body); err != nil {
		p := ServerError(err)
		NoteProblem(r.Context(), p)
		WriteProblem(w, p)
		return
	}
	WriteBody(w, status, "text/html; charset=utf-8", body.Bytes())
}

// RedirectHere sends the browser to one of our own pages. path starts with a slash; one that
// comes from a caller was checked.
func (s *Site) RedirectHere(w http.ResponseWriter, path string) {
	w.Header().Set("Location", s.Base()+path)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

// WriteProblemPage sends a problem as a page, or as JSON if the caller asks for it by
// name.
func (s *Site) WriteProblemPage(w http.ResponseWriter, r *http.Request, p *Problem) {
	if AsksForJSON(r) {
		WriteProblem(w, p)
		return
	}
	for name, values := range p.Header {
		w.Header()[name] = values
	}
	props := views.ErrorProps{Page: s.Page(r), ErrorText: ErrorText(p)}
	if s.Demo == nil {
		props.Command = ""
	}
	if props.Kind.OffersSignIn() && !s.IsSignedIn(r) {
		props.SignInURL = s.SignInPath(r)
	}
	PageHeaders(w, Nowhere)
	s.Render(w, r, p.Status, views.Error(props))
}

// IsSignedIn reports whether the browser has a live session. If the store cannot answer,
// it has none.
func (s *Site) IsSignedIn(r *http.Request) bool {
	session, err := s.Session(r)
	return err == nil && session != nil
}

// ErrorText is what the problem's page says.
func ErrorText(p *Problem) views.ErrorText {
	text := views.ErrorText{Kind: plainKind(p)}
	if p.Page != nil {
		text = *p.Page
	}
	text.Description = p.Description
	return text
}

// plainKind is for problems without a page of their own.
func plainKind(p *Problem) views.ErrorKind {
	switch {
	case p.Status == http.StatusNotFound:
		return views.ErrorNotFound
	case errors.Is(p, record.ErrFull):
		return views.ErrorFull
	case p.Status == http.StatusServiceUnavailable:
		return views.ErrorBusy
	case errors.Is(p, record.ErrUnknownOutcome):
		return views.ErrorUnknownOutcome
	case p.Status >= 500:
		return views.ErrorServer
	}
	return views.ErrorRequest
}

// AsksForJSON reports whether Accept names application/json: browsers do not.
func AsksForJSON(r *http.Request) bool { return accepts(r, "application/json") }

// AsksForHTML reports whether Accept names text/html: browsers do.
func AsksForHTML(r *http.Request) bool { return accepts(r, "text/html") }

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

// Package views draws the pages: sign-in, consent, account, errors, the start page, the
// reference and the desk. A page is a templ component in a file of its name, which takes one
// struct of plain values (texts of users and clients, numbers, times, kinds) from a handler
// and knows nothing of requests or of the store. All words of a page are chosen here: labels,
// headings, buttons, notices and refusals. Only what the API answers is shown as it came.
//
// The pages of the desk share the frame in desk.templ and the parts in table.templ,
// form.templ and panels.templ.
//
// The pages are plain HTML that works without scripts, and without inline scripts or styles,
// so that the content security policy can forbid those. All text from callers, clients and
// users goes through templ's escaping and through visible, which reveals characters that
// reorder or hide text.
//
// The generated files are committed; after a change to a screen run
//
//	go generate ./views
package views

//go:generate go tool templ generate -include-version=false

import (
	"fmt"
	"strings"
	"unicode"
)

// A Page describes the deployment and the request to every screen. All paths in the props
// of a screen start at the root of tollhouse ("/login?next=%2F"); the views put Base in
// front.
type Page struct {
	Base      string // path of a sub-path deployment, "/pay"; usually empty
	Host      string // the host that the reader is on, shown in the footer
	Dev       bool   // a development instance, marked as such on every page
	SignedIn  bool   // the reader may see which program this is
	Instance  string // whose server this is; empty for tollhouse
	Logo      string // path of a picture in place of the mark; may be empty
	RequestID string // shown on error pages
}

// A Link leads to another page of this deployment.
type Link struct {
	Label string
	Href  string // a path on this host
	Note  string // describes the page; may be empty
}

// A Detail is one labelled fact.
type Detail struct {
	Label, Value string
}

// product is the name of an instance that has none of its own.
const product = "tollhouse"

// InstanceName is the name of the instance, or of the program.
func (p Page) InstanceName() string {
	if p.Instance == "" {
		return product
	}
	return p.Instance
}

// at returns path under the base of the deployment. For any input, the result has no
// scheme and names no other host.
func (p Page) at(path string) string {
	return p.Base + "/" + strings.TrimLeft(path, `/\`)
}

// visible replaces each control character, and each that changes the direction of the
// text around it (Unicode's Bidi_Control), by its code in brackets, such as [U+202E], and
// invalid UTF-8 by U+FFFD. Our choice: they are shown rather than dropped, so that no name
// or address looks like another.
func visible(s string) string {
	if strings.IndexFunc(s, disguises) < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	var b strings.Builder
	for _, r := range s {
		if disguises(r) {
			fmt.Fprintf(&b, "[%U]", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// visibleLines is visible for a text of several lines.
func visibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return strings.Join(lines, "\n")
}

func disguises(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

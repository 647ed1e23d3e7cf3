// Package views draws the pages: sign in, consent, error, and the one at the
// root. A screen is a templ component that takes one struct of plain strings,
// bools and slices, filled by a handler, and knows nothing of requests or of
// the store.
//
// The pages are plain HTML. They carry no script and no inline style, so that
// a content security policy may forbid both, and everything that a caller,
// a client or a user wrote goes through templ's escaping and through visible,
// which takes the disguise off characters that reorder or hide text.
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

// A Page is what every screen needs to know about the deployment that it
// belongs to. Every path in the props of a screen is written from the root of
// tollhouse ("/login?next=%2F"); the views put Base in front.
type Page struct {
	Base      string // path of a sub-path deployment, "/pay"; usually empty
	Host      string // the host that the reader is on, shown in the footer
	Dev       bool   // a throwaway instance: say so on every page
	RequestID string // of this request; shown where something went wrong
}

// A Link is a way on to another page of this deployment.
type Link struct {
	Label string
	Href  string // a path on this host
	Note  string // a few words on what is there; may be empty
}

// A Detail is one labelled fact.
type Detail struct {
	Label, Value string
}

// at returns path on this host, under the base of the deployment. Whatever it
// is given, the result has no scheme and names no other host.
func (p Page) at(path string) string {
	return p.Base + "/" + strings.TrimLeft(path, `/\`)
}

// visible returns s fit to be shown: a control character or one that changes
// the direction of the text around it (Unicode's Bidi_Control) becomes its
// code in brackets, such as [U+202E], and bytes that are not UTF-8 become
// U+FFFD. Our choice: to show rather than to drop, so that a name or an
// address never looks like another one.
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

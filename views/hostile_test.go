package views_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollhouse/static"
	"tollhouse/views"
)

// hostile is what a client, a user or a link may try to put into a page.
var hostile = map[string]string{
	"script":               `<script>alert(1)</script>`,
	"image_with_a_handler": `"><img src=x onerror=alert(1)>`,
	"template":             `{{7*7}} ${7*7} <%= 7*7 %>`,
	"direction_override":   "bank\u202eelpmaxe.live\u2066",
	"ten_kilobytes":        strings.Repeat("a", 10<<10),
	"handler_in_a_field":   `"onfocus=alert(1) autofocus="`,
	"out_of_the_form":      `'"></form><script>alert(1)</script>`,
	"end_of_script":        `</script></title></textarea></style><svg onload=alert(1)>`,
	"a_comment":            `--><!-- ]]>`,
	"an_entity":            `&lt;b&gt;&#60;b&#62;&quot;`,
	"a_script_address":     `javascript:alert(1)`,
}

// skeleton is a page without its words: tags and the names of attributes.
func skeleton(all []element) string {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintln(&b, e.name, e.order)
	}
	return b.String()
}

// Promise (Browsers): a hostile name stays text on every page
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): markup in a name of a client or user, in state; JSON
// is sent as JSON with nosniff
func TestHostileWords(t *testing.T) {
	t.Parallel()
	plain := screens(views.Page{Host: "pay.example"}, "plain")
	for attack, words := range hostile {
		t.Run(attack+"_stay_words", func(t *testing.T) {
			t.Parallel()
			for screen, c := range screens(views.Page{Host: words}, words) {
				page := render(t, c)
				got, want := skeleton(elements(t, page)), skeleton(elements(t, render(t, plain[screen])))
				if got != want {
					t.Errorf("%s: structure changed by %q\n got %s\nwant %s", screen, words, got, want)
				}
				if g, w := strings.Count(page, "<"), strings.Count(render(t, plain[screen]), "<"); g != w {
					t.Errorf("%s: %d tags open, want %d", screen, g, w)
				}
				shown := strings.NewReplacer(`value="`+words, "", `data-options="`+words, "").Replace(page) // fields send back what came
				if strings.ContainsAny(shown, "\u202e\u2066") {
					t.Errorf("%s: shows a direction override as it came", screen)
				}
			}
		})
	}
}

// FuzzWords: no words change the structure of a page.
func FuzzWords(f *testing.F) {
	for _, words := range hostile {
		f.Add(words)
	}
	words := views.ErrorProps{ErrorText: views.ErrorText{Kind: views.ErrorClient, Sent: views.SentValue{Name: "words", Value: "words"}, Command: "words"}}
	plain := skeleton(elements(f, render(f, views.Error(words))))
	f.Fuzz(func(t *testing.T, words string) {
		page := render(t, views.Error(views.ErrorProps{ErrorText: views.ErrorText{Kind: views.ErrorClient, Sent: views.SentValue{Name: "x" + words, Value: "x" + words}, Command: "x" + words}}))
		if got := skeleton(elements(t, page)); got != plain {
			t.Errorf("structure changed by %q\n got %s\nwant %s", words, got, plain)
		}
	})
}

func TestDisguisesAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, words, want string }{
		{"direction override", "bank\u202eelpmaxe.live", "bank[U+202E]elpmaxe.live"},
		{"isolate", "\u2066a\u2069", "[U+2066]a[U+2069]"},
		{"escape sequence", "a\x1b[31m", "a[U+001B][31m"},
		{"nul, return, next line", "a\x00\r\u0085", "a[U+0000][U+000D][U+0085]"},
		{"broken bytes", "a\xffb", "a\uFFFDb"},
		{"broken bytes beside a control", "a\xff\x01", "a\uFFFD[U+0001]"},
		{"letters of any script and joiners", "مخبز نان\u200cوا 👩\u200d💻", "مخبز نان\u200cوا 👩\u200d💻"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			page := render(t, views.Error(views.ErrorProps{ErrorText: views.ErrorText{Description: test.words, Command: "one\n" + test.words}}))
			if !strings.Contains(page, "<p>"+test.want+"</p>") {
				t.Errorf("message does not show %q as %q: %s", test.words, test.want, page)
			}
			if !strings.Contains(page, "<code>one\n"+test.want+"</code>") {
				t.Errorf("command does not show %q as %q: %s", test.words, test.want, page)
			}
		})
	}
}

// TestNoScript is what lets the content security policy forbid inline scripts and styles,
// and on most pages every script.
//
// Promise (Monitoring): pages allow no foreign script, style or frame
func TestNoScript(t *testing.T) {
	t.Parallel()
	for screen, c := range screens(views.Page{Host: "pay.example"}, "javascript:alert(1)") {
		t.Run(screen, func(t *testing.T) {
			t.Parallel()
			for _, e := range elements(t, render(t, c)) {
				if e.name == "script" && slices.Contains([]string{static.Path("desk.js"), static.Path("dev.js")}, e.attrs["src"]) && (strings.HasPrefix(screen, "dev") || strings.HasPrefix(screen, "docs") || strings.HasSuffix(screen, ", in dev")) {
					continue // they copy; the testers' page fetches its list again
				}
				if e.name == "script" && e.attrs["src"] == static.Path("passkey.js") && strings.HasPrefix(screen, "second") {
					continue // it asks the browser for a passkey
				}
				if e.name == "script" && (e.attrs["src"] != static.Path("form.js") || !slices.Contains([]string{"consent", "second"}, strings.Fields(screen)[0]) && !strings.HasPrefix(screen, "login")) {
					t.Errorf("page has <script src=%q>", e.attrs["src"])
				}
				if slices.Contains([]string{"style", "iframe", "object", "embed", "base"}, e.name) {
					t.Errorf("page has <%s>", e.name)
				}
				for name, value := range e.attrs {
					if name == "style" || strings.HasPrefix(name, "on") {
						t.Errorf("<%s> has %s", e.name, name)
					}
					link := name == "href" || name == "action" || name == "src" || name == "formaction"
					isApp := screen == "first factor" && strings.HasPrefix(value, "otpauth://totp/") // for the app on this device
					if link && value != "#content" && !isApp && (!strings.HasPrefix(value, "/") || strings.HasPrefix(value, "//")) {
						t.Errorf("<%s %s=%q> leaves this host", e.name, name, value)
					}
				}
			}
		})
	}
}

func TestLinksStayOnThisHost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, base, href, want string }{
		{"a path", "", "/login?next=%2F", "/login?next=%2F"},
		{"a path below a base", "/pay", "/login", "/pay/login"},
		{"the root", "", "/", "/"},
		{"the root of a base", "/pay", "/", "/pay/"},
		{"another host", "", "//evil.example/", "/evil.example/"},
		{"another host, as browsers read it", "", `/\evil.example/`, "/evil.example/"},
		{"a script", "", "javascript:alert(1)", "/javascript:alert(1)"},
		{"another scheme", "", "https://evil.example/", "/https://evil.example/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			page := views.Page{Base: test.base}
			all := elements(t, render(t, views.Error(views.ErrorProps{Page: page, SignInURL: test.href})))
			if got := named(all, "a")[0].attrs["href"]; got != test.want {
				t.Errorf("link to %q under base %q = %q, want %q", test.href, test.base, got, test.want)
			}
			for _, link := range named(all, "link") {
				if !strings.HasPrefix(link.attrs["href"], test.base+"/static/") {
					t.Errorf("asset at %q, want it below %q", link.attrs["href"], test.base+"/static/")
				}
			}
		})
	}
}

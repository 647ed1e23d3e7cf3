package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// fault is a wrong request of an application, and the page about it.
type fault struct {
	name   string
	target string
	title  string
	did    string // what the application did wrong
	advice string // what its developer must change
	param  string // the same, for a program
}

// applicationFaults are those that cannot be reported to the application itself, because
// the redirect URI is not trusted.
func (h *house) applicationFaults(t *testing.T) []fault {
	t.Helper()
	disabled, _ := h.Client(t)
	must.Get(h.DisableClient(context.Background(), disabled.ID))(t)
	const (
		unfit, library   = "This sign-in link is not valid", "Build the address with a URL library"
		unknown, printed = "Unknown application", "Use the client_id that was printed"
		astray, exact    = "Unregistered redirect address", "must match a registered one byte for byte"
	)
	return []fault{
		{"no_query", authPath, unfit, "does not name exactly one application", library, "client_id"},
		{"damaged_query", h.authURL() + "&state=%zz", unfit, "is malformed", library, ""},
		{"client_id_missing", h.authURL("client_id", ""), unfit, "does not name exactly one application", library, "client_id"},
		{"client_id_twice", h.authURL() + "&client_id=x", unfit, "does not name exactly one application", library, "client_id"},
		{"client_unknown", h.authURL("client_id", "larkspur"), unknown, "is not registered with this server", printed, "client_id"},
		{"client_disabled", h.authURL("client_id", disabled.ID), unknown, "has been disabled", printed, "client_id"},
		{"redirect_uri_missing", h.authURL("redirect_uri", ""), unfit, "does not name exactly one address to return you to", library, "redirect_uri"},
		{"redirect_uri_twice", h.authURL() + "&redirect_uri=x", unfit, "does not name exactly one address to return you to", library, "redirect_uri"},
		{"redirect_uri_unregistered", h.authURL("redirect_uri", "https://elsewhere.example/x"), astray, "an address that it has not registered, so you were not sent there", exact, "redirect_uri"},
	}
}

// TestErrorPageForPeople: the page says what the application did, that the reader did not
// cause it, and whom to inform about what.
func TestErrorPageForPeople(t *testing.T) {
	h := parallelHouse(t)
	for _, f := range h.applicationFaults(t) {
		t.Run(f.name, func(t *testing.T) {
			a := h.get(t, f.target, header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
			wantPage400(t, a)
			text := words(t, a)
			for what, want := range map[string]string{
				"its title": f.title, "what the application did": f.did, "whose fault it is not": "You did nothing wrong",
				"whom to inform": "show its developers the details below", "the section for the developer": "For the developer",
				"what the developer must change": f.advice, "the request id": a.Header.Get("X-Request-Id"),
			} {
				if want == "" || !strings.Contains(text, want) {
					t.Errorf("the page does not say %s, %q:\n%s", what, want, text)
				}
			}
		})
		t.Run(f.name+"_as_json_where_asked_for", func(t *testing.T) {
			a := h.get(t, f.target, header("Accept", "application/json"))
			code := "invalid_request"
			if f.name == "client_unknown" || f.name == "client_disabled" {
				code = "invalid_client"
			}
			wantError(t, a, http.StatusBadRequest, code)
			var problem struct {
				Description string `json:"error_description"`
				Param       string `json:"param"`
			}
			if err := json.Unmarshal([]byte(a.body), &problem); err != nil || problem.Description == "" || problem.Param != f.param {
				t.Errorf("body %s (%v), want a description and param %q", a.body, err, f.param)
			}
		})
	}
}

// TestErrorPageShowsNoSentenceOfALink: anybody can write a link to our page, and its words
// would look like ours.
func TestErrorPageShowsNoSentenceOfALink(t *testing.T) {
	h := parallelHouse(t)
	for name, text := range map[string]string{
		"spaces":       "Your account was locked. Call +1 555 0100",
		"other_spaces": "Your\u00a0account\u2003was\u3000locked",
		"too_long":     strings.Repeat("Locked.Call", 200),
	} {
		for _, param := range []string{"client_id", "redirect_uri"} {
			a := h.get(t, h.authURL(param, text), header("Accept", "text/html"))
			wantPage400(t, a)
			if strings.Contains(words(t, a), text[:len(text)/2]) || !strings.Contains(words(t, a), "not shown: it is longer than") {
				t.Errorf("%s in %s: the page says\n%.500s", name, param, words(t, a))
			}
		}
	}
	for param, text := range map[string]string{"client_id": "larkspur", "redirect_uri": "https://elsewhere.example/it's?a=b"} {
		if a := h.get(t, h.authURL(param, text), header("Accept", "text/html")); !strings.Contains(words(t, a), text) {
			t.Errorf("%s %s is not shown to its developer", param, text)
		}
	}
}

// TestErrorPageCommand: the page shows the command that fixes an application's fault.
func TestErrorPageCommand(t *testing.T) {
	t.Parallel()
	for name, dev := range map[string]bool{"dev_shows_the_command_that_registers_the_address": true, "serve_shows_no_command": false} {
		t.Run(name, func(t *testing.T) {
			h := parallelHouse(t, func(c *handlers.Config) {
				if dev {
					c.Demo = &web.Demo{}
				}
			})
			a := h.get(t, h.authURL("redirect_uri", "https://elsewhere.example/it's"))
			want := "tollhouse client update " + h.client.ID + ` \ --add-redirect-uri 'https://elsewhere.example/it'\''s'`
			if got := strings.Contains(words(t, a), want); got != dev {
				t.Errorf("the page shows %q: %v, want %v:\n%s", want, got, dev, words(t, a))
			}
		})
	}
}

// TestErrorPageOfOurOwn is the page when no application is at fault.
func TestErrorPageOfOurOwn(t *testing.T) {
	t.Parallel()
	browse := header("Accept", "text/html")
	t.Run("an_unknown_address_leads_to_the_start_page", func(t *testing.T) {
		a := newHouse(t, at(publicURL+"/pay")).get(t, "/pay/no-such-page", browse)
		wantErrorPage(t, a, http.StatusNotFound)
		if !strings.Contains(a.body, `href="/pay/"`) {
			t.Errorf("the page has no link to the start page:\n%s", a.body)
		}
	})
	for _, c := range []struct {
		name   string
		err    error
		status int
	}{
		{"a_server_that_is_busy_says_that_it_is_not_the_readers_doing", record.ErrUnavailable, http.StatusServiceUnavailable},
		{"a_server_that_fails_says_that_it_is_not_the_readers_doing", context.DeadlineExceeded, http.StatusInternalServerError},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			b := h.browser(t)
			page := b.get(t, h.authURL())
			h.Faults.OnUpdate(func(func() error) error { return c.err })
			a := b.submit(t, page, rightPassword...)
			h.Faults.Repair()
			wantErrorPage(t, a, c.status)
			if text := words(t, a); !strings.Contains(text, "This is not your fault") || !strings.Contains(text, a.Header.Get("X-Request-Id")) {
				t.Errorf("the page does not say whose doing it is, or not which request it was:\n%s", text)
			}
		})
	}
	t.Run("a_question_that_is_past_sends_the_reader_back_and_says_that_nothing_changed", func(t *testing.T) {
		h := newHouse(t)
		a := h.signedIn(t, h.user).post(t, "/consent", url.Values{"ticket": {"x"}, "decision": {"allow"}})
		wantPage400(t, a)
		if text := words(t, a); !strings.Contains(text, "This answer changed nothing.") || !strings.Contains(text, "Start again from the application") {
			t.Errorf("the page says\n%s", text)
		}
	})
}

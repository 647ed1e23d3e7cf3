package views_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
	"tollhouse/views"
)

var page = views.Page{Host: "pay.larkspurtea.example", RequestID: "req_0123456789"}

func TestEveryScreen(t *testing.T) {
	t.Parallel()
	for screen, c := range screens(page, "words") {
		all := elements(t, render(t, c))
		t.Run(screen+"_has_landmarks_and_a_title", func(t *testing.T) {
			t.Parallel()
			if got := byAttr(t, all, "lang", "en").name; got != "html" {
				t.Errorf("lang is on <%s>, want <html>", got)
			}
			for _, name := range []string{"header", "main", "footer", "h1", "title"} {
				if n := len(named(all, name)); n != 1 {
					t.Errorf("page has %d <%s>, want 1", n, name)
				}
			}
			if title := named(all, "title")[0].text; !strings.HasSuffix(title, " – tollhouse") && !strings.HasSuffix(title, " – words") {
				t.Errorf("title is %q, want it to end in the name of the house", title)
			}
			if footer := squeeze(named(all, "footer")[0].text); !strings.Contains(footer, page.Host) {
				t.Errorf("footer says %q, want the host", footer)
			}
		})
		t.Run(screen+"_labels_every_control", func(t *testing.T) {
			t.Parallel()
			ids := map[string]int{}
			for _, e := range all {
				if e.has("id") {
					ids[e.attrs["id"]]++
				}
			}
			for id, n := range ids {
				if n > 1 {
					t.Errorf("%d elements have the id %q", n, id)
				}
			}
			for _, input := range named(all, "input") {
				if input.attrs["type"] != "hidden" {
					byAttr(t, all, "for", input.attrs["id"])
				}
				if ref := input.attrs["aria-describedby"]; ref != "" && ids[ref] != 1 {
					t.Errorf("%s is described by %q, which is missing", input.attrs["name"], ref)
				}
			}
			for _, svg := range named(all, "svg") {
				if svg.attrs["aria-hidden"] != "true" {
					t.Error("a drawing is read aloud")
				}
			}
		})
		t.Run(screen+"_has_at_most_one_filled_button", func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, e := range all {
				if slices.Contains(strings.Fields(e.attrs["class"]), "filled") {
					n++
				}
			}
			if n > 1 {
				t.Errorf("%d filled buttons, want one", n)
			}
		})
		t.Run(screen+"_posts_every_form", func(t *testing.T) {
			t.Parallel()
			for _, form := range named(all, "form") {
				if form.attrs["method"] != "post" && form.attrs["class"] != "filter" {
					t.Errorf("form is sent by %q, want post", form.attrs["method"])
				}
			}
		})
	}
}

// TestThemeColours: a browser paints its own bars in these before it has read
// the style sheet.
func TestThemeColours(t *testing.T) {
	t.Parallel()
	sheet := must.Get(os.ReadFile("../static/style.css"))(t)
	var want []string
	for _, m := range regexp.MustCompile(`--paper: (#[0-9a-f]{6})`).FindAllStringSubmatch(string(sheet), -1) {
		want = append(want, m[1])
	}
	var got []string
	for _, e := range named(elements(t, render(t, views.Login(views.LoginProps{}))), "meta") {
		if e.attrs["name"] == "theme-color" {
			got = append(got, e.attrs["content"])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("theme colours = %q, want the paper of both schemes, %q", got, want)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	fresh := views.LoginProps{
		Page: page, ClientName: "Larkspur Bookkeeping", Action: "/login",
		Query: "state=a+b%26%3D%23%25%C3%A9&state=<2>", FormToken: "tok",
	}
	refused := fresh
	refused.Username, refused.Refused = "harriet.voss", true

	t.Run("says_for_whom", func(t *testing.T) {
		t.Parallel()
		all := elements(t, render(t, views.Login(fresh)))
		if got := squeeze(named(all, "main")[0].text); !strings.HasPrefix(got, "Sign in to continue to Larkspur Bookkeeping ") {
			t.Errorf("screen begins %q", got)
		}
	})
	t.Run("carries_the_query_verbatim", func(t *testing.T) {
		t.Parallel()
		all := elements(t, render(t, views.Login(fresh)))
		if got := byAttr(t, all, "name", "query").attrs["value"]; got != fresh.Query {
			t.Errorf("query = %q, want %q", got, fresh.Query)
		}
		if got := byAttr(t, all, "name", "form_token").attrs["value"]; got != fresh.FormToken {
			t.Errorf("form_token = %q, want %q", got, fresh.FormToken)
		}
	})
	t.Run("names_its_fields_for_password_managers", func(t *testing.T) {
		t.Parallel()
		all := elements(t, render(t, views.Login(fresh)))
		username, password := byAttr(t, all, "name", "username"), byAttr(t, all, "name", "password")
		for attr, want := range map[string]string{"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false", "type": "text"} {
			if got := username.attrs[attr]; got != want {
				t.Errorf("username %s = %q, want %q", attr, got, want)
			}
		}
		for attr, want := range map[string]string{"autocomplete": "current-password", "type": "password"} {
			if got := password.attrs[attr]; got != want {
				t.Errorf("password %s = %q, want %q", attr, got, want)
			}
		}
		if password.has("value") {
			t.Error("the password field has a value")
		}
		if !username.has("required") || !password.has("required") {
			t.Error("a field may be left empty")
		}
		if !username.has("autofocus") || password.has("autofocus") || username.has("aria-invalid") {
			t.Error("a fresh form must begin at the username, unmarked")
		}
	})
	t.Run("a_refusal_keeps_the_username_and_focuses_the_password", func(t *testing.T) {
		t.Parallel()
		all := elements(t, render(t, views.Login(refused)))
		alert := byAttr(t, all, "role", "alert")
		if alert.text != "That username and password do not match." {
			t.Errorf("alert = %q", alert.text)
		}
		for _, name := range []string{"username", "password"} {
			field := byAttr(t, all, "name", name)
			if field.attrs["aria-invalid"] != "true" || field.attrs["aria-describedby"] != alert.attrs["id"] {
				t.Errorf("%s is not tied to the alert: %v", name, field.attrs)
			}
		}
		username, password := byAttr(t, all, "name", "username"), byAttr(t, all, "name", "password")
		if username.attrs["value"] != "harriet.voss" || username.has("autofocus") || !password.has("autofocus") {
			t.Error("the username is not kept, or the form does not go on at the password")
		}
		if got := named(all, "title")[0].text; got != "Error: Sign in – tollhouse" {
			t.Errorf("title = %q", got)
		}
	})
	t.Run("a_notice_marks_no_field", func(t *testing.T) {
		t.Parallel()
		waiting := fresh
		waiting.Notice, waiting.RetryAfter = views.LoginThrottled, "60"
		all := elements(t, render(t, views.Login(waiting)))
		if got := squeeze(byAttr(t, all, "role", "status").text); got != "Too many failed sign-ins. Try again in 60 seconds." {
			t.Errorf("notice = %q", got)
		}
		if byAttr(t, all, "name", "username").has("aria-invalid") {
			t.Error("the username is marked invalid")
		}
	})
	t.Run("demo_credentials_show_in_dev_only", func(t *testing.T) {
		t.Parallel()
		demo := fresh
		demo.DemoUsername, demo.DemoPassword = "demo", "open-sesame"
		if strings.Contains(render(t, views.Login(demo)), "open-sesame") {
			t.Error("a lasting instance shows a password")
		}
		demo.Dev = true
		if !strings.Contains(render(t, views.Login(demo)), "open-sesame") {
			t.Error("dev does not show the demo password")
		}
	})
}

// Promise (RFC 7662, RFC 8252 §8.6): the consent page names client, user, scopes and destination;
// consent is asked each time, or remembered
func TestConsent(t *testing.T) {
	t.Parallel()
	props := views.ConsentProps{
		Page: page, ClientName: "Larkspur Bookkeeping", Username: "harriet.voss",
		NotYouURL: "/oauth/v2/auth?prompt=login",
		Scopes:    []string{"events:read", "resources:read"},
		Account:   "Larkspur Tea Room", GoesTo: "books.larkspurtea.example",
		Action: "/oauth/v2/auth/decision", Ticket: "sealed", AccountURL: "/account",
	}
	all := elements(t, render(t, views.Consent(props)))

	t.Run("says_who_what_where", func(t *testing.T) {
		t.Parallel()
		want := "Allow Larkspur Bookkeeping to use your account? Signed in as harriet.voss Not you? It will be able to " +
			"Read the events of your account Read customers, transactions, payment accounts and invoices " +
			"Account Larkspur Tea Room Returns you to books.larkspurtea.example Deny Allow " +
			"You can revoke access at any time under Your account."
		if got := squeeze(named(all, "main")[0].text); got != want {
			t.Errorf("screen says %q,\nwant %q", got, want)
		}
	})
	t.Run("deny_and_allow_are_two_buttons_of_one_form_deny_first", func(t *testing.T) {
		t.Parallel()
		if n := len(named(all, "form")); n != 1 {
			t.Fatalf("%d forms, want 1", n)
		}
		buttons := named(all, "button")
		if len(buttons) != 2 {
			t.Fatalf("%d buttons, want 2", len(buttons))
		}
		for i, want := range []struct{ text, value string }{{"Deny", "deny"}, {"Allow", "allow"}} {
			b := buttons[i]
			if b.text != want.text || b.attrs["value"] != want.value || b.attrs["name"] != "decision" || b.attrs["type"] != "submit" {
				t.Errorf("button %d = %q %v, want %v", i, b.text, b.attrs, want)
			}
			for _, attr := range []string{"autofocus", "tabindex", "hidden", "disabled"} {
				if b.has(attr) {
					t.Errorf("%s has %s", b.text, attr)
				}
			}
		}
		if got := byAttr(t, all, "name", "ticket").attrs["value"]; got != "sealed" {
			t.Errorf("ticket = %q", got)
		}
	})
	t.Run("promises_no_page_that_is_not_there", func(t *testing.T) {
		t.Parallel()
		without := props
		without.AccountURL = ""
		text := squeeze(named(elements(t, render(t, views.Consent(without))), "main")[0].text)
		if strings.Contains(text, "Your account") || !strings.Contains(text, "The operator of this server can revoke access at any time.") {
			t.Errorf("screen says %q", text)
		}
	})
}

// Promise (RFC 6749 §3.1, RFC 8252 §7): a missing, unregistered or repeated redirect URI gets a
// page that shows it as text and says what to register; URIs are compared byte for byte, of a
// loopback URI all but the port
func TestError(t *testing.T) {
	t.Parallel()
	const sent = "https://books.larkspurtea.example/cb/?x=<1>&y"
	all := elements(t, render(t, views.Error(views.ErrorProps{
		Page: page, ErrorText: views.ErrorText{
			Kind: views.ErrorRedirectUnknown, Client: "Larkspur Bookkeeping", Sent: views.SentValue{Name: "redirect_uri", Value: sent},
			Command: "tollhouse client update c1 --redirect-uri '" + sent + "'",
		},
	})))
	t.Run("shows_what_was_sent_and_not_as_a_link", func(t *testing.T) {
		t.Parallel()
		if got := named(all, "dd")[0].text; got != sent {
			t.Errorf("detail = %q, want %q", got, sent)
		}
		if n := len(named(all, "a")); n != 0 {
			t.Errorf("page has %d links, want none", n)
		}
		if got := named(all, "pre")[0].text; got != "tollhouse client update c1 \\\n  --redirect-uri '"+sent+"'" {
			t.Errorf("command = %q", got)
		}
	})
	t.Run("shows_the_request_id", func(t *testing.T) {
		t.Parallel()
		if got := byAttr(t, all, "class", "id").text; got != page.RequestID {
			t.Errorf("request = %q, want %q", got, page.RequestID)
		}
	})
}

func TestHome(t *testing.T) {
	t.Parallel()
	props := views.HomeProps{
		Page: page, SignInURL: "/login", Demo: &views.HomeDemo{Version: "1.2.3", TokenCommand: "curl -d grant_type=password"},
	}
	t.Run("offers_sign_in_to_a_stranger", func(t *testing.T) {
		t.Parallel()
		all := elements(t, render(t, views.Home(props)))
		if got := byAttr(t, all, "href", "/login").text; got != "Sign in" {
			t.Errorf("link says %q", got)
		}
		if len(named(all, "form")) != 0 {
			t.Error("a stranger can sign out")
		}
	})
	t.Run("signs_out_by_post", func(t *testing.T) {
		t.Parallel()
		in := props
		in.SignInURL, in.Username, in.Account, in.SignOutToken = "", "harriet.voss", "Larkspur Tea Room", "tok"
		all := elements(t, render(t, views.Home(in)))
		form := byAttr(t, all, "action", "/logout")
		if form.attrs["method"] != "post" || byAttr(t, all, "name", "form_token").attrs["value"] != "tok" {
			t.Errorf("sign-out form = %v", form.attrs)
		}
		if got := squeeze(named(all, "main")[0].text); !strings.Contains(got, "Signed in as harriet.voss, account Larkspur Tea Room") {
			t.Errorf("page says %q", got)
		}
	})
	t.Run("only_dev_has_a_badge", func(t *testing.T) {
		t.Parallel()
		for _, dev := range []bool{true, false} {
			mode := props
			mode.Dev = dev
			if got := strings.Contains(render(t, views.Home(mode)), `<p class="badge warning">Test instance</p>`); got != dev {
				t.Errorf("a badge in dev %t: %t", dev, got)
			}
		}
	})
	t.Run("an_event_unfolds_its_changes", func(t *testing.T) {
		t.Parallel()
		in := props
		in.Username = "harriet.voss"
		in.Events = []views.HomeEvent{{ID: "evt_1", Type: "customer.updated", Resource: "cus_1", Changes: []views.Change{{Member: "address.city", Before: "Dunmere", After: "Arlen"}}}}
		all := elements(t, render(t, views.Home(in)))
		if list := byAttr(t, all, "data-list", "events"); list.name != "table" {
			t.Errorf("the list is a <%s>, want a table", list.name)
		}
		if row := byAttr(t, all, "data-member", "address.city"); squeeze(row.text) != "address.city Dunmere Arlen" {
			t.Errorf("the change says %q", squeeze(row.text))
		}
		if len(named(all, "details")) != 1 || squeeze(named(all, "summary")[0].text) != "customer.updated" {
			t.Error("the event does not unfold")
		}
	})
	t.Run("steps_copy_as_they_are_broken_before_their_flags", func(t *testing.T) {
		t.Parallel()
		if got, want := named(elements(t, render(t, views.Home(props))), "pre")[0].text, "curl \\\n  -d grant_type=password"; got != want {
			t.Errorf("step = %q, want %q", got, want)
		}
	})
}

func TestScopeWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ scope, want string }{
		{"events:read", "Read the events of your account"},
		{"resources:read", "Read customers, transactions, payment accounts and invoices"},
		{"resources:write", "Create, change and delete customers, transactions, payment accounts and invoices"},
		{"webhooks:read", "See where events of your account are sent"},
		{"webhooks:write", "Choose where events of your account are sent"},
		{"new:scope", "new:scope"},
	} {
		all := elements(t, render(t, views.Consent(views.ConsentProps{Page: page, Scopes: []string{test.scope}})))
		if got := squeeze(named(all, "li")[0].text); got != test.want {
			t.Errorf("the scope %q is shown as %q, want %q", test.scope, got, test.want)
		}
	}
}

func TestInstance(t *testing.T) {
	t.Parallel()
	named60 := page
	named60.Instance, named60.SignedIn = "Larkspur Payments", true
	t.Run("its_name_stands_in_the_masthead_and_the_title", func(t *testing.T) {
		t.Parallel()
		all := elements(t, render(t, views.Login(views.LoginProps{Page: named60})))
		if got := named(all, "title")[0].text; got != "Sign in – Larkspur Payments" {
			t.Errorf("title = %q", got)
		}
		if got := squeeze(named(all, "header")[0].text); got != "Larkspur Payments" {
			t.Errorf("masthead = %q", got)
		}
		if got := named(elements(t, render(t, views.Login(views.LoginProps{Page: page}))), "title")[0].text; got != "Sign in – tollhouse" {
			t.Errorf("title without a name = %q", got)
		}
	})
	t.Run("tollhouse_is_named_in_the_footer_of_signed_in_pages_alone", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name     string
			instance string
			signedIn bool
			want     bool
		}{{"signed_in", "Larkspur Payments", true, true}, {"a_stranger", "Larkspur Payments", false, false}, {"without_a_name", "", true, false}} {
			p := page
			p.Instance, p.SignedIn = c.instance, c.signedIn
			footer := named(elements(t, render(t, views.Home(views.HomeProps{Page: p}))), "footer")[0].text
			if got := strings.Contains(footer, "tollhouse"); got != c.want {
				t.Errorf("%s: the footer %q names tollhouse: %t, want %t", c.name, footer, got, c.want)
			}
			if !strings.Contains(footer, page.Host) {
				t.Errorf("%s: the footer %q lacks the host", c.name, footer)
			}
		}
	})
	t.Run("a_logo_replaces_the_mark_and_the_icon", func(t *testing.T) {
		t.Parallel()
		p := page
		p.Logo = "/static/logo.0123456789ab.png"
		all := elements(t, render(t, views.Home(views.HomeProps{Page: p})))
		if img := named(all, "img"); len(img) != 1 || img[0].attrs["src"] != p.Logo || img[0].attrs["height"] != "28" || !img[0].has("alt") {
			t.Errorf("pictures = %v, want the logo, 28 pixels high", img)
		}
		if icon := byAttr(t, all, "rel", "icon"); icon.attrs["href"] != p.Logo || icon.attrs["type"] != "image/png" {
			t.Errorf("icon = %v, want the logo", icon.attrs)
		}
	})
}

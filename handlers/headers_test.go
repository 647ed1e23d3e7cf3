package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// everyAnswer has one answer of every kind: each route, and each of its refusals.
func everyAnswer(t testing.TB, h *house) map[string]answer {
	t.Helper()
	in, out := h.signedIn(t, h.user), h.browser(t)
	p := h.pair(t)
	login := out.get(t, h.authURL())
	consent := in.get(t, h.authURL())
	home := in.get(t, "/")
	var style string
	for n := range parsePage(t, home).Descendants() {
		if n.Data == "link" && attribute(n, "rel") == "stylesheet" {
			style = attribute(n, "href")
		}
	}
	all := map[string]answer{
		"start":                    out.get(t, "/"),
		"start_signed_in":          home,
		"sign_in":                  login,
		"sign_in_without_a_client": out.get(t, "/login"),
		"sign_in_signed_in":        in.get(t, "/login"),
		"sign_in_refused":          out.submit(t, login, "username", "moira", "password", "x"),
		"sign_in_forged":           out.post(t, "/login", nil),
		"sign_in_cross_site":       out.post(t, "/login", nil, header("Sec-Fetch-Site", "cross-site")),
		"sign_in_damaged":          out.send(t, "POST", "/login", strings.NewReader("%zz"), header("Content-Type", formType)),
		"sign_in_done":             h.browser(t).submitFresh(t, h.authURL(), rightPassword...),
		"consent":                  consent,
		"consent_forged":           out.post(t, "/consent", nil),
		"consent_allow":            in.submit(t, consent, "decision", "allow"),
		"consent_again":            in.submit(t, consent, "decision", "deny"),
		"consent_deny":             in.submit(t, in.get(t, h.authURL()), "decision", "deny"),
		"auth_unknown_client":      out.get(t, h.authURL("client_id", "x")),
		"auth_as_json":             out.get(t, h.authURL("client_id", "x"), header("Accept", "application/json")),
		"auth_unregistered_uri":    out.get(t, h.authURL("redirect_uri", "https://evil.example")),
		"auth_refused":             out.get(t, h.authURL("response_type", "x")),
		"auth_by_post":             out.post(t, authPath, nil),
		"auth_options":             out.send(t, "OPTIONS", authPath, nil),
		"token":                    h.token(t, h.refreshForm(p.RefreshToken)),
		"token_refused":            h.token(t, h.refreshForm("x")),
		"token_unknown_client":     h.token(t, nil),
		"token_by_get":             h.get(t, tokenPath),
		"token_options":            h.do(h.request(t, "OPTIONS", tokenPath, nil)),
		"events":                   h.api(t, p.AccessToken),
		"events_without_token":     h.get(t, apiPath),
		"events_with_dead_token":   h.api(t, "x"),
		"unknown_event":            h.get(t, apiPath+"/evt_00000000000000000000000000", header("Authorization", "Bearer "+p.AccessToken)),
		"static":                   h.get(t, style),
		"static_of_no_name":        h.get(t, "/static/nothing.css"),
		"health":                   h.get(t, "/healthz"),
		"ready":                    h.get(t, "/readyz"),
		"no_such_path":             h.get(t, "/nothing"),
		"another_host":             h.get(t, "/", func(r *http.Request) { r.Host = "evil.example" }),
		"query_too_long":           h.get(t, "/?"+strings.Repeat("a", 8<<10+1)),
		"new_password":             out.get(t, newPasswordPath),
		"new_password_incomplete":  out.submit(t, out.get(t, newPasswordPath), "username", "mara", "code", "x", "new_password", "short"),
		"new_password_refused":     out.submit(t, out.get(t, newPasswordPath), "username", "mara", "code", "x", "new_password", freshPassword, "repeat_password", freshPassword),
		"new_password_forged":      out.post(t, newPasswordPath, nil),
		"account":                  in.get(t, accountPath),
		"account_signed_out":       out.get(t, accountPath),
		"account_forged":           in.post(t, accountRevoke, nil),
		"account_refused":          in.post(t, accountPassword, in.passwordForm(t, "x", "x")),
		"account_revoked":          in.post(t, accountRevoke, in.accountForms(t)[h.client.ID]),
		"account_sign_out":         in.post(t, accountOthers, in.passwordForm(t, "x", "x")),
		"sign_out":                 in.submit(t, home),
	}
	h.Faults.Break(record.ErrUnavailable)
	all["ready_when_it_is_not"] = h.get(t, "/readyz")
	all["auth_unavailable"] = out.get(t, h.authURL())
	h.Faults.Break(errFault)
	all["auth_broken"] = out.get(t, h.authURL())
	all["token_broken"] = h.token(t, h.passwordForm())
	h.Faults.Repair()
	return all
}

// submitFresh opens a page and submits its form.
func (b *browser) submitFresh(t testing.TB, target string, namesAndValues ...string) answer {
	t.Helper()
	return b.submit(t, b.get(t, target), namesAndValues...)
}

func isPage(a answer) bool { return strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") }

// Promise (RFC 9700): no page can be framed; no page sends a referrer
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): framing; scripts and styles in a page
func TestHeadersOfEveryAnswer(t *testing.T) {
	h := parallelHouse(t)
	for name, a := range everyAnswer(t, h) {
		t.Run(name, func(t *testing.T) {
			if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("X-Request-Id") == "" {
				t.Errorf("%d lacks nosniff or a request id: %v", a.StatusCode, a.Header)
			}
			hasForm := isPage(a) && strings.Contains(a.body, "<form")
			want := "no-referrer"
			if hasForm {
				want = "same-origin"
			}
			if got := a.Header.Get("Referrer-Policy"); got != want {
				t.Errorf("Referrer-Policy = %q, want %q", got, want)
			}
			if isPage(a) {
				wantPageHeaders(t, a)
			}
			cached := strings.Contains(a.Header.Get("Cache-Control"), "no-store") || strings.Contains(a.Header.Get("Cache-Control"), "private")
			if a.StatusCode != http.StatusNoContent && name != "static" && !cached {
				t.Errorf("Cache-Control = %q, want no-store, or private on the API", a.Header.Get("Cache-Control"))
			}
			if a.StatusCode >= 400 && !isPage(a) && a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type = %q, want a page or JSON", a.Header.Get("Content-Type"))
			}
		})
		if strings.HasPrefix(name, "auth_") {
			t.Run(name+"_has_no_cors", func(t *testing.T) {
				for header := range a.Header {
					if strings.HasPrefix(header, "Access-Control-") {
						t.Errorf("%s: %s, want none", header, a.Header.Get(header))
					}
				}
			})
		}
		if isPage(a) {
			t.Run(name+"_has_no_script_and_no_stranger", func(t *testing.T) { wantPlainMarkup(t, a) })
		}
	}
}

// wantPlainMarkup fails the test if a page contains what its policy forbids.
func wantPlainMarkup(t testing.TB, page answer) {
	t.Helper()
	for n := range parsePage(t, page).Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" && attribute(n, "src") == "" || n.Data == "style" || n.Data == "base" || n.Data == "iframe" || n.Data == "object" {
			t.Errorf("the page has a <%s>", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style":
				t.Errorf("<%s> has the attribute %s", n.Data, a.Key)
			case a.Key == "src" || a.Key == "href" || a.Key == "action":
				if a.Val == "https://app.example" && n.Data == "a" {
					continue // back to the client's own site
				}
				if a.Val != "#content" && !strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//") {
					t.Errorf("<%s %s=%q> leads to another site", n.Data, a.Key, a.Val)
				}
			}
		}
	}
}

// TestFormAction: browsers apply form-action to every redirect after a form. Only the pages
// whose forms lead to clients, which redirect where they like, are without it.
//
// Promise (RFC 9700): a password change ends grants unless the box is cleared; the sign-in and
// consent pages have no form-action, so that a callback may redirect anywhere
func TestFormAction(t *testing.T) {
	h := parallelHouse(t)
	in, out := h.signedIn(t, h.user), h.browser(t)
	h.User(t, "nils", h.account)
	login, consent := out.get(t, h.authURL()), in.get(t, h.authURL())
	toClients := map[string]answer{
		"sign-in":                  login,
		"sign-in refused":          out.submit(t, login, "username", "moira", "password", "x"),
		"sign-in out of date":      out.submit(t, login, "form_token", "x", "username", "mara", "password", "x"),
		"sign-in for tollhouse":    out.get(t, "/login"),
		"code":                     out.get(t, linkOn(t, login, "I was given a code")),
		"consent":                  consent,
		"consent of another user":  h.signedIn(t, h.user).submit(t, consent, "decision", "allow"),
		"consent after a sign-out": out.submit(t, consent, "decision", "allow"),
	}
	for name, page := range toClients {
		policy := directivesOf(page.Header.Get("Content-Security-Policy"))
		if sources, has := policy["form-action"]; has || policy["script-src"] != "'self'" {
			t.Errorf("%s: form-action %s, script-src %s; want none and 'self'", name, sources, policy["script-src"])
		}
	}
	for name, page := range map[string]answer{"account": in.get(t, accountPath), "code": out.get(t, newPasswordPath), "start": in.get(t, "/"), "error": out.get(t, h.authURL("client_id", "x"))} {
		want := "'self'"
		if name == "error" {
			want = "'none'"
		}
		if policy := directivesOf(page.Header.Get("Content-Security-Policy")); policy["form-action"] != want || policy["script-src"] != "'none'" {
			t.Errorf("%s: form-action %s, script-src %s; want %s and 'none'", name, policy["form-action"], policy["script-src"], want)
		}
	}
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): markup in a name of a client or user, in state; JSON
// is sent as JSON with nosniff
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): text from a link shown on our pages
func TestHostileWords(t *testing.T) {
	h := parallelHouse(t)
	hostile := map[string]string{
		"script":  `<script>alert(1)</script>`,
		"handler": `"><img src=x onerror=alert(1)>`,
		"form":    `'"></form><script>alert(1)</script>`,
		"braces":  `{{7*7}}`,
		"closing": `</script></title></style>`,
	}
	for name, words := range hostile {
		client, _ := h.Client(t, func(s *store.ClientSpec) { s.Name = words })
		pages := map[string]answer{
			"sign_in":      h.get(t, h.authURL("client_id", client.ID, "state", words)),
			"consent":      h.signedIn(t, h.user).get(t, h.authURL("client_id", client.ID, "state", words)),
			"error":        h.get(t, h.authURL("client_id", client.ID, "redirect_uri", words)),
			"unknown":      h.get(t, h.authURL("client_id", words)),
			"start":        h.get(t, "/?error="+url.QueryEscape(words)),
			"sign_in_bare": h.get(t, "/login?error_description="+url.QueryEscape(words)),
		}
		for where, page := range pages {
			t.Run(name+"_on_"+where, func(t *testing.T) {
				wantPlainMarkup(t, page)
				if strings.Contains(page.body, words) && words != "{{7*7}}" {
					t.Errorf("the page holds %q raw", words)
				}
				if (where == "start" || where == "sign_in_bare") && strings.Contains(page.body, "alert") {
					t.Error("the page shows what its query says")
				}
			})
		}
	}
	t.Run("json_is_never_read_as_a_page", func(t *testing.T) {
		w := httptest.NewRecorder()
		h.server.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/api/platform/clients", nil))
		if w.Header().Get("Content-Type") != "application/json" && !strings.Contains(w.Header().Get("Content-Type"), "json") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers = %v, want JSON and nosniff", w.Header())
		}
		if !strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("body = %.300s, want the name as it is", w.Body)
		}
	})
}

// Promise (§2.3): every GET answers HEAD too: pages, lists, the desk and the controls of dev
func TestEveryGetAnswersHEADToo(t *testing.T) {
	t.Parallel()
	h := newDevHouse(t, withDesk(), func(c *handlers.Config) { c.Demo = &web.Demo{} })
	desk := h.server.DeskRoutes()
	for _, r := range desk {
		if r[0] == "GET" && !slices.Contains(desk, [2]string{"HEAD", r[1]}) {
			t.Errorf("%s has no HEAD", r[1])
		}
	}
	paths := []string{"/callback", "/_dev"}
	for _, address := range []string{"/openapi.json", "/_dev/openapi.json"} {
		document := object(t, h.get(t, address), http.StatusOK)
		for _, section := range []string{"paths", "x-tollhouse-pages"} {
			described, _ := document[section].(map[string]any)
			for path, item := range described {
				if item.(map[string]any)["get"] != nil {
					paths = append(paths, strings.NewReplacer("{", ":", "}", "").Replace(path))
				}
			}
		}
	}
	if len(paths) < 30 {
		t.Errorf("%d paths with GET, want all", len(paths))
	}
	for _, path := range paths {
		allowed := strings.Split(h.ask(t, "OPTIONS", path, "").Header.Get("Allow"), ", ")
		if !slices.Contains(allowed, "GET") || !slices.Contains(allowed, "HEAD") {
			t.Errorf("%s allows %q, want GET and HEAD", path, allowed)
		}
	}
}

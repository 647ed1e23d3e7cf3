package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

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
				if a.Val != "#content" && !strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//") {
					t.Errorf("<%s %s=%q> leads to another site", n.Data, a.Key, a.Val)
				}
			}
		}
	}
}

func TestFormAction(t *testing.T) {
	h := parallelHouse(t)
	client, _ := h.Client(t, redirectingTo("https://app.example/cb", "http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost/cb", "com.example.app:/cb"))
	cases := map[string]string{
		"https://app.example/cb":   "'self' https:",
		"http://127.0.0.1:5000/cb": "'self' https: http:",
		"http://[::1]:5000/cb":     "'self' https: http:",
		"http://localhost:5000/cb": "'self' https: http:",
		"com.example.app:/cb":      "'self' https: com.example.app:",
	}
	for uri, want := range cases {
		t.Run(url.PathEscape(uri), func(t *testing.T) {
			out := h.browser(t)
			login := out.get(t, h.authURL("client_id", client.ID, "redirect_uri", uri))
			pages := map[string]answer{
				"sign-in":         login,
				"sign-in refused": out.submit(t, login, "username", "moira", "password", "x"),
				"consent":         h.signedIn(t, h.user).get(t, h.authURL("client_id", client.ID, "redirect_uri", uri)),
			}
			for name, page := range pages {
				if got := formActionOf(page); got != want {
					t.Errorf("%s: form-action %s, want %s", name, got, want)
				}
			}
		})
	}
}

func formActionOf(page answer) string {
	for directive := range strings.SplitSeq(page.Header.Get("Content-Security-Policy"), "; ") {
		if sources, ok := strings.CutPrefix(directive, "form-action "); ok {
			return sources
		}
	}
	return ""
}

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
	t.Run("json_holds_no_markup", func(t *testing.T) {
		w := httptest.NewRecorder()
		h.server.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/admin/clients", nil))
		if w.Header().Get("Content-Type") != "application/json" && !strings.Contains(w.Header().Get("Content-Type"), "json") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers = %v, want JSON and nosniff", w.Header())
		}
		if strings.ContainsAny(w.Body.String(), "<>") || !strings.Contains(w.Body.String(), `\u003cscript\u003e`) {
			t.Errorf("body = %.300s, want < and > escaped", w.Body)
		}
	})
}

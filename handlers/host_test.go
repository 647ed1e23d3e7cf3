package handlers_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestForeignHost(t *testing.T) {
	h := parallelHouse(t)
	for _, host := range []string{"evil.example", "pay.example.evil.example", "evil.example:443", "", "pay.example.", "[::1]", "pay.example@evil.example", "127.0.0.1"} {
		t.Run("Host_"+host, func(t *testing.T) {
			for _, target := range []string{"/", h.authURL("response_type", "x"), apiPath, "/login", "/nothing"} {
				a := h.get(t, target, func(r *http.Request) { r.Host = host })
				wantError(t, a, http.StatusMisdirectedRequest, "misdirected_request")
				if a.Header.Get("Location") != "" || strings.Contains(a.body, "evil") {
					t.Errorf("GET %s = %v %s, want nothing of the Host in it", target, a.Header, a.body)
				}
			}
		})
	}
	t.Run("absolute_form", func(t *testing.T) {
		a := h.get(t, "http://evil.example"+h.authURL("response_type", "x"))
		wantError(t, a, http.StatusMisdirectedRequest, "misdirected_request")
	})
	t.Run("our_own_in_any_case_and_with_any_port", func(t *testing.T) {
		for _, host := range []string{"pay.example", "PAY.example", "pay.example:443", "pay.example:8080"} {
			if a := h.get(t, "/", func(r *http.Request) { r.Host = host }); a.StatusCode != http.StatusOK {
				t.Errorf("Host %s = %d, want 200", host, a.StatusCode)
			}
		}
	})
	t.Run("on_loopback_every_name_of_the_machine", func(t *testing.T) {
		h := newHouse(t, at("http://127.0.0.1:8080"))
		for host, want := range map[string]int{"localhost:8080": 200, "[::1]:8080": 200, "127.0.0.1:9090": 200, "evil.example": 421, "localhost.evil.example": 421} {
			if a := h.get(t, "/", func(r *http.Request) { r.Host = host }); a.StatusCode != want {
				t.Errorf("Host %s = %d, want %d", host, a.StatusCode, want)
			}
		}
	})
	t.Run("health_answers_to_any_name", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if a := h.get(t, path, func(r *http.Request) { r.Host = "10.0.0.7:8080" }); a.StatusCode != http.StatusOK {
				t.Errorf("GET %s = %d, want 200", path, a.StatusCode)
			}
		}
	})
}

func TestPublicURLWithPath(t *testing.T) {
	h := parallelHouse(t, at("https://pay.example/pay/"))
	if h.issuer != "https://pay.example/pay" {
		t.Errorf("Issuer() = %q, want no slash at the end", h.issuer)
	}
	b := h.browser(t)
	page := b.get(t, "/pay"+h.authURL())
	if f := formOn(t, page); f.action != "/pay/login" {
		t.Errorf("the form leads to %s, want /pay/login", f.action)
	}
	page = b.follow(t, b.submit(t, page, rightPassword...))
	to := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther)
	if to.Query().Get("iss") != h.issuer {
		t.Errorf("iss = %q, want %q", to.Query().Get("iss"), h.issuer)
	}
	for path, want := range map[string]int{"/": 404, "/login": 404, "/payx": 404, "/pay": 200, "/pay/": 200, "/healthz": 200, "/pay/healthz": 200, "/pay//login": 404} {
		if a := h.get(t, path); a.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, a.StatusCode, want)
		}
	}
}

func TestPathConfusion(t *testing.T) {
	h := parallelHouse(t)
	token := h.pair(t).AccessToken
	for _, path := range []string{
		"//evil.com/%2e%2e/oauth/v2/auth/", "/API/Events", "/api/events/", "/api/../oauth/v2/auth", `/\evil.com`, "/%5Cevil.com", "//evil.com",
		"/oauth/v2/auth/", "/OAuth/v2/auth", "/oauth/v2/../v2/auth", "/./login", "/login/", "/login;x=1", "/%2e%2e/login", "/static/../main.go",
		"/static/%2e%2e/main.go", `/static/..%5cmain.go`, "/static/", "/static", "/static/%00", "/api/events//", "/api//events",
	} {
		t.Run(url.PathEscape(path), func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				a := h.do(h.request(t, method, path, nil, header("Authorization", "Bearer "+token)))
				if to := a.Header.Get("Location"); a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMethodNotAllowed || to != "" {
					t.Errorf("%s %s = %d to %q, want 404 and no redirect", method, path, a.StatusCode, to)
				}
			}
		})
	}
}

// routes are the public paths, with their methods.
var routes = map[string][]string{
	tokenPath:         {"POST"},
	authPath:          {"GET", "HEAD"},
	"/login":          {"GET", "HEAD", "POST"},
	"/consent":        {"POST"},
	"/logout":         {"POST"},
	"/":               {"GET", "HEAD"},
	"/healthz":        {"GET", "HEAD"},
	"/readyz":         {"GET", "HEAD"},
	"/static/missing": {"GET", "HEAD"},
	apiPath:           {"GET", "HEAD"},
	apiPath + "/x":    {"GET", "HEAD"},
	revokePath:        {"POST"},
	introspectPath:    {"POST"},
	"/.well-known/oauth-authorization-server": {"GET", "HEAD"},
	accountPath:              {"GET", "HEAD"},
	accountRevoke:            {"POST"},
	accountOthers:            {"POST"},
	accountPassword:          {"POST"},
	"/api/resources/kind":    {"GET", "HEAD"},
	"/api/resources/kind/id": {"GET", "HEAD", "PUT", "PATCH", "DELETE"},
}

func TestMethods(t *testing.T) {
	h := parallelHouse(t)
	token := header("Authorization", "Bearer "+h.pair(t).AccessToken)
	for path, takes := range routes {
		allow := append([]string{"OPTIONS"}, takes...)
		for _, method := range []string{"TRACE", "PROPFIND", "CONNECT", "POST", "GET", "PUT", "DELETE", "QUERY", "get"} {
			if slices.Contains(takes, method) {
				continue
			}
			t.Run(method+url.PathEscape(path), func(t *testing.T) {
				a := h.do(h.request(t, method, path, nil, token))
				wantError(t, a, http.StatusMethodNotAllowed, "invalid_request")
				wantAllow(t, a, slices.Clone(allow)...)
			})
		}
		t.Run("OPTIONS"+url.PathEscape(path), func(t *testing.T) {
			a := h.do(h.request(t, "OPTIONS", path, nil))
			if a.StatusCode != http.StatusNoContent || a.body != "" {
				t.Errorf("OPTIONS = %d %q, want 204 and no body", a.StatusCode, a.body)
			}
			wantAllow(t, a, slices.Clone(allow)...)
		})
		if !slices.Contains(takes, "GET") {
			continue
		}
		t.Run("HEAD_is_GET"+url.PathEscape(path), func(t *testing.T) {
			get, head := h.get(t, path, token), h.do(h.request(t, "HEAD", path, nil, token))
			if get.StatusCode != head.StatusCode || get.Header.Get("Content-Type") != head.Header.Get("Content-Type") {
				t.Errorf("HEAD = %d %s, GET = %d %s, want the same", head.StatusCode, head.Header.Get("Content-Type"), get.StatusCode, get.Header.Get("Content-Type"))
			}
		})
	}
}

func TestQueryThatCannotBeRead(t *testing.T) {
	h := parallelHouse(t)
	token := h.pair(t).AccessToken
	for name, query := range map[string]string{
		"broken_percent": "type=%zz", "semicolon": "type=a;type=b", "more_than_128_parameters": strings.TrimPrefix(numbered(129), "&"),
	} {
		t.Run(name, func(t *testing.T) {
			a := h.get(t, apiPath+"?"+query, header("Authorization", "Bearer "+token))
			if a.StatusCode != http.StatusBadRequest {
				t.Errorf("status = %d %.200s, want 400 and no list", a.StatusCode, a.body)
			}
		})
	}
	t.Run("many_thousands_of_parameters", func(t *testing.T) {
		a := h.get(t, apiPath+"?"+strings.Repeat("a&", 11_000), header("Authorization", "Bearer "+token))
		wantError(t, a, http.StatusRequestURITooLong, "uri_too_long")
	})
}

package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/static"
)

// TestStaticFiles requests files next to the two assets, in many notations of a path.
//
// Promise (Attacks on operations): secrets in logs and audit; files beside the static ones
func TestStaticFiles(t *testing.T) {
	h := parallelHouse(t)
	style := static.Path("style.css")
	if a := h.get(t, style); a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Fatalf("GET %s = %d %s, want the style sheet", style, a.StatusCode, a.Header.Get("Content-Type"))
	}
	for _, path := range []string{
		"/static/../main.go", "/static/%2e%2e/main.go", "/static/%2e%2e%2fmain.go", "/static/..%2f..%2fetc/passwd", `/static/..%5cmain.go`, `/static/..\main.go`,
		"/static/", "/static", "/static/.", "/static/./", "/static/%00", style + "%00", style + "/", style + "%2f", "/static//" + strings.TrimPrefix(style, static.Prefix),
		"/static/style.css", "/static/static.go", "/static/icon.svg", "/static/....//main.go", "/static/%252e%252e/main.go", strings.ToUpper(style),
	} {
		t.Run(url.PathEscape(path), func(t *testing.T) {
			a := h.get(t, path)
			wantError(t, a, http.StatusNotFound, "not_found")
			if to := a.Header.Get("Location"); to != "" {
				t.Errorf("Location = %q, want none", to)
			}
		})
	}
}

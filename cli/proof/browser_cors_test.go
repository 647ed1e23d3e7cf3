package proof

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// TestBrowserOfAnotherOrigin uses the server from pages of another origin, as far as
// browsers allow it: Swagger UI on our own document, a library for single-page
// applications, and requests with the headers that tracing agents add.
//
// Promise (RFC 9700): Swagger UI, oidc-client-ts, tracing headers, eventsource and
// fetch-event-source work from another origin
func TestBrowserOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	mux := http.NewServeMux()
	modules := http.StripPrefix("/npm/", http.FileServer(http.Dir(nodeModules(t))))
	mux.HandleFunc("GET /npm/", func(w http.ResponseWriter, r *http.Request) {
		if path.Ext(r.URL.Path) == "" { // as bundlers find a module
			r.URL.Path += ".js"
		}
		modules.ServeHTTP(w, r)
	})
	mux.Handle("GET /", http.FileServer(http.Dir(filepath.Join("testdata", "pages"))))
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)

	s := startDev(t)
	var public credentials
	decode(t, s.run("client", "create", "--name", "Single page", "--redirect-uri", "http://127.0.0.1/spa.html", "--public", "--json"), &public)
	s.createUser(maud, s.ready.Account, maudPassword)
	token := s.passwordPair(credentials{ID: s.ready.ClientID, Secret: s.ready.ClientSecret}, maud).Access
	given := url.Values{"issuer": {s.base}, "client": {public.ID}, "token": {token}}.Encode()
	open := func(t *testing.T, page string) *tab {
		t.Helper()
		tb := newTab(t)
		tb.excuse("the server responded with a status of") // refusals that a page can read
		tb.open(site.URL + "/" + page + "?" + given)
		return tb
	}

	t.Run("swagger_ui_on_our_own_document", func(t *testing.T) {
		t.Parallel()
		tb := open(t, "swagger.html")
		tb.see("body[data-ready]")
		for _, operation := range []struct{ id, want string }{
			{"Events-listEventTypes", "\n200"}, {"Webhooks-listWebhookEndpoints", "\n200"}, {"Webhooks-createWebhookEndpoint", "\n201"},
			// Swagger UI fills in every example value, and errors must be readable too.
			{"Events-listEvents", "conflicting_parameters"}, {"Resources-putResource", "not_found"},
		} {
			block := "#operations-" + operation.id
			press := func(button string) {
				tb.see(block + button)
				tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).click()`, block+button)))
			}
			press(" .opblock-summary-control")
			press(" .execute")
			if !tb.seesWithin(block+" .live-responses-table", 10*time.Second) {
				// Under load Swagger UI may lose a click to its own rendering; a person clicks again.
				t.Logf("%s: clicked again; the console: %s", operation.id, tb.excuseAll())
				press(" .execute")
				tb.see(block + " .live-responses-table")
			}
			if got := ask(tb, chromedp.Text(chromedp.CSS(block+" .live-responses-table"))); !strings.Contains(got, operation.want) {
				t.Errorf("%s: %q, want %q in it", operation.id, got, operation.want)
			}
		}
	})
	t.Run("oidc_client_ts_signs_in_renews_and_revokes", func(t *testing.T) {
		t.Parallel()
		tb := open(t, "spa.html")
		tb.signIn(s.ready.Username, s.ready.Password)
		tb.click(allowButton)
		tb.see("body[data-ready]")
		if got, want := ask(tb, chromedp.Text(chromedp.CSS("#said"))), `{"scope":"events:read","read":200,"renewed":200,"revoked":401}`; got != want {
			t.Errorf("the application says %s, want %s", got, want)
		}
	})
	t.Run("stream_libraries_resume_after_a_cut", func(t *testing.T) {
		t.Parallel()
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(must.Get(url.Parse(s.base))(t)) },
			ErrorLog: log.New(io.Discard, "", 0), // of the cut
		})
		t.Cleanup(proxy.Close)
		tb := newTab(t)
		tb.excuse("net::ERR_") // the cut
		tb.open(site.URL + "/streams.html?" + url.Values{"issuer": {proxy.URL}, "token": {token}}.Encode())
		tb.see("body[data-open]")
		proxy.CloseClientConnections()
		tb.see("body[data-ready]")
		const want = `{"eventsource":{"resumed":[false,true],"got":[true]},"fetch-event-source":{"resumed":[false,true],"got":[true]},"polled":304}`
		if got := ask(tb, chromedp.Text(chromedp.CSS("#said"))); got != want {
			t.Errorf("the page says %s, want %s", got, want)
		}
	})
	t.Run("requests_with_six_tracing_headers", func(t *testing.T) {
		t.Parallel()
		tb := open(t, "traced.html")
		tb.excuse("has been blocked by CORS policy") // of what is not for pages
		tb.excuse("net::ERR_FAILED")
		tb.see("body[data-ready]")
		const blocked = "TypeError: Failed to fetch"
		want := `{"events":"200","types":"200","put":"201","webhooks":"200","nobody":"401 challenged","unknown":"404","metadata":"404","token":"400","account":"` + blocked + `","login":"` + blocked + `"}`
		if got := ask(tb, chromedp.Text(chromedp.CSS("#said"))); got != want {
			t.Errorf("the page says %s, want %s", got, want)
		}
	})
}

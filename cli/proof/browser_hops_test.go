package proof

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/security"

	"tollhouse/store/storetest/must"
)

// TestBrowserHops is a callback that redirects further: native applications end on plain
// http at loopback or in a private scheme, behind a callback on https.
//
// Promise (RFC 9700): a password change ends grants unless the box is cleared; the sign-in and
// consent pages have no form-action, so that a callback may redirect anywhere
func TestBrowserHops(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	for name, to := range map[string]string{
		"to_loopback_http":    "", // of a second callback
		"to_a_private_scheme": "vscode://larkspur.books/done",
		"to_a_reversed_name":  "com.example.tollbooth:/done",
		"to_a_word":           "claude://larkspur/done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beyond := newCallback(t, "127.0.0.1:0")
			if to == "" {
				to = beyond.uri()
			}
			hop := httptest.NewUnstartedServer(http.RedirectHandler(to+"?from=hop", http.StatusFound))
			hop.Config.ErrorLog = log.New(io.Discard, "", 0) // of the self-signed certificate
			hop.StartTLS()
			t.Cleanup(hop.Close)
			uri := hop.URL + "/callback"
			client := s.in(t).remembers("Onward "+name, uri)
			arrives := func(tb *tab) {
				t.Helper()
				eventually(t, func() bool { return tb.hasVisited(to + "?from=hop") }, "the browser never tried %s", to)
			}
			trusting := func() *tab {
				tb := newTab(t)
				tb.do(call(security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}))
				tb.excuse("user gesture is required") // to open another program
				return tb
			}
			tb := trusting()
			tb.open(s.authorizeURL(client.ID, uri, "s"))
			tb.signIn(s.ready.Username, s.ready.Password)
			tb.see(allowButton)
			tb.click(allowButton)
			arrives(tb)

			again := trusting() // the consent is remembered, so the sign-in form leads there
			again.open(s.authorizeURL(client.ID, uri, "s"))
			again.signIn(s.ready.Username, s.ready.Password)
			arrives(again)
		})
	}
}

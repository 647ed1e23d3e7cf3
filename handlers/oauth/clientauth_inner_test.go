package oauth

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"unsafe"

	"tollhouse/handlers/web"
)

// Caches keep the id of a client for long. It may not hold on to the secrets that came with it.
func TestTheIDOfAClientKeepsNoRequest(t *testing.T) {
	t.Parallel()
	basic := httptest.NewRequest(http.MethodPost, "/", nil)
	basic.SetBasicAuth("someone", "and a secret")
	for name, r := range map[string]*http.Request{"body": httptest.NewRequest(http.MethodPost, "/", nil), "Basic": basic} {
		p, refused := web.ParseOAuthParams("client_id=someone&username=u&password=and+a+password")
		if refused != nil {
			t.Fatal(refused)
		}
		c, refused := parseClientCredentials(r, p, false)
		if refused != nil || c.ID != "someone" {
			t.Fatalf("%s: %+v, %v", name, c, refused)
		}
		for what, text := range map[string]string{"the body": p.Value("client_id"), "the header": c.RawID} {
			if text != "" && unsafe.StringData(c.ID) == unsafe.StringData(text) {
				t.Errorf("%s: the id is a part of %s", name, what)
			}
		}
	}
}

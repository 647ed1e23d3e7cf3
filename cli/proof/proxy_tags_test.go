package proof

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestAClientBehindAProxyThatCompressesCanWrite: nginx weakens the tag of a resource, and
// the client sends back the tag that it has.
func TestAClientBehindAProxyThatCompressesCanWrite(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "operations.md")))(t)
	config := fencedBlocks(section(string(text), proxySection), "nginx")[0]
	f := startNginx(t, secureURL, "gzip on;\ngzip_proxied any;\ngzip_types application/json;\ngzip_min_length 1;\n"+config)
	f.createUser(maud, "acct_a", maudPassword)
	c := &client{base: f.public, credentials: f.createClient("Writer", callbackURI), http: &http.Client{Timeout: requestWait, Transport: f.transport}}
	granted, _, err := c.grant(t.Context(), "password", "username", maud, "password", maudPassword)
	must.Do(t, err)
	send := func(method, body string, header ...string) answer {
		t.Helper()
		header = append(header, "Authorization", "Bearer "+granted.Access, "Content-Type", "application/json", "Accept-Encoding", "gzip")
		return must.Get(c.send(t.Context(), method, "/api/resources/plan/p1", body, header...))(t)
	}
	send(http.MethodPut, `{"title":"Basic","note":"`+strings.Repeat("x", 300)+`"}`)
	first := send(http.MethodGet, "").header.Get("ETag")
	if !strings.HasPrefix(first, `W/"evt_`) {
		t.Fatalf("ETag behind the proxy is %q, want a weak one", first)
	}
	if a := send(http.MethodPatch, `{"title":"Better"}`, "If-Match", first); a.status != http.StatusOK {
		t.Errorf("a change of the version that was read: %v", a)
	}
	if a := send(http.MethodPatch, `{"title":"Best"}`, "If-Match", first); a.status != http.StatusPreconditionFailed {
		t.Errorf("a change of an older version: %v", a)
	}
	last := send(http.MethodGet, "").header.Get("ETag")
	if a := send(http.MethodGet, "", "If-None-Match", last); a.status != http.StatusNotModified {
		t.Errorf("a read of the same version: %v", a)
	}
}

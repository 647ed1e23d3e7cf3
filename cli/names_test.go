package cli

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestNamesOfAServer: both modes carry the operator's name and logo.
//
// Promise (Browsers): operators, codes for a new password, start page, name and logo
func TestNamesOfAServer(t *testing.T) {
	t.Parallel()
	var logo bytes.Buffer
	must.Do(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 40, 28))))
	file := filepath.Join(t.TempDir(), "logo.png")
	must.Do(t, os.WriteFile(file, logo.Bytes(), 0o600))
	for mode, args := range map[string][]string{
		"dev":   {"dev"},
		"serve": {"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := must.Get(startProcess("", nil, append(args, "--instance-name", "Larkspur Payments", "--logo", file)...))(t)
			t.Cleanup(func() { s.end() })
			page := bodyOf(t, s.text("url")+"/login")
			if !strings.Contains(page, "<title>Sign in – Larkspur Payments</title>") {
				t.Errorf("the title of the page is another: %.400s", page)
			}
			address := regexp.MustCompile(`/static/logo\.[0-9a-f]+\.png`).FindString(page)
			if got := bodyOf(t, s.text("url")+address); got != logo.String() {
				t.Errorf("%q has %d bytes, want the %d of the logo", address, len(got), logo.Len())
			}
		})
	}
}

func bodyOf(t testing.TB, url string) string {
	t.Helper()
	a := must.Get(http.Get(url))(t)
	defer a.Body.Close()
	var b bytes.Buffer
	must.Get(b.ReadFrom(a.Body))(t)
	return b.String()
}

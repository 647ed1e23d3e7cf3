package webhooks_test

import (
	"os"
	"testing"

	"tollhouse/store/storetest/must"
)

// The environment of every test here names a proxy that does not exist. Most of them wait
// for the second after which a server looks at what another one has changed.
func TestMain(m *testing.M) {
	must.ManyAtATime(4)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		_ = os.Setenv(name, "http://127.0.0.1:1")
	}
	os.Exit(m.Run())
}

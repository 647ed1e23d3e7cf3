package proof

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// readyTarget is the figure for dev; the test holds it to margin times that.
const readyTarget = 100 * time.Millisecond

// TestDev holds the throwaway instance to what scripts rely on.
func TestDev(t *testing.T) {
	t.Parallel()
	s := startDev(t)
	t.Run("ready_line_says_all_that_a_test_needs", func(t *testing.T) {
		r := s.ready
		if r.URL != s.base || !strings.HasPrefix(r.URL, "http://127.0.0.1:") || strings.HasSuffix(r.URL, ":0") {
			t.Errorf("url %q, listening on %v; want the address of the first listener, with its port", r.URL, r.Listen)
		}
		if r.PID != s.process.Pid || r.Version == "" || r.AdminSocket == "" {
			t.Errorf("pid %d, version %q, admin_socket %q; want %d and neither empty", r.PID, r.Version, r.AdminSocket, s.process.Pid)
		}
		if r.RedirectURI != callbackURI || r.Account != "acct_demo" || slices.Contains([]string{r.ClientID, r.ClientSecret, r.Username, r.Password}, "") {
			t.Errorf("ready line %+v; want redirect_uri %s, account acct_demo, and credentials", r, callbackURI)
		}
	})
	t.Run("demo_account_has_a_history", func(t *testing.T) {
		if n := s.in(t).countEvents(); n == 0 {
			t.Error("the demo account has no events")
		}
	})
	t.Run("admin_socket_goes_with_the_server", func(t *testing.T) {
		other := startDev(t)
		if other.ready.ClientID != s.ready.ClientID || other.ready.ClientSecret != s.ready.ClientSecret || other.ready.Password != s.ready.Password {
			t.Error("two instances have different demo credentials, want them fixed")
		}
		other.stop()
		if _, err := os.Stat(other.ready.AdminSocket); err == nil {
			t.Errorf("%s is still there after the server has stopped", other.ready.AdminSocket)
		}
	})
}

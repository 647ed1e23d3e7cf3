package till

import (
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"example.com/shop/internal/tollhousetest"
)

func signIn(t *testing.T, s *tollhousetest.Server) int {
	t.Helper()
	res, err := http.PostForm(s.URL+"/oauth/v2/token", url.Values{
		"grant_type": {"password"}, "client_id": {s.ClientID}, "client_secret": {s.ClientSecret},
		"username": {s.Username}, "password": {s.Password},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func TestSignInAfterAFault(t *testing.T) {
	t.Parallel()
	s := tollhousetest.Start(t)
	rule := s.Fault(`{"match":{"path":"/oauth/v2/token"},"count":1,"do":{"status":503}}`)
	if first, second := signIn(t, s), signIn(t, s); first != 503 || second != 200 {
		t.Errorf("statuses %d and %d, want 503 and 200", first, second)
	}
	asked := s.Requests("path=/oauth/v2/token")
	if len(asked) != 2 || asked[0]["fault"] != rule || asked[1]["status"] != 200.0 {
		t.Errorf("requests: %v", asked)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	s := tollhousetest.Start(t)
	s.Snapshot("empty")
	s.Events(`{"type":"customer.created","resource":"cus_1","eventData":{"object":{"displayName":"Larkspur"}}}`)
	with := s.Call("GET", "/_dev/state", "")["events"].(float64)
	s.Restore("empty")
	without := s.Call("GET", "/_dev/state", "")["events"].(float64)
	s.Reset()
	if with != without+1 || s.Call("GET", "/_dev/state", "")["resets"] != 2.0 {
		t.Errorf("%v events, %v after restore", with, without)
	}
}

func TestHanging(t *testing.T) {
	file := os.Getenv("HANG")
	if file == "" {
		t.Skip("runs only when the runner is to be killed")
	}
	tollhousetest.Start(t)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
}

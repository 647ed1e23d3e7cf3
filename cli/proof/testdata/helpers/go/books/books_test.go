package books

import (
	"net/http"
	"testing"
	"time"

	"example.com/shop/internal/tollhousetest"
)

func TestExpiredToken(t *testing.T) {
	t.Parallel()
	s := tollhousetest.Start(t, "--access-ttl", "1h")
	token := s.Token(`{"scope":"events:read"}`)
	list := func() int {
		req, err := http.NewRequest("GET", s.URL+"/api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token["access_token"].(string))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	before := list()
	s.Advance(2 * time.Hour)
	if after := list(); before != 200 || after != 401 {
		t.Errorf("statuses %d, and %d two hours later, want 200 and 401", before, after)
	}
	if refused := s.Requests("status=401"); len(refused) != 1 || refused[0]["error"] != "invalid_token" {
		t.Errorf("refused requests: %v", refused)
	}
}

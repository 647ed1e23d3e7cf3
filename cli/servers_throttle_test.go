package cli

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// TestEachServerCountsFailures guesses a password at two servers of one database in turns.
// No sign-in waits for the database to count it.
//
// Promise (Credentials, memory, connections): guessing one account by many spellings or from many
// addresses, many from one; a restart; two servers
func TestEachServerCountsFailures(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	database, key := pgtest.Start(t), filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(key, secret.NewKey(nil).Text(), 0o600))
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	must.Do(t, json.Unmarshal([]byte(tollhouse(t, "client", "create", "--name", "Report", "--grant", "password", "--scope", "events:read", "--store", database, "--json")), &client))
	var servers []string
	for range 2 {
		servers = append(servers, start(t, "serve", "--store", database, "--key-file", key, "--listen", "127.0.0.1:0").text("url"))
	}
	judged := 0
	for i := range 24 {
		// A password of this length is wrong and costs no hash.
		answer := must.Get(http.PostForm(servers[i%2]+"/oauth/v2/token", url.Values{
			"grant_type": {"password"}, "client_id": {client.ID}, "client_secret": {client.Secret},
			"username": {"mara"}, "password": {strings.Repeat("x", 1025)},
		}))(t)
		answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusBadRequest:
			judged++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("guess %d: status %d, want 400 or 429", i, answer.StatusCode)
		}
	}
	if judged < 20 { // a slow machine lets a few more through, whose delays have ended
		t.Errorf("two servers judged %d of 24 guesses, want the 10 of each", judged)
	}
}

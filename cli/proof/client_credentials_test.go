package proof

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"tollhouse/store/storetest/must"
)

// TestClientCredentialsOfLibraries lets a job without a user get a token by each library
// and list events with it.
//
// Promise (RFC 6749 §2.3): another scheme, or an empty header, is ignored where the body has
// credentials; alone it is a 401 that names the scheme
func TestClientCredentialsOfLibraries(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	s := startDev(t)
	var job credentials
	decode(t, s.run("client", "create", "--name", "Night job", "--account", "acct_job", "--grant", "client_credentials", "--json"), &job)
	settings := must.Get(json.Marshal(map[string]string{
		"issuer": s.ready.URL, "client_id": job.ID, "client_secret": job.Secret, "scope": "events:read", "events": s.ready.URL + "/api/events",
	}))(t)
	for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleAutoDetect, oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
		t.Run("golang.org_x_oauth2", func(t *testing.T) {
			config := clientcredentials.Config{ClientID: job.ID, ClientSecret: job.Secret, TokenURL: s.ready.URL + "/oauth/v2/token", Scopes: []string{"events:read"}, AuthStyle: style}
			token := must.Get(config.Token(t.Context()))(t)
			if token.RefreshToken != "" {
				t.Error("there is a refresh token")
			}
			answer := must.Get(config.Client(t.Context()).Get(s.ready.URL + "/api/events"))(t)
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("events = %s, want 200", answer.Status)
			}
		})
	}
	for _, library := range []string{"openid-client", "oauth4webapi"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			nodeModules(t)
			runJob(t, nodeProgram(t, "job-"+library+".mjs"), settings)
		})
	}
	t.Run("requests-oauthlib", func(t *testing.T) {
		t.Parallel()
		const python = "/usr/bin/python3" // Debian's, which has its packages
		must.Have(t, exec.Command(python, "-c", "import requests_oauthlib").Run() == nil, "requests-oauthlib, of Debian's package python3-requests-oauthlib, is missing")
		runJob(t, exec.Command(python, filepath.Join("testdata", "job.py")), settings)
	})
}

// runJob runs a program that gets a token and lists events, and judges what it says.
func runJob(t *testing.T, program *exec.Cmd, settings []byte) {
	t.Helper()
	said := &transcript{}
	program.Args = append(program.Args, string(settings))
	program.Stderr = said
	out, err := program.Output()
	if want := `{"refresh":null,"scope":"events:read","status":200}` + "\n"; err != nil || string(out) != want {
		t.Errorf("the job says %q, %v, want %q: %s", out, err, want, said.tail())
	}
}

package proof

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestPlatformDescription generates clients from the description of the calls for platform
// clients, compiles them strictly, and runs a program made with each.
//
// Promise (Platform §1): clients are generated from /api/platform/openapi.json for Go and
// TypeScript, compile strictly and work; redocly lint finds nothing
func TestPlatformDescription(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startDev(t)
	token := s.platformToken(t)
	r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.ready.URL+"/api/platform/openapi.json", nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	res := must.Get(http.DefaultClient.Do(r))(t)
	served := bodyOf(t, res)
	t.Run("redocly_finds_nothing", func(t *testing.T) {
		t.Parallel()
		if found := lint(t, served); found.Totals.Errors+found.Totals.Warnings+found.Totals.Ignored > 0 {
			t.Errorf("redocly lint found %+v", found)
		}
	})
	t.Run("oapi-codegen", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		must.Do(t, os.CopyFS(dir, os.DirFS(generatedDir)))
		must.Do(t, os.Rename(filepath.Join(dir, "platform.go.txt"), filepath.Join(dir, "main.go")))
		downloadModules(t, dir)
		must.Do(t, os.Mkdir(filepath.Join(dir, "api"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, "openapi.json"), served, 0o644))
		wantSilence(t, goIn(t, dir, "tool", "oapi-codegen", "-config", "oapi-codegen.yaml", "openapi.json"))
		wantSilence(t, goIn(t, dir, "vet", "./..."))
		wantManaged(t, s, token, "bygo", goIn(t, dir, "run", "."))
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		root := nodeDir(t)
		dir := filepath.Join(root, "platform")
		must.Do(t, os.WriteFile(filepath.Join(dir, "openapi.json"), served, 0o644))
		wantNoWarning(t, nodeIn(t, dir, "../node_modules/.bin/openapi-typescript", "openapi.json", "-o", "schema.d.ts"))
		wantNoWarning(t, nodeIn(t, dir, "../node_modules/.bin/openapi-ts", "-i", "openapi.json", "-o", "hey-api"))
		wantSilence(t, nodeIn(t, dir, "../node_modules/.bin/tsc", "-p", "."))
		wantManaged(t, s, token, "byfetch", nodeIn(t, dir, filepath.Join("out", "fetch.js")))
	})
}

func bodyOf(t testing.TB, res *http.Response) []byte {
	t.Helper()
	defer res.Body.Close()
	return must.Get(io.ReadAll(res.Body))(t)
}

// platformToken returns a token of the platform client of dev.
func (s *server) platformToken(t testing.TB) string {
	t.Helper()
	res := must.Get(http.PostForm(s.ready.URL+"/oauth/v2/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {s.ready.PlatformClientID}, "client_secret": {s.ready.PlatformSecret},
	}))(t)
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	decode(t, bodyOf(t, res), &issued)
	return issued.AccessToken
}

// wantManaged runs a program, which must create an account and a user, learn from a repetition
// which user it made, and list the users of the account.
func wantManaged(t *testing.T, s *server, token, name string, cmd *exec.Cmd) {
	t.Helper()
	type managed struct {
		Account       string
		HasCode, Same bool
		Names         []string
	}
	cmd.Env = append(cmd.Env, "GIVEN="+jsonOf(map[string]string{"URL": s.ready.URL, "Token": token, "Name": name}))
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	var got managed
	decode(t, out, &got)
	if want := (managed{"acct_" + name, true, true, []string{name}}); !reflect.DeepEqual(got, want) {
		t.Errorf("the program says %+v, want %+v", got, want)
	}
}

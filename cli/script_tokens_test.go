package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// withServer does something with the server of the script's data directory: the
// one that runs, or one for just that long.
func withServer(ts *testscript.TestScript, do func(url string)) {
	if store := ts.Getenv("TOLLHOUSE_STORE"); store != "" { // one more server, perhaps
		s, err := startProcess("", []string{"TOLLHOUSE_STORE=" + store}, "serve", "--key-file", ts.Getenv("TOLLHOUSE_KEY_FILE"), "--listen", "127.0.0.1:0")
		ts.Check(err)
		defer s.end()
		do(s.text("url"))
		return
	}
	data := ts.Getenv("TOLLHOUSE_DATA")
	told, err := exec.Command("tollhouse", "status", "--json", "--data", data).Output()
	var running struct{ URL string }
	if err == nil {
		ts.Check(json.Unmarshal(told, &running))
		do(running.URL)
		return
	}
	s, err := startProcess("", nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
	ts.Check(err)
	defer s.end()
	do(s.text("url"))
}

// scriptGrant is "grant CLIENT SECRET USER PASSWORD_FILE": a client gets tokens
// for a user, which the files access and refresh then hold.
func scriptGrant(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: grant CLIENT SECRET USER PASSWORD_FILE")
	}
	withServer(ts, func(at string) {
		access, refresh, err := grantAt(at, args[0], args[1], args[2], strings.TrimSpace(ts.ReadFile(args[3])))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("access"), []byte(access+"\n"), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("refresh"), []byte(refresh+"\n"), 0o600))
	})
}

// scriptPush is "push VARIABLE URL": the token in the file access creates a webhook endpoint,
// whose id the variable then holds.
func scriptPush(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: push VARIABLE URL")
	}
	withServer(ts, func(at string) {
		r, err := http.NewRequest(http.MethodPost, at+"/api/webhook-endpoints", strings.NewReader(fmt.Sprintf(`{"url":%q}`, args[1])))
		ts.Check(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile("access")))
		answer, err := http.DefaultClient.Do(r)
		ts.Check(err)
		defer answer.Body.Close()
		var made struct{ ID string }
		if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || made.ID == "" {
			ts.Fatalf("no endpoint: status %d, %v", answer.StatusCode, err)
		}
		ts.Setenv(args[0], made.ID)
	})
}

// grantAt gets tokens of the server at that address.
func grantAt(at, client, clientSecret, user, password string) (access, refresh string, err error) {
	answer, err := http.PostForm(at+"/oauth/v2/token", url.Values{"grant_type": {"password"}, "client_id": {client}, "client_secret": {clientSecret},
		"username": {user}, "password": {password}})
	if err != nil {
		return "", "", err
	}
	defer answer.Body.Close()
	var made struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || made.Access == "" {
		return "", "", fmt.Errorf("no token: status %d, %w", answer.StatusCode, err)
	}
	return made.Access, made.Refresh, nil
}

// grantable reads what client create printed.
func grantable(t *testing.T, printed string) (c admin.AdminClient) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(printed), &c))
	return c
}

// scriptSignIn is "signin USER PASSWORD_FILE": a browser signs in by the form;
// the file cookie then holds what it got.
func scriptSignIn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signin USER PASSWORD_FILE")
	}
	withServer(ts, func(at string) {
		cookie, err := signInAt(at, args[0], strings.TrimSpace(ts.ReadFile(args[1])))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("cookie"), []byte(cookie+"\n"), 0o600))
	})
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)

// signInAt signs in by the form, as a browser does, and returns its cookie.
func signInAt(at, user, password string) (cookie string, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{Jar: jar}
	page, err := browser.Get(at + "/login")
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(page.Body)
	if err := errors.Join(err, page.Body.Close()); err != nil {
		return "", err
	}
	form := url.Values{"username": {user}, "password": {password}}
	for _, field := range hiddenField.FindAllStringSubmatch(string(text), -1) {
		form.Set(field[1], field[2])
	}
	answer, err := browser.PostForm(at+"/login", form)
	if err != nil {
		return "", err
	}
	if err := answer.Body.Close(); err != nil {
		return "", err
	}
	for _, c := range jar.Cookies(answer.Request.URL) {
		if strings.HasPrefix(c.Value, "tollss_") {
			return c.Value, nil
		}
	}
	return "", fmt.Errorf("not signed in: status %d", answer.StatusCode)
}

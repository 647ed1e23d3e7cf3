package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// withServer does something with the server of the script's data directory: the
// one that runs, or one for just that long.
func withServer(ts *testscript.TestScript, do func(url string)) {
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
		answer, err := http.PostForm(at+"/oauth/v2/token", url.Values{"grant_type": {"password"}, "client_id": args[:1], "client_secret": args[1:2],
			"username": args[2:3], "password": {strings.TrimSpace(ts.ReadFile(args[3]))}})
		ts.Check(err)
		defer answer.Body.Close()
		var made struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
		ts.Check(json.NewDecoder(answer.Body).Decode(&made))
		if made.Access == "" {
			ts.Fatalf("no token: status %d", answer.StatusCode)
		}
		ts.Check(os.WriteFile(ts.MkAbs("access"), []byte(made.Access+"\n"), 0o600))
		ts.Check(os.WriteFile(ts.MkAbs("refresh"), []byte(made.Refresh+"\n"), 0o600))
	})
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)

// scriptSignIn is "signin USER PASSWORD_FILE": a browser signs in by the form;
// the file cookie then holds what it got.
func scriptSignIn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signin USER PASSWORD_FILE")
	}
	withServer(ts, func(at string) {
		jar, err := cookiejar.New(nil)
		ts.Check(err)
		browser := &http.Client{Jar: jar}
		page, err := browser.Get(at + "/login")
		ts.Check(err)
		text, err := io.ReadAll(page.Body)
		ts.Check(errors.Join(err, page.Body.Close()))
		form := url.Values{"username": args[:1], "password": {strings.TrimSpace(ts.ReadFile(args[1]))}}
		for _, field := range hiddenField.FindAllStringSubmatch(string(text), -1) {
			form.Set(field[1], field[2])
		}
		answer, err := browser.PostForm(at+"/login", form)
		ts.Check(err)
		ts.Check(answer.Body.Close())
		site, err := url.Parse(at)
		ts.Check(err)
		for _, c := range jar.Cookies(site) {
			if strings.HasPrefix(c.Value, "tollss_") {
				ts.Check(os.WriteFile(ts.MkAbs("cookie"), []byte(c.Value+"\n"), 0o600))
				return
			}
		}
		ts.Fatalf("not signed in: status %d, fields %v", answer.StatusCode, form)
	})
}

package server

import (
	"os/exec"
	"strings"
	"testing"

	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// TestWelcome: the commands that dev prints work when pasted.
func TestWelcome(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("curl")
	must.Have(t, err == nil, "curl")
	i := newTestInstance(t, plain)
	line := readyLine{URL: i.url, Dev: i.url + web.DevPath, demoLine: &demoLine{
		ClientID: demoClientID, ClientSecret: demoClientSecret, RedirectURI: demoRedirectURI,
		Username: demoUsername, Password: demoPassword, Account: demoAccount, Desk: i.url + "/desk",
	}}
	shown := devWelcome(line)
	_, rest, _ := strings.Cut(shown, "\n  desk ")
	address, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if !strings.HasPrefix(rest, "(as demo, an operator)\n") {
		t.Errorf("dev does not say that its user has the desk:\n%s", shown)
	}
	if page, err := exec.Command("curl", "-s", "-f", "-H", "Accept: text/html", address).CombinedOutput(); err != nil || !strings.Contains(string(page), `name="password"`) {
		t.Errorf("the desk's address %s shows no sign-in form: %v %s", address, err, page)
	}
	var answers []string
	for text := range strings.Lines(shown) {
		if command := strings.TrimSpace(text); strings.HasPrefix(command, "curl ") {
			out, err := exec.Command("sh", "-c", command).Output()
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			answers = append(answers, string(out))
		}
	}
	if len(answers) != 3 || !strings.HasPrefix(answers[0], `{"access_token":"tollat_`) || !strings.HasPrefix(answers[1], `{"object":"list","data":[{"id":"evt_`) {
		t.Errorf("pasted commands answered %q", answers)
	}
	if n := i.state().Resets; n != 1 {
		t.Errorf("%d resets, want 1", n)
	}
}

func TestWelcomeEscapesFixtures(t *testing.T) {
	t.Parallel()
	shown := devWelcome(readyLine{URL: "http://127.0.0.1:1", Dev: "http://127.0.0.1:1/_dev", demoLine: &demoLine{
		ClientID: "till", ClientSecret: "a&b", Username: "odile", Password: "it's $5",
	}})
	if !strings.Contains(shown, " -d client_secret=a%26b -d username=odile -d password=it%27s+%245\n") {
		t.Errorf("dev prints\n%s", shown)
	}
}

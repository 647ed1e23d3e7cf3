package server

import (
	"os/exec"
	"strings"
	"testing"

	"tollhouse/must"
)

// TestWelcome: the commands that dev prints work when pasted, one for the first token and
// one for the first events.
func TestWelcome(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("curl")
	demand(t, err == nil, "curl")
	r := inMemory(t)
	must.Do(t, seedDemo(t.Context(), r.data().Store, r.data().Store.Now()))
	announced, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.serve(func() { close(announced) }) }()
	<-announced
	line := readyLine{URL: r.server().Issuer(), demoLine: &demoLine{
		ClientID: demoClientID, ClientSecret: demoClientSecret, RedirectURI: demoRedirectURI,
		Username: demoUsername, Password: demoPassword, Account: demoAccount,
	}}
	var answers []string
	for text := range strings.Lines(devWelcome(line)) {
		if command := strings.TrimSpace(text); strings.HasPrefix(command, "curl ") {
			out, err := exec.Command("sh", "-c", command).Output()
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			answers = append(answers, string(out))
		}
	}
	if len(answers) != 2 || !strings.HasPrefix(answers[0], `{"access_token":"tollat_`) || !strings.HasPrefix(answers[1], `{"object":"list","data":[{"id":"evt_`) {
		t.Errorf("pasted commands answered %q", answers)
	}
	closeAll(r.listeners) // a server stops when its listener fails
	<-ended
}

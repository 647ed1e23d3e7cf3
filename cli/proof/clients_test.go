package proof

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	driverWait = 2 * time.Minute // for a walk, which takes about 2 s
	// clientsScope is less than there is, so that the answer has to name it; and
	// the strict libraries take no scope that is null.
	clientsScope = "events:read resources:read"
)

// TestClients drives the client libraries that programs for Node are written
// with. What matters is that nothing here bends to one of them: each proves who
// it is, spells its requests and reads the answers in its own way.
func TestClients(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	nodeModules(t)
	for _, library := range []struct {
		name string
		ways []string // of client authentication
	}{
		{"openid-client", []string{"basic", "body", "none"}},
		{"oauth4webapi", []string{"basic", "body", "none"}},
		{"simple-oauth2", []string{"basic", "basic_unencoded", "body", "body_as_json", "none"}},
		{"badgateway-oauth2-client", []string{"basic", "basic_unencoded", "body", "none"}},
	} {
		t.Run(library.name, func(t *testing.T) {
			t.Parallel()
			s := startDev(t)
			for _, way := range library.ways {
				t.Run("by_"+way, func(t *testing.T) { t.Parallel(); walkLibrary(t, s.in(t), library.name, way) })
			}
		})
	}
}

// walkLibrary lets a library take the walk of testdata/npm/walk.mjs, and judges
// each step as a test of its own.
func walkLibrary(t *testing.T, s *server, library, way string) {
	d := s.startDriver(library, way)
	var seen []string
	for line := range d.lines {
		switch {
		case line.Ask != "":
			d.tell(map[string]string{"arrived": d.decide(line.Ask, line.URL)})
		default:
			seen = append(seen, line.Step)
			t.Run(line.Step, func(t *testing.T) { d.judge(t, line) })
		}
	}
	d.end()
	if want := stepsOf(library, way); !slices.Equal(seen, want) {
		t.Errorf("the walk went through\n%v, want\n%v", seen, want)
	}
}

// stepsOf lists the steps of a library's walk.
func stepsOf(library, way string) []string {
	simple, strict := library == "simple-oauth2", library == "openid-client" || library == "oauth4webapi"
	var steps []string
	add := func(when bool, names ...string) {
		if when {
			steps = append(steps, names...)
		}
	}
	add(!simple, "discovery")
	add(true, "code")
	add(strict, "issuer_of_another", "issuer_missing")
	add(true, "code_reaches_the_api", "used_code")
	add(true, "code_to_rotate", "refresh", "lost_answer", "refresh_again", "replay", "replay_ends_the_family", "replay_ends_access", "deny")
	add(!simple, "code_to_introspect")
	add(!simple && way != "none", "introspect_own")
	add(!simple, "introspect_as_watcher", "introspect_unknown")
	add(true, "code_to_revoke", "revoke_access", "refresh_after_revoke_access", "revoke_refresh", "refresh_after_revoke_refresh")
	add(way != "none", "password", "password_reaches_the_api", "wrong_password", "wrong_secret")
	return steps
}

// driver is a running program of a library's.
type driver struct {
	t       *testing.T
	s       *server
	cmd     *exec.Cmd
	input   io.WriteCloser
	lines   <-chan driverLine
	said    *transcript // what it said on standard error
	visitor *visitor

	client credentials
	way    string
	before driverTokens // what the last step that gave tokens gave
}

// driverLine is what a driver says: it asks for a decision, or tells of a step.
type driverLine struct {
	Ask, URL    string
	Step, Error string
	Result      json.RawMessage
}

// driverTokens is a token answer as a library has read it.
type driverTokens struct {
	Access, Refresh, Scope string
	ExpiresIn              float64
}

// startDriver registers a client of the test's own and starts the library's
// driver with it.
func (s *server) startDriver(library, way string) *driver {
	s.t.Helper()
	t := s.t.(*testing.T)
	d := &driver{t: t, s: s, said: &transcript{}, visitor: newVisitor(t), way: way}
	args := []string{"client", "create", "--name", library + " by " + way, "--redirect-uri", callbackURI, "--json"}
	if way == "none" {
		args = append(args, "--public")
	}
	decode(t, s.run(args...), &d.client)
	var watcher credentials
	decode(t, s.run("client", "create", "--name", "Watcher", "--redirect-uri", callbackURI, "--introspect", "--json"), &watcher)

	d.cmd = nodeProgram(t, library+".mjs")
	d.cmd.Stderr = d.said
	stdout, err := d.cmd.StdoutPipe()
	must.Do(t, err)
	if d.input, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("node %s.mjs: %v", library, err)
	}
	late := time.AfterFunc(driverWait, func() { _ = d.cmd.Process.Kill() })
	d.lines = d.read(stdout)
	t.Cleanup(func() { // it has ended by then, unless the test failed
		late.Stop()
		_ = d.cmd.Process.Kill()
		for range d.lines {
		}
		_ = d.cmd.Wait()
	})

	settings := map[string]any{
		"issuer": s.ready.URL, "client_id": d.client.ID, "redirect_uri": callbackURI, "scope": clientsScope, "way": way,
		"username": s.ready.Username, "password": s.ready.Password,
		"watcher": map[string]string{"client_id": watcher.ID, "client_secret": watcher.Secret, "way": "basic"},
	}
	if d.client.Secret != "" {
		settings["client_secret"] = d.client.Secret
	}
	d.tell(settings)
	return d
}

// read passes on what the driver says, until it ends.
func (d *driver) read(stdout io.Reader) <-chan driverLine {
	lines := make(chan driverLine)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			var line driverLine
			if json.Unmarshal(scanner.Bytes(), &line) != nil {
				line = driverLine{Step: "chatter", Error: scanner.Text()}
			}
			lines <- line
		}
	}()
	return lines
}

// tell sends the driver a line.
func (d *driver) tell(value any) {
	d.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.input.Write(append(text, '\n')); err != nil {
		d.t.Errorf("the driver does not listen: %v", err)
	}
}

// end waits for the driver, which must have ended well.
func (d *driver) end() {
	d.t.Helper()
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the driver ended with %v; it said:\n%s", err, d.said.tail())
	}
}

// decide is the person in the browser, who follows the library's address.
func (d *driver) decide(decision, address string) string {
	d.t.Helper()
	question := d.visitor.open(address)
	if question.field("ticket") == "" {
		question = d.visitor.signIn(address, d.s.ready.Username, d.s.ready.Password)
	}
	arrived := d.visitor.submit(question, "decision", decision).location
	if arrived == "" {
		d.t.Fatalf("%s leads nowhere", decision)
	}
	return arrived
}

// refusals are the steps that must fail, with the error of OAuth that the
// library has to find in the answer.
var refusals = map[string]string{
	"used_code": "invalid_grant", "replay": "invalid_grant", "replay_ends_the_family": "invalid_grant",
	"deny": "access_denied", "refresh_after_revoke_refresh": "invalid_grant",
	"wrong_password": "invalid_grant", "wrong_secret": "invalid_client",
}

// reaches are the steps that call the API, with the status of its answer.
var reaches = map[string]string{
	"code_reaches_the_api": "200", "password_reaches_the_api": "200",
	"replay_ends_access": "401", "revoke_access": "401", "revoke_refresh": "401",
}

// judge holds a step to what it has to come to.
func (d *driver) judge(t *testing.T, line driverLine) {
	if line.Error != "" {
		t.Fatal(line.Error)
	}
	result := strings.Trim(string(line.Result), `"`)
	if want, ok := refusals[line.Step]; ok {
		wantResult(t, result, want)
		return
	}
	if want, ok := reaches[line.Step]; ok {
		wantResult(t, result, want)
		return
	}
	switch line.Step {
	case "discovery":
		wantResult(t, result, d.s.ready.URL)
	case "issuer_of_another", "issuer_missing":
		if !strings.Contains(result, "iss") {
			t.Errorf("the library says %s, want that it misses iss", result)
		}
	case "introspect_own", "introspect_as_watcher":
		d.judgeIntrospection(t, line.Result)
	case "introspect_unknown":
		wantResult(t, result, `{"active":false}`)
	default:
		d.judgeTokens(t, line)
	}
}

func wantResult(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func (d *driver) judgeIntrospection(t *testing.T, result json.RawMessage) {
	var found struct {
		Active                    bool
		Scope, Username, Iss, Sub string
		TokenType                 string `json:"token_type"`
		ClientID                  string `json:"client_id"`
		Exp, Iat                  int64
	}
	decode(t, result, &found)
	if !found.Active || found.Scope != clientsScope || found.Username != d.s.ready.Username || found.Iss != d.s.ready.URL ||
		found.ClientID != d.client.ID || found.TokenType != "bearer" || !strings.HasPrefix(found.Sub, "usr_") || found.Exp != found.Iat+3600 {
		t.Errorf("introspection found %s", result)
	}
}

// judgeTokens holds a pair to its form, and to the pair before it.
func (d *driver) judgeTokens(t *testing.T, line driverLine) {
	var got driverTokens
	decode(t, line.Result, &got)
	const slow = 60 // seconds for a busy machine, and for the retry that counts down
	if !strings.HasPrefix(got.Access, "tollat_") || !strings.HasPrefix(got.Refresh, "tollrt_") || got.Scope != clientsScope || math.Abs(got.ExpiresIn-3600) > slow {
		t.Errorf("got %+v, want an access token, a refresh token, the scope %q and about 3600 s", got, clientsScope)
	}
	same := got.Access == d.before.Access && got.Refresh == d.before.Refresh
	if line.Step == "lost_answer" && !same {
		t.Error("a repeated refresh gave another pair, want the identical one")
	}
	if line.Step != "lost_answer" && (got.Access == d.before.Access || got.Refresh == d.before.Refresh) {
		t.Error("got a token that was given before")
	}
	d.before = got
}

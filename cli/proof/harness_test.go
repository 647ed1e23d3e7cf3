package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// What is waited for, and for how long. A server is ready in well under 100 ms;
// the bound only has to tell slow from stuck on a busy machine.
const (
	readyWait   = time.Minute
	stopWait    = time.Minute // the server may drain for 20 s
	commandWait = time.Minute
	requestWait = time.Minute
)

func TestMain(m *testing.M) {
	must.ManyAtATime(2) // they wait for servers, browsers and seconds to end
	must.FilesInMemory()
	code := m.Run()
	chromium.close()
	if err := os.RemoveAll(built.dir); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		code = 1
	}
	os.Exit(code)
}

// built is the program under test, once it is there.
var built struct {
	once      sync.Once
	path, dir string
	err       error
}

// program returns the path of the tollhouse under test, and builds it for the
// first test that asks.
func program(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.path = os.Getenv("TOLLHOUSE_BINARY"); built.path == "" {
			built.err = build()
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() error {
	root := filepath.Join("..", "..")
	if err := lookAtSources(root); err != nil {
		return err
	}
	var err error
	if built.dir, err = os.MkdirTemp("", "tollhouse-proof-"); err != nil {
		return err
	}
	built.path = filepath.Join(built.dir, "tollhouse")
	cmd := exec.Command("go", "build", "-o", built.path, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// lookAtSources opens every directory that the program is built from. go test
// notes what a test opens, and so does not give an old result out of its cache
// for a program that has changed since: that these tests import none of it is
// all that it would know otherwise.
func lookAtSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			_, err = os.ReadDir(path)
		}
		return err
	})
}

// needTool returns the path of the first of the programs that is installed. At
// home a test without its tool is skipped; in CI that would be a test that
// silently stopped to exist.
func needTool(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	must.Have(t, false, "none of "+strings.Join(names, ", ")+" is installed")
	return ""
}

// environ is the environment without settings of ours that the person at the
// keyboard may have.
func environ() []string {
	var kept []string
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "TOLLHOUSE_") {
			kept = append(kept, setting)
		}
	}
	return kept
}

// readyLine is what a server prints once it answers.
type readyLine struct {
	Ready       int      `json:"ready"`
	URL         string   `json:"url"`
	Listen      []string `json:"listen"`
	AdminSocket string   `json:"admin_socket"`
	Version     string   `json:"version"`
	PID         int      `json:"pid"`
	Redirect    string   `json:"http_redirect"` // of serve with TLS, where plain http is led there

	// Of dev alone.
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RedirectURI  string `json:"redirect_uri"`
	Username     string `json:"username"`
	Password     string `json:"password"`
	Account      string `json:"account"`

	PlatformClientID string `json:"platform_client_id"`
	PlatformSecret   string `json:"platform_client_secret"`
}

// server is a running tollhouse.
type server struct {
	t     testing.TB
	ready readyLine
	took  time.Duration // from the start of the process to the ready line
	// base is where it is reached, which need not be its public URL.
	base string

	where  []string // the flag that leads commands to its store; nil is its admin socket
	beside *server  // of two on one database, the other

	power   func() // is cut before a kill; may be nil
	process *os.Process
	log     *transcript
	ended   chan struct{} // closed when the process is gone
	err     error         // how it ended; read after ended
}

// startDev starts a throwaway server.
func startDev(t testing.TB, args ...string) *server {
	t.Helper()
	return start(t, append([]string{"dev"}, args...)...)
}

// startServe starts the appliance on a directory and a free port.
func startServe(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	return start(t, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, args...)...)
}

func start(t testing.TB, args ...string) *server {
	t.Helper()
	return startIn(t, environ(), args...)
}

// startIn is start in an environment.
func startIn(t testing.TB, environ []string, args ...string) *server {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Env = environ
	return startCommand(t, cmd, args[0])
}

// startCommand starts a server by a command that becomes it.
func startCommand(t testing.TB, cmd *exec.Cmd, name string) *server {
	t.Helper()
	s := &server{t: t, log: &transcript{}, ended: make(chan struct{})}
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir() // nothing is left in the tree
	}
	cmd.Stderr = s.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s.process = cmd.Process
	t.Cleanup(s.finish)

	first := make(chan string, 1)
	go func() {
		out := bufio.NewReader(stdout)
		line, _ := out.ReadString('\n') // an end without a line is told by ended
		first <- line
		_, _ = io.Copy(s.log, out)
		s.err = cmd.Wait()
		close(s.ended)
	}()
	select {
	case line := <-first:
		s.took = time.Since(started)
		if err := json.Unmarshal([]byte(line), &s.ready); err != nil || s.ready.Ready != 1 || len(s.ready.Listen) == 0 {
			s.kill()
			t.Fatalf("%s: ready line %q is not one (%v); stderr:\n%s", name, line, err, s.log.tail())
		}
	case <-time.After(readyWait):
		s.kill()
		t.Fatalf("%s: not ready after %v; stderr:\n%s", name, readyWait, s.log.tail())
	}
	s.base = "http://" + s.ready.Listen[0]
	return s
}

// running reports whether the process is still there.
func (s *server) running() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// stop asks the server, and the one beside it, to end and holds them to exit code 0.
func (s *server) stop() {
	s.t.Helper()
	if s.beside != nil && s.beside.running() {
		defer s.beside.stop()
	}
	if err := s.process.Signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("SIGTERM: %v", err)
	}
	select {
	case <-s.ended:
	case <-time.After(stopWait):
		s.kill()
		s.t.Errorf("still running %v after SIGTERM; stderr:\n%s", stopWait, s.log.tail())
		return
	}
	if s.err != nil {
		s.t.Errorf("after SIGTERM: %v, want exit code 0; stderr:\n%s", s.err, s.log.tail())
	}
}

// kill ends the server as a power switch would, as far as a process can tell. One
// beside it goes on.
func (s *server) kill() {
	if s.power != nil {
		s.power()
	}
	_ = s.process.Kill() // it may have ended by itself
	<-s.ended
}

// finish ends what the test left running, and searches what was logged.
func (s *server) finish() {
	if s.beside != nil {
		defer s.beside.finish()
	}
	if s.running() {
		s.stop()
	}
	if found := s.log.secrets(); len(found) > 0 {
		s.t.Errorf("the log holds %d secrets, the first begins %.12q", len(found), found[0])
	}
	if s.t.Failed() {
		s.t.Logf("the server's last words:\n%s", s.log.tail())
	}
	s.log.forget()
}

// run runs a command of the binary against this server and returns its output.
func (s *server) run(args ...string) []byte {
	s.t.Helper()
	where := s.where
	if where == nil {
		where = []string{"--admin-socket", s.ready.AdminSocket}
	}
	return command(s.t, "", append(args, where...)...)
}

// command runs the binary to its end and returns its standard output; an exit
// code other than 0 fails the test.
func command(t testing.TB, stdin string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Env = environ()
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = commandWait
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("tollhouse %s: %v", strings.Join(args, " "), err)
	}
	late := time.AfterFunc(commandWait, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("tollhouse %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.Bytes()
}

// credentials are a client's, as `client create --json` prints them.
type credentials struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

// createClient registers a client for the redirect URIs.
func (s *server) createClient(name string, redirectURIs ...string) credentials {
	s.t.Helper()
	args := []string{"client", "create", "--name", name, "--json"}
	for _, uri := range redirectURIs {
		args = append(args, "--redirect-uri", uri)
	}
	var c credentials
	decode(s.t, s.run(args...), &c)
	return c
}

// createUser makes a person who can sign in.
func (s *server) createUser(name, account, password string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.log.watchFor(password)
	s.run("user", "create", name, "--account", account, "--password-file", file, "--json")
}

func decode(t testing.TB, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%q is not the JSON that was expected: %v", text, err)
	}
}

// transcript keeps what a server has logged, up to a bound.
type transcript struct {
	mu       sync.Mutex
	text     []byte
	canaries []string
	most     int            // bytes of text; a crash is kept in any case
	counted  map[string]int // how often a text stood in all that was logged
}

const (
	transcriptSizeMax = 64 << 20 // bytes; some 250 a request
	tailSize          = 4 << 10
)

func (tr *transcript) Write(p []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.most == 0 {
		tr.most = transcriptSizeMax
	}
	for text := range tr.counted {
		tr.counted[text] += bytes.Count(p, []byte(text))
	}
	if crash.Match(p) {
		tr.most = max(tr.most, len(tr.text)+tailSize)
	}
	if len(tr.text) < tr.most {
		tr.text = append(tr.text, p...)
	}
	return len(p), nil
}

// count counts a text from now on.
func (tr *transcript) count(text string) (sofar func() int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.counted == nil {
		tr.counted = map[string]int{}
	}
	tr.counted[text] = 0
	return func() int {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.counted[text]
	}
}

// watchFor adds a secret that no pattern finds.
func (tr *transcript) watchFor(secret string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.canaries = append(tr.canaries, secret)
}

// ourSecrets finds every token, code and client secret by its form.
var ourSecrets = regexp.MustCompile(`toll(at|rt|ac|cs)_[0-9A-Za-z]{20,}`)

// secrets returns those that stand in the log.
func (tr *transcript) secrets() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var found []string
	for _, secret := range tr.canaries {
		if bytes.Contains(tr.text, []byte(secret)) {
			found = append(found, secret)
		}
	}
	for _, secret := range ourSecrets.FindAll(tr.text, -1) {
		found = append(found, string(secret))
	}
	return found
}

// forget lets go of what was searched.
func (tr *transcript) forget() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.text = nil
}

// size returns how much was logged, in bytes.
func (tr *transcript) size() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.text)
}

// all returns what was logged so far.
func (tr *transcript) all() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return string(tr.text)
}

// crash is where Go begins to say why a process ends.
var crash = regexp.MustCompile(`(?m)^(fatal error|panic|unexpected fault address|SIGBUS)`)

// tail returns the end of the log, from the beginning of a crash on.
func (tr *transcript) tail() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if at := crash.FindIndex(tr.text); at != nil {
		from := max(0, at[0]-tailSize/4)
		return string(tr.text[from:min(len(tr.text), from+tailSize)])
	}
	return string(tr.text[max(0, len(tr.text)-tailSize):])
}

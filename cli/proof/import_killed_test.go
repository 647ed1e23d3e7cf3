package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// canaryHash is a password hash of the old system, which nothing that is printed may repeat.
const canaryHash = "$2y$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"

// importFile writes the lines of a client with a secret and a token, and of n users.
func importFile(t *testing.T, n int) (name string, lines int, secrets []string) {
	t.Helper()
	secrets = []string{canaryHash, "canary secret of the old system", strings.Repeat("canary-access-", 3), strings.Repeat("canary-refresh-", 3)}
	var b bytes.Buffer
	fmt.Fprintln(&b, `{"account":{"account":"acct_larkspur"}}`)
	fmt.Fprintf(&b, `{"client":{"client_id":"books","client_secret":%q,"redirect_uris":["https://books.example/cb"]}}`+"\n", secrets[1])
	for i := range n {
		fmt.Fprintf(&b, `{"user":{"username":"user%d","account":"acct_larkspur","password_hash":%q}}`+"\n", i, canaryHash)
	}
	fmt.Fprintf(&b, `{"token":{"client_id":"books","username":"user0","access_token":%q,"expires_at":4102444800,"refresh_token":%q,"refresh_expires_at":4102444800}}`+"\n", secrets[2], secrets[3])
	fmt.Fprintf(&b, `{"user":{"username":"user1","account":"acct_dunmere","password_hash":%q}}`+"\n", canaryHash[:40])
	name = filepath.Join(t.TempDir(), "old.ndjson")
	must.Do(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name, n + 4, secrets
}

// auditOfImports returns what the audit lines of all imports count together.
func auditOfImports(t *testing.T, data string) (lines, counted int) {
	t.Helper()
	for line := range bytes.Lines(command(t, "", "audit", "--what", "admin", "--json", "--data", data)) {
		var of struct {
			Reason string `json:"reason"`
			Count  int    `json:"count"`
		}
		decode(t, line, &of)
		if strings.HasPrefix(of.Reason, "imported") {
			lines, counted = lines+1, counted+of.Count
		}
	}
	return lines, counted
}

// An import that was killed has an audit line that counts exactly what it left, and is run again.
//
// Promise (Platform §9): a killed import is run again; its one audit line, written with each of its
// changes, counts what is there, also after kill -9
func TestAKilledImportIsRunAgain(t *testing.T) {
	t.Parallel()
	const users = 6000
	file, lines, _ := importFile(t, users)
	data := filepath.Join(t.TempDir(), "data")
	text := must.Get(os.ReadFile(file))(t)
	cmd := exec.Command(program(t), "import", "-", "--on-error", "skip", "--data", data)
	cmd.Env = environ()
	in := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	half := bytes.LastIndexByte(text[:len(text)/2], '\n') + 1
	_, err := in.Write(text[:half]) // what fits in the pipe may still wait when the process ends
	must.Do(t, err)
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // by the signal
	listed := func() (n int) {
		for line := range bytes.Lines(command(t, "", "user", "list", "--json", "--data", data)) {
			if bytes.Contains(line, []byte("acct_larkspur")) {
				n++
			}
		}
		return n
	}
	left := listed()
	if left == 0 || left >= users {
		t.Fatalf("the killed import left %d users of %d; want some", left, users)
	}
	if n, counted := auditOfImports(t, data); n != 1 || counted != left+2 {
		t.Errorf("%d audit lines count %d records; want one for %d users, the client and the account", n, counted, left)
	}
	again := exec.Command(program(t), "import", file, "--on-error", "skip", "--json", "--data", data)
	again.Env = environ()
	out, err := again.Output()
	if exit := again.ProcessState.ExitCode(); exit != 65 {
		t.Fatalf("the second run: exit %d, %v; want 65 for the line that is refused", exit, err)
	}
	var sum struct {
		Lines, Unchanged, Errors int
		Created                  struct{ Users, Tokens int }
	}
	decode(t, out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &sum)
	if sum.Lines != lines || sum.Created.Users != users-left || sum.Created.Tokens != 1 || sum.Unchanged != left+2 || sum.Errors != 1 {
		t.Errorf("the second run: %+v; want %d users created and %d lines unchanged", sum, users-left, left+2)
	}
	if n := listed(); n != users {
		t.Errorf("%d users, want %d", n, users)
	}
}

// Promise (Platform §9): no answer, log line, audit line, metric or error of an import repeats a
// password, hash, secret or token
func TestAnImportRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	file, _, secrets := importFile(t, 3)
	srv := startServe(t, filepath.Join(t.TempDir(), "data"))
	for _, s := range secrets {
		srv.log.watchFor(s)
	}
	var seen bytes.Buffer
	for _, flags := range [][]string{{"--dry-run"}, {"--json"}, {"--update"}} {
		cmd := exec.Command(program(t), append([]string{"import", file, "--on-error", "skip", "--admin-socket", srv.ready.AdminSocket}, flags...)...)
		cmd.Env = environ()
		cmd.Stdout, cmd.Stderr = &seen, &seen
		_ = cmd.Run() // 65 for the line that is refused
	}
	form := "grant_type=password&username=user0&password=wrong+horse+battery&client_id=books&client_secret=" + strings.ReplaceAll(secrets[1], " ", "+")
	answer := must.Get(http.Post(srv.base+"/oauth/v2/token", "application/x-www-form-urlencoded", strings.NewReader(form)))(t)
	must.Get(io.Copy(&seen, answer.Body))(t)
	must.Do(t, answer.Body.Close())
	for _, args := range [][]string{{"audit", "--json"}, {"status", "--json"}, {"user", "list", "--json"}, {"client", "list", "--json"}, {"token", "list", "--json"}, {"doctor", "--json"}, {"export", "-"}} {
		cmd := exec.Command(program(t), append(args, "--admin-socket", srv.ready.AdminSocket)...)
		cmd.Env = environ()
		cmd.Stdout, cmd.Stderr = &seen, &seen
		_ = cmd.Run() // doctor may find a problem
	}
	must.Get(seen.Write(must.Get(json.Marshal(fmt.Sprint(srv.metrics(t))))(t)))(t)
	if !bytes.Contains(seen.Bytes(), []byte("acct_dunmere")) && !bytes.Contains(seen.Bytes(), []byte("user1")) {
		t.Errorf("the import said nothing:\n%s", seen.Bytes())
	}
	scan := bufio.NewScanner(&seen)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		for _, s := range append(secrets, canaryHash[7:29]) {
			if strings.Contains(scan.Text(), s) {
				t.Errorf("%.8s… is repeated in %.200s", s, scan.Text())
			}
		}
	}
}

package proof

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	consumerLinesMax = 21 // without those that only close a block
	consumerEvents   = 40
	consumerKills    = 3 // of the server, and as many of the consumer
)

// TestConsumersOfTheGuide runs the consumers of docs/api.md while they and the server are
// killed: they miss no event, and repeat at most the one that they had in hand.
//
// Promise (§4.1, §4.2): the guide's consumers miss nothing over kills of both sides
func TestConsumersOfTheGuide(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	guide := string(must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "api.md")))(t))
	const python = "/usr/bin/python3" // Debian's, which has its packages
	for _, tt := range []struct{ name, language, file string }{{python, "python", "consumer.py"}, {"node", "js", "consumer.mjs"}} {
		t.Run(tt.language, func(t *testing.T) {
			t.Parallel()
			must.Have(t, tt.language != "python" || exec.Command(python, "-c", "import requests").Run() == nil, "requests, of Debian's package python3-requests, is missing")
			found := regexp.MustCompile("(?s)```"+tt.language+"\n(.*?)```").FindAllStringSubmatch(guide, -1)
			if len(found) != 1 {
				t.Fatalf("docs/api.md has %d consumers in %s, want one", len(found), tt.language)
			}
			program := found[0][1]
			if lines := len(regexp.MustCompile(`(?m)^.*\w.*$`).FindAllString(program, -1)); lines > consumerLinesMax {
				t.Errorf("the consumer has %d lines, want at most %d", lines, consumerLinesMax)
			}
			consumeThroughKills(t, needTool(t, tt.name), tt.file, program)
		})
	}
}

func consumeThroughKills(t *testing.T, interpreter, file, program string) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String() // the same in every life
	must.Do(t, l.Close())
	data := filepath.Join(t.TempDir(), "data")
	serve := func() *server { return start(t, "serve", "--data", data, "--listen", address) }
	s := serve()
	var job credentials
	decode(t, s.run("client", "create", "--name", "Consumer", "--account", "acct_a", "--grant", "client_credentials", "--json"), &job)
	s.createUser(maud, "acct_a", maudPassword)
	writer := s.createClient("Writer", callbackURI)
	granted := s.passwordPair(writer, maud)
	api := &client{base: s.base, credentials: writer, http: &http.Client{}}

	c := &consumer{t: t, interpreter: interpreter, dir: t.TempDir(), file: file}
	c.env = append(environ(), "PYTHONUTF8=1", "URL="+s.base, "CLIENT_ID="+job.ID, "CLIENT_SECRET="+job.Secret)
	must.Do(t, os.WriteFile(filepath.Join(c.dir, file), []byte(program), 0o644))
	// record repeats a change until it is answered. A repeated change records nothing.
	record := func(n int) {
		for end := time.Now().Add(busyMax); ; time.Sleep(50 * time.Millisecond) {
			a, err := api.call(t.Context(), granted.Access, http.MethodPut, fmt.Sprintf("/api/resources/plan/p%d", n), `{"text":"Å ✅ \u0085 \u2028"}`)
			if err == nil && a.status == http.StatusCreated || err == nil && a.status == http.StatusOK {
				return
			}
			if time.Now().After(end) {
				t.Errorf("change %d: %s, %v", n, a, err)
				return
			}
		}
	}

	c.start()
	c.await("a position before any event", func() bool { _, err := os.Stat(filepath.Join(c.dir, "position")); return err == nil })
	c.kill()
	record(0) // while the consumer, which has had no event, is away
	c.start()
	c.await("the event recorded while it was away", func() bool { return len(c.got()) == 1 })

	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 1; n <= consumerEvents && !t.Failed(); n++ {
			record(n)
			time.Sleep(100 * time.Millisecond)
		}
	})
	for range consumerKills {
		time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
		s.kill()
		s.finish()
		s = serve()
		before := len(c.got())
		c.await("an event after the server's restart", func() bool { return len(c.got()) > before || before > consumerEvents })
		c.kill()
		c.start()
	}
	writing.Wait()
	log := must.Get(api.send(t.Context(), http.MethodGet, "/api/events?order=asc&limit=1000", "", "Authorization", "Bearer "+granted.Access, "Accept", "application/x-ndjson"))(t)
	want := strings.Split(strings.TrimSuffix(string(log.body), "\n"), "\n")
	c.await("the last event", func() bool { return slices.Contains(c.got(), want[len(want)-1]) })
	c.kill()
	got := c.got()
	repeated := len(got)
	got = slices.Compact(got) // an event that is repeated follows itself
	if repeated -= len(got); repeated > c.kills {
		t.Errorf("%d events came twice after %d kills", repeated, c.kills)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the consumer printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	t.Logf("%d events, %d repeated, after %d kills of the server and %d of the consumer", len(want), repeated, consumerKills, c.kills)
}

// consumer is a program that prints events, over several lives.
type consumer struct {
	t                      *testing.T
	interpreter, dir, file string
	env                    []string
	cmd                    *exec.Cmd
	kills                  int
}

func (c *consumer) start() {
	c.t.Helper()
	out := must.Get(os.OpenFile(filepath.Join(c.dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(c.t)
	defer out.Close()
	said := must.Get(os.OpenFile(filepath.Join(c.dir, "err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(c.t)
	defer said.Close()
	c.cmd = exec.Command(c.interpreter, c.file)
	c.cmd.Dir, c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = c.dir, c.env, out, said
	must.Do(c.t, c.cmd.Start())
	cmd := c.cmd
	c.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

func (c *consumer) kill() {
	c.t.Helper()
	c.kills++
	must.Do(c.t, c.cmd.Process.Kill())
	_ = c.cmd.Wait()
}

// got returns the complete lines that it has printed.
func (c *consumer) got() []string {
	lines := strings.Split(string(must.Get(os.ReadFile(filepath.Join(c.dir, "out")))(c.t)), "\n")
	return lines[:len(lines)-1]
}

func (c *consumer) await(what string, come func() bool) {
	c.t.Helper()
	for end := time.Now().Add(requestWait); !come(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			said, _ := os.ReadFile(filepath.Join(c.dir, "err"))
			c.t.Fatalf("the consumer never had %s; it printed %d lines and said %s", what, len(c.got()), said)
		}
	}
}

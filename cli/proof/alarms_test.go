package proof

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// alarm is a message in the generic form.
type alarm struct {
	ID       string  `json:"id"`
	Alarm    string  `json:"alarm"`
	State    string  `json:"state"`
	Subject  *string `json:"subject"`
	Count    int     `json:"count"`
	BegunAt  int64   `json:"begun_at"`
	EndedAt  *int64  `json:"ended_at"`
	Instance string  `json:"instance"`
	Title    string  `json:"title"`
	URL      string  `json:"url"`

	at time.Time
}

func (a alarm) String() string { return a.Alarm + " " + a.State }

// alarmReceiver gets alarms over HTTP.
type alarmReceiver struct {
	t testing.TB
	*httptest.Server
	mu      sync.Mutex
	status  int // 0 accepts
	tried   []alarm
	arrived []alarm
}

func newAlarmReceiver(t testing.TB) *alarmReceiver {
	r := &alarmReceiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		var a alarm
		if err := json.Unmarshal(text, &a); err != nil {
			t.Errorf("%s is not the generic form: %v", text, err)
		}
		a.at = time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tried = append(r.tried, a)
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		r.arrived = append(r.arrived, a)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *alarmReceiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// await returns the first message of that kind, tried or arrived.
func (r *alarmReceiver) await(of func() []alarm, is string, within time.Duration) alarm {
	r.t.Helper()
	for begun := time.Now(); time.Since(begun) < within; time.Sleep(20 * time.Millisecond) {
		r.mu.Lock()
		all := of()
		for _, a := range all {
			if a.String() == is {
				r.mu.Unlock()
				return a
			}
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Fatalf("no %q within %s; tried %v, arrived %v", is, within, r.tried, r.arrived)
	return alarm{}
}

// awaitAll waits for so many of a kind.
func (r *alarmReceiver) awaitAll(is string, n int) {
	r.t.Helper()
	for begun := time.Now(); time.Since(begun) < 3*time.Minute; time.Sleep(20 * time.Millisecond) {
		found := 0
		r.mu.Lock()
		for _, a := range r.arrived {
			if a.String() == is {
				found++
			}
		}
		r.mu.Unlock()
		if found == n {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Fatalf("not %d of %q; arrived %v", n, is, r.arrived)
}

func (r *alarmReceiver) allTried() []alarm   { return r.tried }
func (r *alarmReceiver) allArrived() []alarm { return r.arrived }

func (r *alarmReceiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried, r.arrived = nil, nil
}

const alarmWait = 30 * time.Second

// TestAlarmsSurviveAKill kills a server whose receiver refuses, and looks for its URLs everywhere.
//
// Promise (Guard §7, §8, §9): alarms that were not delivered go out after a kill -9, with the same id; no URL
// of theirs is in a log, an argument, a setting, an answer or the store
func TestAlarmsSurviveAKill(t *testing.T) {
	t.Parallel()
	r := newAlarmReceiver(t)
	dir := filepath.Join(t.TempDir(), "data")
	const canary = "Canary5f1c0a77d94e"
	host := strings.TrimPrefix(r.URL, "http://")
	file := filepath.Join(t.TempDir(), "urls")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, "generic+http://user:%[1]s@%[2]s/%[1]s?token=%[1]s\ngotify://127.0.0.1:1/%[1]s\nsmtp://user:%[1]s@127.0.0.1:1/?from=a@b.example&to=%[1]s@b.example\n", canary, host), 0o600))
	args := []string{"--alarm-file", file, "--alarm-every", "1s", "--instance-name", "Larkspur Payments", "--metrics-listen", "127.0.0.1:0"}
	r.answer(500)
	s := startServe(t, dir, append(args, "--alarm-size", "1KiB")...)
	s.log.watchFor(canary)
	begun := r.await(r.allTried, "size begun", alarmWait)
	password := filepath.Join(t.TempDir(), "password")
	must.Do(t, os.WriteFile(password, []byte("a phrase for olga\n"), 0o600))
	s.run("user", "create", "olga", "--password-file", password, "--operator")
	var shown []byte
	for _, args := range [][]string{{"config", "--json"}, {"config"}, {"doctor", "--json"}, {"alarm", "list", "--json"}, {"audit", "--json"}, {"status", "--json"}} {
		shown = append(shown, s.run(args...)...)
	}
	cmd := exec.Command(program(t), "alarm", "test", "--admin-socket", s.ready.AdminSocket)
	cmd.Env = environ()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "generic+http://"+host+"/…  no ") || strings.Count(string(out), "connection refused") != 2 {
		t.Errorf("alarm test: %v\n%s", err, out)
	}
	shown = append(shown, out...)
	shown = append(shown, must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.process.Pid)))(t)...)
	backup := filepath.Join(t.TempDir(), "backup")
	s.run("backup", backup)
	s.kill()
	r.forget()
	r.answer(0)
	s = startServe(t, dir, args...)
	s.log.watchFor(canary)
	r.await(r.allArrived, "privileges happened", alarmWait)
	ended := r.await(r.allArrived, "size ended", alarmWait)
	if ended.BegunAt != begun.BegunAt || ended.EndedAt == nil || ended.Instance != "Larkspur Payments" {
		t.Errorf("told %+v, want the end of %+v", ended, begun)
	}
	// What began before the kill was told with its id, or was replaced by its end.
	for _, a := range r.allArrived() {
		if a.String() == "size begun" && a.ID != begun.ID {
			t.Errorf("told %+v, which was tried as %+v", a, begun)
		}
	}
	for _, path := range append(must.Get(filepath.Glob(filepath.Join(dir, "*", "*")))(t), backup) {
		if text, err := os.ReadFile(path); err == nil {
			shown = append(shown, text...)
		}
	}
	if n := strings.Count(string(shown), canary); n > 0 {
		t.Errorf("%d times a URL's secret is shown", n)
	}
	s.stop()
}

// TestOneOfTwoServersSendsAlarms has two servers on a database, and kills the one that sends.
//
// Promise (Guard §7, §8, §9): on a database one server sends for all, another within 30 s of its end; what a
// command does there is told too; that the database does not answer is told by each
func TestOneOfTwoServersSendsAlarms(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	r := newAlarmReceiver(t)
	database := pgtest.New(t)
	p := onDatabase(t, database.Database(t))
	s := p.serve(t, "--public-url", "http://127.0.0.1", "--alarm-every", "1s", "--alarm", "generic+http://"+strings.TrimPrefix(r.URL, "http://")+"/x", "--alarm-size", "1KiB")
	r.await(r.allArrived, "size begun", alarmWait)
	operator := func(name string) {
		t.Helper()
		password := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(password, []byte("a phrase for "+name+"\n"), 0o600))
		s.run("user", "create", name, "--password-file", password, "--operator") // a process of its own
	}
	operator("olga")
	r.await(r.allArrived, "privileges happened", alarmWait)
	time.Sleep(3 * time.Second)
	r.mu.Lock()
	if len(r.tried) != 2 {
		t.Errorf("two servers told %v", r.tried)
	}
	r.mu.Unlock()
	r.forget()
	sender, other := s, s.beside
	if !strings.Contains(sender.log.all(), `"job taken","job":"alarm"`) {
		sender, other = other, sender
	}
	if !strings.Contains(sender.log.all(), `"job taken","job":"alarm"`) || strings.Contains(other.log.all(), `"job taken","job":"alarm"`) {
		t.Fatal("not one of the servers has the job")
	}
	list := func(s *server) string {
		return string(command(t, "", "alarm", "list", "--json", "--admin-socket", s.ready.AdminSocket))
	}
	if there, here := list(sender), list(other); !strings.Contains(there, `"alarm":"size"`) || here != "" {
		t.Errorf("the sender lists %q, and the other server %q: it looks too", there, here)
	}
	database.Kill(t)
	r.awaitAll("database begun", 2)
	database.Restart(t)
	r.awaitAll("database ended", 2)
	if strings.Count(other.log.all(), `"job taken","job":"alarm"`) > 0 { // it came back first
		sender = other
	}
	r.forget()
	killed := time.Now()
	sender.kill()
	operator("otto")
	r.await(r.allArrived, "privileges happened", 60*time.Second)
	if took := time.Since(killed); took > 30*time.Second*margin/2 {
		t.Errorf("the other server sends after %s", took)
	}
	r.mu.Lock()
	for _, a := range r.arrived {
		if a.Alarm == "size" {
			t.Errorf("told again: %v", a)
		}
	}
	r.mu.Unlock()
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/cli/alarms"
	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// alarmed is a server that sends alarms to the URLs until the test ends.
func alarmed(t *testing.T, urls ...string) *running {
	t.Helper()
	r := onDisk(t)
	r.config.alarms = alarmConfig{every: 10 * time.Millisecond, repeat: time.Hour, size: 1 << 40}
	r.config.instanceName = "Larkspur Payments"
	for _, url := range urls {
		r.config.alarms.targets = append(r.config.alarms.targets, must.Get(alarms.Parse(url))(t))
	}
	r.alarms = r.newAlarms()
	r.hearHappenings()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { r.runAlarms(ctx) })
	t.Cleanup(func() {
		r.closing.Store(true)
		cancel()
		work.Wait()
	})
	for begun := time.Now(); !r.alarms.Holds(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("the sender does not begin")
		}
	}
	return r
}

// told gets alarms and keeps their texts.
type told struct {
	t *testing.T
	*httptest.Server
	mu    sync.Mutex
	texts []string
}

func newTold(t *testing.T) *told {
	w := &told{t: t}
	w.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.texts = append(w.texts, string(text))
	}))
	t.Cleanup(w.Close)
	return w
}

// await returns the message with that title and state.
func (w *told) await(title, state string) (m alarms.Message) {
	w.t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(2 * time.Millisecond) {
		w.mu.Lock()
		all := w.texts
		w.mu.Unlock()
		for _, text := range all {
			if json.Unmarshal([]byte(text), &m) == nil && m.Title == title && m.State == state {
				return m
			}
		}
	}
	w.t.Fatalf("no %s, %s; told %q", title, state, w.texts)
	return m
}

// TestAlarmsTellTheTable makes findings begin and end, and things happen, on a server whose names are
// secrets.
//
// Promise (Guard §7, §8, §9): alarms tell the table of findings without a name, a path, a URL of others or an
// error text
func TestAlarmsTellTheTable(t *testing.T) {
	t.Parallel()
	w := newTold(t)
	r := alarmed(t, "generic+http://"+strings.TrimPrefix(w.URL, "http://")+"/x")
	ctx, s := t.Context(), r.data().Store
	r.noteOutcome(ctx, backupFailed.check, errors.New("canary: no space"))
	w.await("Backup failed", alarms.Begun)
	r.noteOutcome(ctx, backupFailed.check, nil) // its end waits with others, since ten messages a minute are the limit
	r.noteOutcome(ctx, backupThenFailed.check, errors.New("/canary: exit status 1"))
	w.await("Program after the backup failed", alarms.Begun)
	r.recordCheck(ctx, errors.New("canary"))
	if m := w.await("Damage found", alarms.Begun); m.Severity != admin.StateProblem {
		t.Errorf("told %+v", m)
	}
	must.Get(s.CreateAccount(ctx, "acct_canary", "Canary"))(t)
	e, _, err := s.Webhooks.Create(ctx, webhook.System, "acct_canary", webhook.Settings{URL: "https://canary.example/"})
	must.Do(t, err)
	must.Do(t, s.Webhooks.Start(ctx))
	e = must.Get(s.Webhooks.Settle(ctx, &e, webhook.Progress{Disable: webhook.Gone}))(t)
	if m := w.await("Webhook endpoint disabled", alarms.Begun); m.Subject == nil || *m.Subject != e.ID {
		t.Errorf("told %+v, want the subject %s", m, e.ID)
	}
	u, _, err := s.CreateUser(ctx, store.UserSpec{Username: "canary", Account: "acct_canary", Password: storetest.Password, Operator: true})
	must.Do(t, err)
	if m := w.await("New privileges", alarms.Happened); *m.Subject != u.Subject() {
		t.Errorf("told %+v", m)
	}
	must.Do(t, seedDemo(ctx, s, s.Now()))
	stolen(t, r)
	if m := w.await("Token reused", alarms.Happened); *m.Subject != demoClientID || m.Instance != "Larkspur Payments" || m.URL != r.server().Site.PublicURL() {
		t.Errorf("told %+v", m)
	}
	for begun := time.Now(); r.alarms.Waiting() > 0; time.Sleep(time.Millisecond) { // a message waits until its target has answered
		if time.Since(begun) > time.Minute {
			t.Fatal("a message that arrived still waits")
		}
	}
	r.noteJump(30*time.Second, 30*time.Second+clockJumpMin) // no more than is allowed
	if r.alarms.Waiting() > 0 {
		t.Error("a small step of the clock is told")
	}
	r.noteJump(-2*time.Hour, 30*time.Second)
	w.await("Clock jumped", alarms.Happened)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.texts {
		if strings.Contains(text, "anary") {
			t.Errorf("told %s", text)
		}
	}
	found := map[string]admin.Finding{}
	checkup{data: r.data(), server: r}.run(ctx, admin.DepthUsual, func(f admin.Finding) { found[f.Check] = f })
	if found["alarms"].State != admin.StateOK || found["size"].State != admin.StateOK {
		t.Errorf("doctor shows %+v and %+v", found["alarms"], found["size"])
	}
	if page := samples(scrape(t, r)); page[`tollhouse_alarm_messages_total{outcome="delivered"}`] == "0" || page[`tollhouse_alarm_messages_total{outcome="dropped"}`] != "0" {
		t.Errorf("/metrics has %v", page[`tollhouse_alarm_messages_total{outcome="delivered"}`])
	}
}

// TestAReceiverThatHangsDelaysNoRequest: nothing is sent within a request, and no request waits for a
// queue.
//
// Promise (Guard §7, §8, §9): a receiver that hangs delays no request and no other receiver
func TestAReceiverThatHangsDelaysNoRequest(t *testing.T) {
	t.Parallel()
	hangs := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer hangs.Close()
	go func() {
		for {
			conn, err := hangs.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	w := newTold(t)
	r := alarmed(t, "generic+http://"+hangs.Addr().String()+"/x", "generic+http://"+strings.TrimPrefix(w.URL, "http://")+"/x")
	ctx, s := t.Context(), r.data().Store
	must.Do(t, seedDemo(ctx, s, s.Now()))
	longest := time.Duration(0)
	for range 5 {
		begun := time.Now()
		must.Get(s.PromoteUser(ctx, demoUsername))(t)
		must.Get(s.DemoteUser(ctx, demoUsername))(t)
		longest = max(longest, time.Since(begun))
	}
	begun := time.Now()
	stolen(t, r)
	longest = max(longest, time.Since(begun))
	if longest > 10*time.Second { // a few milliseconds; an attempt takes 15 s
		t.Errorf("a change took %s", longest)
	}
	if m := w.await("Token reused", alarms.Happened); m.Count != 1 {
		t.Errorf("told %+v", m)
	}
	told := 0
	for begun := time.Now(); told < 5 && time.Since(begun) < 2*time.Minute; time.Sleep(10 * time.Millisecond) {
		told = 0
		w.mu.Lock()
		for _, text := range w.texts {
			var m alarms.Message
			if json.Unmarshal([]byte(text), &m) == nil && m.Alarm == "privileges" {
				told += m.Count
			}
		}
		w.mu.Unlock()
	}
	if told < 5 {
		t.Errorf("told of %d promotions, want 5", told)
	}
}

// TestWithoutAURLNothingRuns: no sender, no timer, and happenings are kept for nobody.
func TestWithoutAURLNothingRuns(t *testing.T) {
	t.Parallel()
	r := onDisk(t)
	r.alarms = r.newAlarms()
	r.hearHappenings()
	if r.alarms != nil || r.testAlarms(t.Context()) != nil || r.listAlarms() != nil {
		t.Error("a server without a URL has a sender")
	}
	s := r.data().Store
	must.Do(t, seedDemo(t.Context(), s, s.Now()))
	stolen(t, r)
	if waiting := must.Get(s.TakeHappenings(t.Context()))(t); len(waiting) > 0 {
		t.Errorf("kept for nobody: %v", waiting)
	}
	found := fmt.Sprint(must.Get(s.LoadAlarms(t.Context()))(t))
	if found != "map[]" {
		t.Errorf("the store has %s", found)
	}
}

// TestAnAlarmCostsLittleMemory measures in a process of its own, so that nothing else is measured.
//
// Promise (Guard §7, §8, §9): alarms to one URL take at most 64 KiB at rest; without a URL nothing runs
func TestAnAlarmCostsLittleMemory(t *testing.T) {
	must.SkipUnderRace(t)
	const alone = "TOLLHOUSE_TEST_ALONE"
	if os.Getenv(alone) == "" {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestAnAlarmCostsLittleMemory$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Errorf("alone: %v", err)
		}
		return
	}
	r := onDisk(t)
	r.config.alarms = alarmConfig{every: 50 * time.Millisecond, repeat: time.Hour, targets: []*alarms.Target{must.Get(alarms.Parse("generic+http://127.0.0.1:1/x"))(t)}}
	inUse := func() int64 {
		var m runtime.MemStats
		for range 4 {
			time.Sleep(500 * time.Millisecond)
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := inUse()
	r.alarms = r.newAlarms()
	r.hearHappenings()
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { r.runAlarms(ctx) })
	defer func() {
		r.closing.Store(true)
		cancel()
		work.Wait()
	}()
	more := inUse() - before
	for tries := 0; more > 64<<10 && tries < 5; tries++ { // buffers of the engine that a collection frees
		more = min(more, inUse()-before)
	}
	must.Figure(t, "alarm_bytes", more)
	if more > 64<<10 {
		t.Errorf("one URL takes %d bytes at rest", more)
	}
}

package proof

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

const (
	// peakClients keep two processors busy; overloadClients want ten times as much at once.
	peakClients     = 32
	peakClientsMax  = 128 // which share more commits
	overloadClients = 10 * peakClients
	burstClients    = 256 // of which none is refused
	// crushClients are more than the server has connections, or room in any queue.
	crushClients = 2500

	overloadRounds, overloadRoundsLong = 1, 3
	overloadTries                      = 3
	goodputMin                         = 30 // percent of the peak; the figure should be 90
	overloadMemory                     = 256 << 20
	overloadRecovery                   = 2 * time.Second
	aloneLasts                         = 300 * time.Millisecond
	aloneSlower                        = 5 // times the usual, as one client on a busy machine may find
)

// TestOverload offers ten times as many clients as keep the server busy, and then more
// than it has connections for. It serves nearly as many requests as at its best and
// refuses the others in the protocol's words. Its memory stays bounded, and it answers as
// before when the load is over.
//
// The clients run on the same processors. generator_cpu_percent is their share of the
// time that clients and server used. On a machine that has other work to do too, compare
// goodput_per_cpu_percent: the requests served in a second of the server's processor time.
// control_percent is what as many clients as at the peak get in a load that lasts as long
// as the overload: a peak is the best of short loads.
func TestOverload(t *testing.T) {
	must.SkipInShort(t)
	overload(t, onDirectory(t), overloadMemory)
}

// TestOverloadWithMoreMemory: with twice the memory the collector has no part in it.
func TestOverloadWithMoreMemory(t *testing.T) {
	must.OnlyLong(t, "repeats TestOverload")
	overload(t, onDirectory(t), 2*overloadMemory)
}

// TestOverloadOnADatabase has one server. PostgreSQL works on the same processors too.
func TestOverloadOnADatabase(t *testing.T) {
	must.OnlyLong(t, "repeats TestOverload")
	p := onDatabase(t, pgtest.Start(t))
	p.shared, p.serving = false, append(p.serving, "--admin-socket", filepath.Join(t.TempDir(), "admin"))
	overload(t, p, overloadMemory)
}

func overload(t *testing.T, p site, memory int64) {
	var files syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	must.Have(t, files.Cur >= filesNeeded, fmt.Sprintf("a test of %d connections needs %d open files, and may have %d", crushClients, filesNeeded, files.Cur))
	lasts := overloadTimes{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}
	if must.Long() {
		lasts = overloadTimes{2 * time.Second, 20 * time.Second, time.Minute, 20 * time.Second}
	}
	args := []string{"--public-url", "http://127.0.0.1"}
	if memory != overloadMemory { // the default, and with a database the only one
		args = append(args, "--memory", fmt.Sprint(memory))
	}
	s := p.serve(t, args...)
	o := s.offer(overloadClients)
	o.crowd(t.Context(), peakClients, 0, lasts.rampUp) // fills the caches
	burst := o.burst(t.Context(), burstClients)
	if burst > 0 {
		t.Errorf("%d of a burst of %d clients are refused", burst, burstClients)
	}
	goodput, control, perCPU := math.Inf(1), math.Inf(1), math.Inf(1)
	var peakPerSecond, slower, refusal, beyond, generator, held, recovered float64
	var refused, cut, wrong int
	best := 0.0 // of a few rounds, beside the tests of other packages
	for round := 0; round == 0 || must.More(round, overloadRounds, overloadRoundsLong) || best < goodputMin && round < overloadTries; round++ {
		r := s.overloadRound(t, o, lasts)
		wrong += r.judge(t, memory)
		best = max(best, r.percent(r.over))
		goodput, control = min(goodput, r.percent(r.over)), min(control, r.percent(r.again))
		peakPerSecond = max(peakPerSecond, r.peak.perSecond())
		slower = max(slower, float64(r.over.quantile(0.99))/float64(r.peak.quantile(0.99)))
		refusal, beyond = max(refusal, p99Ms(r.over.refusals)), max(beyond, p99Ms(r.crush.refusals))
		generator = max(generator, 100*r.clients.Seconds()/(r.clients+r.over.cpu).Seconds())
		perCPU = min(perCPU, 100*r.over.perCPU()/r.peak.perCPU())
		held, recovered = max(held, float64(r.held>>20)), max(recovered, float64(r.back.Milliseconds()))
		refused, cut = refused+r.over.refused+r.crush.refused, cut+r.crush.cut
	}
	if best < goodputMin {
		t.Errorf("goodput %.0f %% of the peak, want %d at least", best, goodputMin)
	}
	must.Figure(t, "peak_per_second", peakPerSecond)
	must.Figure(t, "goodput_percent", goodput)
	must.Figure(t, "goodput_per_cpu_percent", perCPU)
	must.Figure(t, "control_percent", control)
	must.Figure(t, "p99_times_peak", slower)
	must.Figure(t, "refused", refused)
	must.Figure(t, "refused_p99_ms", refusal)
	must.Figure(t, "refused_beyond_limits_p99_ms", beyond)
	must.Figure(t, "refused_of_burst", burst)
	must.Figure(t, "cut_beyond_limits", cut)
	must.Figure(t, "wrong_answers", wrong)
	must.Figure(t, "rss_anon_mib", held)
	must.Figure(t, "recovered_ms", recovered)
	must.Figure(t, "generator_cpu_percent", generator)
}

// p99Ms returns it in milliseconds, 0 without any.
func p99Ms(sorted []time.Duration) float64 {
	return float64(quantile(sorted, 0.99).Microseconds()) / 1000
}

// overloadTimes say how long each load lasts.
type overloadTimes struct{ rampUp, peak, over, crush time.Duration }

// overloaded is what a round has measured.
type overloaded struct {
	peak, over, crush tally
	again             tally         // as many clients as at the peak, for as long as the overload
	peakOf            int           // clients
	clients           time.Duration // their CPU time in the overload
	back              time.Duration // until one client is answered as usual
	held              int64         // anonymous memory
}

func (s *server) overloadRound(t *testing.T, o *offering, lasts overloadTimes) (r overloaded) {
	t.Helper()
	usual := o.alone(t, aloneLasts)
	r.peak, r.peakOf = o.peak(t.Context(), lasts.rampUp, lasts.peak)
	stop := s.watchMemory(t)
	before := cpuOf(t, os.Getpid())
	r.over = o.crowd(t.Context(), overloadClients, lasts.rampUp, lasts.over)
	r.clients = cpuOf(t, os.Getpid()) - before
	r.back = o.recovery(t, usual)
	r.crush = o.crowd(t.Context(), crushClients, lasts.rampUp, lasts.crush)
	r.back = max(r.back, o.recovery(t, usual))
	r.held = stop()
	r.again = o.crowd(t.Context(), r.peakOf, lasts.rampUp, lasts.over)
	t.Logf("peak %.0f/s with %d clients, p99 %v; overload %.0f %% of it, p99 %v, %d refused with p99 %v; as many clients as at the peak %.0f %%; beyond every limit %.0f/s, p99 %v, %d refused, %d connections cut",
		r.peak.perSecond(), r.peakOf, r.peak.quantile(0.99), r.percent(r.over), r.over.quantile(0.99), r.over.refused, quantile(r.over.refusals, 0.99), r.percent(r.again),
		r.crush.perSecond(), r.crush.quantile(0.99), r.crush.refused, r.crush.cut)
	return r
}

// percent is what a load served of the peak.
func (r overloaded) percent(load tally) float64 { return 100 * load.perSecond() / r.peak.perSecond() }

// judge returns how many answers no load explains.
func (r overloaded) judge(t *testing.T, memory int64) (wrong int) {
	t.Helper()
	for what, got := range map[string]tally{"peak": r.peak, "overload": r.over, "beyond every limit": r.crush, "as many clients as at the peak": r.again} {
		if len(got.wrong) > 0 {
			t.Errorf("%s: %d answers other than success, 429 and 503 with Retry-After, such as %s", what, len(got.wrong), got.wrong[0])
		}
		wrong += len(got.wrong)
	}
	if n := r.peak.cut + r.over.cut + r.again.cut; n > 0 {
		t.Errorf("%d connections broke below the limit of connections: %v", n, cmp.Or(r.peak.how, r.over.how, r.again.how))
	}
	if r.held > memory/2*3 {
		t.Errorf("RssAnon %d MiB, want at most %d", r.held>>20, memory/2*3>>20)
	}
	return wrong
}

// peak returns the best of a few loads, and how many clients it had. The short form takes
// the first.
func (o *offering) peak(ctx context.Context, rampUp, lasts time.Duration) (best tally, of int) {
	best, of = o.crowd(ctx, peakClients, rampUp, lasts), peakClients
	for clients := 2 * peakClients; must.Long() && clients <= peakClientsMax; clients *= 2 {
		if more := o.crowd(ctx, clients, rampUp, lasts); len(more.took) > len(best.took) {
			best, of = more, clients
		}
	}
	return best, of
}

// alone returns the median time of a round of requests of one client.
func (o *offering) alone(t *testing.T, lasts time.Duration) time.Duration {
	t.Helper()
	c := o.client(0)
	defer c.leave()
	var took []time.Duration
	for end := time.Now().Add(lasts); len(took) == 0 || time.Now().Before(end); {
		one, refused := c.cycle(t)
		if refused {
			t.Fatal("a client that is alone is refused")
		}
		took = append(took, one)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// recovery returns the time until one client is answered as usual.
func (o *offering) recovery(t *testing.T, usual time.Duration) time.Duration {
	t.Helper()
	c := o.client(0)
	defer c.leave()
	for begun := time.Now(); ; {
		took, refused := c.cycle(t)
		if since := time.Since(begun); !refused && took <= aloneSlower*usual {
			return since
		} else if since > margin*overloadRecovery {
			t.Fatalf("%v after the load a round of requests takes %v, and %v before it", since, took, usual)
		}
	}
}

// cycle makes one request of each kind.
func (c *offerer) cycle(t *testing.T) (took time.Duration, refused bool) {
	t.Helper()
	begun := time.Now()
	for range 4 {
		status, _, err := c.step(t.Context())
		must.Do(t, err)
		refused = refused || status/100 != 2
	}
	return time.Since(begun), refused
}

// watchMemory samples RssAnon until stop is called, which returns the highest.
func (s *server) watchMemory(t *testing.T) (stop func() int64) {
	t.Helper()
	var most atomic.Int64
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if now, err := anonymousOf(s.process.Pid); err == nil {
				most.Store(max(most.Load(), now))
			}
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(over)
		<-ended
		return most.Load()
	}
}

// cpuOf returns the processor time that a process has used, of proc_pid_stat(5).
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third on
	user := must.Get(strconv.ParseInt(fields[11], 10, 64))(t)
	system := must.Get(strconv.ParseInt(fields[12], 10, 64))(t)
	return time.Duration(user+system) * tick
}

package proof

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	soakOfferers    = 4
	soakWarms       = 5 // samples
	soakWarmsLong   = 180
	soakAgains      = 24 // after a restart
	soakSamples     = 25
	soakSamplesLong = 1260 // two hours, less a quarter to warm up
	soakEach        = 100 * time.Millisecond
	soakEachLong    = 5 * time.Second
	soakRestsLong   = 260 * time.Second      // Go collects garbage every two minutes at least
	soakStay        = 200 * time.Millisecond // of a stream
	soakSettled     = 5                      // goroutines and files more than before a load
	soakSettles     = time.Minute
	soakImported    = 200 // events at a time
	soakRenewed     = 100 // requests of a client, until it gets tokens by a new code
)

// soak is a steady load of everything that the server does.
type soak struct {
	t        *testing.T
	s        *server
	o        *offering
	access   atomic.Pointer[string] // the latest access token
	desk     *visitor
	user     *visitor
	dir      string
	accepted atomic.Int64 // webhooks
	imports  atomic.Int64
	backups  atomic.Int64
	backing  atomic.Bool  // a backup is being made
	done     atomic.Int64 // steps of all
	expiries func() int   // times that old events were removed
}

// soakWorker does one thing again and again. It rests as long as it worked, so that all
// together load the server about by half, and at least so long as rest.
type soakWorker struct {
	name  string
	count int
	rest  time.Duration
	do    func(k *soak, ctx context.Context, n int) error
}

var soakWorkers = []soakWorker{
	{"stream", 2, 100 * time.Millisecond, (*soak).follow},
	{"long poll", 2, 100 * time.Millisecond, (*soak).poll},
	{"sign-in pages", 1, 50 * time.Millisecond, (*soak).pages},
	{"sign-in", 1, 2 * time.Second, (*soak).signIn},
	{"desk", 1, 50 * time.Millisecond, (*soak).operate},
	{"import", 1, 2 * time.Second, (*soak).importOld},
	{"backup", 1, 5 * time.Second, (*soak).backUp},
}

// TestSoak keeps a server half busy with everything that it does. Goroutines and open
// files return to what they were before the load. By the figures of the long form memory
// does not grow either, and the disk holds at most twice what a restored copy takes, while
// tokens and old events expire all the time. The control is the memory of a server that has
// worked for two minutes with the same data.
func TestSoak(t *testing.T) {
	must.SkipInShort(t)
	k := newSoak(t)
	k.load(soakWarms, soakWarmsLong)
	before := k.atRest(t, nil)
	server, begun := cpuOf(t, k.s.process.Pid), time.Now()
	samples := k.load(soakSamples, soakSamplesLong)
	share := 100 * (cpuOf(t, k.s.process.Pid) - server).Seconds() / time.Since(begun).Seconds() / 2
	after := k.atRest(t, &before)
	if k.accepted.Load() == 0 || k.imports.Load() == 0 || k.backups.Load() == 0 {
		t.Errorf("%d webhooks, %d imports and %d backups are no load", k.accepted.Load(), k.imports.Load(), k.backups.Load())
	}
	must.Figure(t, "requests", k.done.Load())
	must.Figure(t, "expiries", k.expiries())
	must.Figure(t, "server_cpu_percent_of_two", share)
	must.Figure(t, "goroutines_more", after.goroutines-before.goroutines)
	must.Figure(t, "descriptors_more", after.descriptors-before.descriptors)
	must.Figure(t, "goroutines_drift", drift(samples, func(s soakSample) float64 { return s.goroutines }))
	must.Figure(t, "descriptors_drift", drift(samples, func(s soakSample) float64 { return s.descriptors }))
	must.Figure(t, "heap_at_rest_mib_per_hour", (after.heap-before.heap)/(1<<20)/after.at.Sub(before.at).Hours())
	must.Figure(t, "heap_at_rest_mib", after.heap/(1<<20))
	must.Figure(t, "heap_mib_per_hour", heapSlope(samples))
	must.Figure(t, "rss_anon_mib", slices.MaxFunc(samples, func(a, b soakSample) int { return int(a.anonymous - b.anonymous) }).anonymous>>20)
	must.Figure(t, "disk_times_restored", after.disk/k.restored())
	k.s.stop()
	k.s = k.serve(k.s.ready.Listen[0])
	k.during(func() { // a count: the time of a long run is over
		for range soakAgains {
			pause(t.Context(), k.each())
		}
	})
	must.Figure(t, "heap_restarted_mib", k.atRest(t, nil).heap/(1<<20))
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	k := &soak{t: t, dir: t.TempDir()}
	k.s = k.serve("127.0.0.1:0")
	k.expiries = k.s.log.count("old events removed")
	k.o = k.s.offer(soakOfferers)
	hooks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		k.accepted.Add(1)
	}))
	t.Cleanup(hooks.Close)
	a, err := k.client().call(t.Context(), k.o.access, http.MethodPost, "/api/webhook-endpoints", fmt.Sprintf(`{"url":%q}`, hooks.URL))
	if err != nil || a.status != http.StatusCreated {
		t.Fatalf("create an endpoint: %s, %v", a, err)
	}
	k.s.createUser(maud, odileAccount, maudPassword)
	k.s.run("user", "promote", maud)
	k.desk, k.user = newVisitor(t), newVisitor(t)
	k.desk.submit(k.desk.open(k.s.base+"/login"), "username", maud, "password", maudPassword)
	return k
}

func (k *soak) serve(address string) *server {
	return start(k.t, "serve", "--data", filepath.Join(k.dir, "data"), "--listen", address, "--public-url", "http://127.0.0.1",
		"--webhook-allow", "127.0.0.1", "--retain", "1d", "--access-ttl", "5m", "--refresh-ttl", "10m")
}

func (k *soak) client() *client {
	return &client{base: k.s.base, http: &http.Client{Timeout: requestWait, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// load samples the server while every worker runs.
func (k *soak) load(short, long int) (samples []soakSample) {
	k.during(func() {
		for n := 0; n == 0 || must.More(n, short, long); n++ {
			pause(k.t.Context(), k.each())
			samples = append(samples, k.sample(k.t))
		}
	})
	return samples
}

// each is the time between two samples.
func (k *soak) each() time.Duration {
	if must.Long() {
		return soakEachLong
	}
	return soakEach
}

// during runs every worker while do runs.
func (k *soak) during(do func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	var working sync.WaitGroup
	for n := range soakOfferers {
		c := k.o.client(n)
		c.pair = must.Get(k.o.authorize(ctx))(k.t) // the tokens of the last load may have expired
		access := c.pair.Access
		k.access.Store(&access)
		working.Go(func() {
			defer c.leave()
			k.repeat(ctx, soakWorker{name: "client"}, func() error {
				status, _, err := c.step(ctx)
				if err == nil && status/100 != 2 {
					err = fmt.Errorf("%d %.300s", status, &c.body)
				}
				if err == nil && c.count%soakRenewed == 0 {
					c.pair, err = k.o.authorize(ctx)
				}
				access := c.pair.Access
				k.access.Store(&access)
				return err
			})
		})
	}
	for _, w := range soakWorkers {
		for n := range w.count {
			working.Go(func() { k.repeat(ctx, w, func() error { return w.do(k, ctx, n) }) })
		}
	}
	do()
	cancel()
	working.Wait()
	k.user.http.CloseIdleConnections()
	k.desk.http.CloseIdleConnections()
}

func (k *soak) repeat(ctx context.Context, w soakWorker, do func() error) {
	for ctx.Err() == nil {
		begun := time.Now()
		if err := do(); err != nil && ctx.Err() == nil {
			k.t.Errorf("%s: %v", w.name, err)
			return
		}
		k.done.Add(1)
		pause(ctx, max(w.rest, time.Since(begun)))
	}
}

// follow reads a stream for a while.
func (k *soak) follow(ctx context.Context, _ int) error {
	ctx, leave := context.WithTimeout(ctx, soakStay)
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.s.base+"/api/events", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+*k.access.Load())
	r.Header.Set("Accept", "text/event-stream")
	answer, err := k.client().http.Do(r)
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for answer.StatusCode == http.StatusOK && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event: gap") {
			return errors.New("a stream from now on has a gap")
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("%s, ended early: %w", answer.Status, lines.Err())
	}
	return nil
}

func (k *soak) poll(ctx context.Context, _ int) error {
	return k.expect(k.client().call(ctx, *k.access.Load(), http.MethodGet, "/api/events?order=asc&after=latest&wait=1", ""))
}

func (k *soak) expect(a answer, err error) error {
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("%.300s", a)
	}
	return err
}

// pages are those of a person who signs in, without the password.
func (k *soak) pages(ctx context.Context, _ int) error {
	return k.expect(k.client().send(ctx, http.MethodGet, "/login", ""))
}

// signIn signs a person in anew.
func (k *soak) signIn(ctx context.Context, _ int) error {
	seen, err := openPage(ctx, k.user.http, k.s.base+"/login")
	if err != nil {
		return err
	}
	if seen, err = submitPage(ctx, k.user.http, seen, "username", odile, "password", odilePassword); err == nil && seen.status/100 > 3 {
		err = fmt.Errorf("%d %.300s", seen.status, seen.body)
	}
	return err
}

var soakDesk = []string{"", "/events", "/resources", "/clients", "/users", "/access", "/audit", "/webhooks", "/health"}

// operate looks at a page of the desk.
func (k *soak) operate(ctx context.Context, _ int) error {
	path := "/desk" + soakDesk[rand.IntN(len(soakDesk))]
	seen, err := openPage(ctx, k.desk.http, k.s.base+path)
	if err == nil && (seen.status != http.StatusOK || seen.url.Path != path) {
		err = fmt.Errorf("%s: %d at %s", path, seen.status, seen.url)
	}
	return err
}

// importOld imports events that retention soon removes.
func (k *soak) importOld(ctx context.Context, _ int) error {
	var lines strings.Builder
	number, at := k.imports.Add(1), time.Now().Add(time.Minute-24*time.Hour)
	for n := range soakImported {
		fmt.Fprintf(&lines, `{"id":"evt_soak_%d_%d","resource":"doc_%d","source":"test","type":"document.updated","createdAt":%d,"eventData":{"object":{"text":"%s"}}}`+"\n",
			number, n, n, at.Unix(), strings.Repeat("x", 300))
	}
	return k.command(ctx, lines.String(), "event", "import", "-", "--account", odileAccount, "--quiet", "--admin-socket", k.s.ready.AdminSocket)
}

func (k *soak) backUp(ctx context.Context, _ int) error {
	k.backups.Add(1)
	k.backing.Store(true)
	defer k.backing.Store(false)
	return k.command(ctx, "", "backup", filepath.Join(k.dir, "soak.backup"), "--quiet", "--yes", "--admin-socket", k.s.ready.AdminSocket)
}

// restored returns the disk that a copy takes, restored from a backup.
func (k *soak) restored() float64 {
	file, dir := filepath.Join(k.dir, "last.backup"), filepath.Join(k.t.TempDir(), "data")
	must.Do(k.t, k.command(k.t.Context(), "", "backup", file, "--quiet", "--yes", "--admin-socket", k.s.ready.AdminSocket))
	must.Do(k.t, k.command(k.t.Context(), "", "restore", file, "--data", dir, "--quiet"))
	return startServe(k.t, dir).metrics(k.t)["tollhouse_store_size_bytes"]
}

func (k *soak) command(ctx context.Context, stdin string, args ...string) error {
	cmd := exec.CommandContext(ctx, program(k.t), args...)
	cmd.Env, cmd.Dir, cmd.Stdin = environ(), k.dir, strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// soakSample is the state of the server at a moment.
type soakSample struct {
	at                            time.Time
	goroutines, descriptors, heap float64
	disk                          float64
	anonymous                     int64
	backing                       bool
}

func (k *soak) sample(t *testing.T) soakSample {
	t.Helper()
	m, backing := k.s.metrics(t), k.backing.Load()
	return soakSample{
		at: time.Now(), goroutines: m["go_goroutines"], descriptors: float64(k.s.descriptors(t)),
		heap: m["go_memstats_heap_alloc_bytes"], disk: m["tollhouse_store_size_bytes"], anonymous: anonymousMemory(t, k.s), backing: backing,
	}
}

// atRest samples the idle server once its goroutines and descriptors have settled. The heap
// is the lowest of the samples: between two collections it grows by up to 40 %.
func (k *soak) atRest(t *testing.T, before *soakSample) (now soakSample) {
	t.Helper()
	least := math.Inf(1)
	defer func() { now.heap = min(now.heap, least) }()
	for begun := time.Now(); must.Long() && time.Since(begun) < soakRestsLong; pause(t.Context(), soakEachLong) {
		least = min(least, k.sample(t).heap)
	}
	for begun := time.Now(); ; pause(t.Context(), soakEach) {
		last := now
		now = k.sample(t)
		settled := now.goroutines == last.goroutines && now.descriptors == last.descriptors
		if before != nil {
			settled = now.goroutines <= before.goroutines+soakSettled && now.descriptors <= before.descriptors+soakSettled
		}
		if settled {
			return now
		}
		if time.Since(begun) > soakSettles {
			t.Errorf("the server does not settle after the load: %+v, and %+v before it", now, before)
			return now
		}
	}
}

// drift returns how much more a value is in the last quarter than in the first, by their
// medians.
func drift(samples []soakSample, of func(soakSample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	quarter := max(len(values)/4, 1)
	first, last := slices.Sorted(slices.Values(values[:quarter])), slices.Sorted(slices.Values(values[len(values)-quarter:]))
	return last[quarter/2] - first[quarter/2]
}

// heapSlope returns the slope of a line through the heap's low points, which a garbage
// collection has just left, in MiB an hour. Samples during a backup do not count: backups
// take longer as the data grows, and more memory than the rest of the load.
func heapSlope(samples []soakSample) float64 {
	const window = 10 // samples
	var x, y []float64
	quiet := slices.DeleteFunc(slices.Clone(samples), func(s soakSample) bool { return s.backing })
	for part := range slices.Chunk(quiet, window) {
		low := slices.MinFunc(part, func(a, b soakSample) int { return int(a.heap - b.heap) })
		x, y = append(x, low.at.Sub(samples[0].at).Hours()), append(y, low.heap/(1<<20))
	}
	if len(x) < 2 {
		return 0
	}
	var meanX, meanY, xy, xx float64
	for i := range x {
		meanX, meanY = meanX+x[i]/float64(len(x)), meanY+y[i]/float64(len(y))
	}
	for i := range x {
		xy, xx = xy+(x[i]-meanX)*(y[i]-meanY), xx+(x[i]-meanX)*(x[i]-meanX)
	}
	return xy / xx
}

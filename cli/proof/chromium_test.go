package proof

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium is the one browser that all tests share; each opens a context of its
// own in it, with cookies of its own.
var chromium sharedBrowser

type sharedBrowser struct {
	once   sync.Once
	ctx    context.Context
	cancel []context.CancelFunc
	dir    string
	err    error
}

const (
	browserWait = 2 * time.Minute // for the process
	tabWait     = time.Minute     // for one step in a tab
)

// open starts the browser when it is first needed.
func (b *sharedBrowser) open(path string) (context.Context, error) {
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "tollhouse-chromium-"); b.err != nil {
			return
		}
		ctx, cancel := chromedp.NewExecAllocator(context.Background(),
			chromedp.ExecPath(path), chromedp.UserDataDir(b.dir), chromedp.WSURLReadTimeout(browserWait),
			chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-extensions", true),
			chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
			// The browser itself may not reach beyond this machine either.
			chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE ::1, EXCLUDE localhost"),
		)
		b.cancel = append(b.cancel, cancel)
		b.ctx, cancel = chromedp.NewContext(ctx)
		b.cancel = append(b.cancel, cancel)
		b.err = chromedp.Do(b.ctx) // starts the process, which lives as long as the context
	})
	return b.ctx, b.err
}

func (b *sharedBrowser) close() {
	for _, cancel := range slices.Backward(b.cancel) {
		cancel()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir) // a temporary directory; the system clears it too
	}
}

// tab is one tab of a browser that knows nobody yet.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	messages []string // what the console says went wrong
	visited  []string // every address that was asked for
	excused  []string // parts of messages that the test brings about on purpose
}

// newTab opens a tab. When the test ends its console must be empty, and it must
// have spoken to this machine alone.
func newTab(t testing.TB) *tab {
	t.Helper()
	browser, err := chromium.open(needTool(t, "chromium", "chromium-browser"))
	if err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	return openTab(t, ctx, cancel)
}

// another opens a tab that shares the cookies of this one.
func (tb *tab) another() *tab {
	tb.t.Helper()
	ctx, cancel := chromedp.NewContext(tb.ctx)
	return openTab(tb.t, ctx, cancel)
}

func openTab(t testing.TB, ctx context.Context, cancel context.CancelFunc) *tab {
	t.Helper()
	tb := &tab{t: t, ctx: ctx}
	t.Cleanup(func() { tb.judge(); cancel() })
	// The first command opens the tab, which a deadline on it would close.
	if err := chromedp.Listen(ctx, tb.hear); err != nil {
		t.Fatalf("chromium does not open a tab: %v", err)
	}
	for _, enable := range []chromedp.Action[chromedp.Void]{
		call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}),
	} {
		tb.do(enable)
	}
	tb.size(1100, 800)
	return tb
}

// call makes an action of a command of the protocol, for its effect.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

// result makes an action of a command of the protocol, for its result.
func result[P, R any](command cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	}
}

// hear notes what matters of what the browser tells. It must not block.
func (tb *tab) hear(event any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tb.visited = append(tb.visited, e.Request.URL)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tb.messages = append(tb.messages, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		tb.messages = append(tb.messages, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		said := "console call: " + string(e.Type)
		for _, arg := range e.Args {
			said += " " + cmp.Or(arg.Description, string(arg.Value)) // errors have a description, strings a value
		}
		tb.messages = append(tb.messages, said)
	}
}

// excuse names a message that the test brings about on purpose.
func (tb *tab) excuse(part string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.excused = append(tb.excused, part)
}

// excuseAll excuses what the console has said so far, and returns it.
func (tb *tab) excuseAll() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	said := tb.messages
	tb.messages = nil
	return said
}

// judge fails the test for messages in the console and for requests to others.
func (tb *tab) judge() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, message := range tb.messages {
		if !slices.ContainsFunc(tb.excused, func(part string) bool { return strings.Contains(message, part) }) {
			tb.t.Errorf("the browser's console says: %s", message)
		}
	}
	for _, address := range tb.visited {
		u, err := url.Parse(address)
		if err != nil {
			tb.t.Errorf("the browser asked for %q: %v", address, err)
			continue
		}
		if ip := net.ParseIP(u.Hostname()); strings.HasPrefix(u.Scheme, "http") && u.Hostname() != "localhost" && !ip.IsLoopback() {
			tb.t.Errorf("the browser asked another host for %s", address)
		}
	}
}

// hasVisited reports whether an address with this beginning was asked for.
func (tb *tab) hasVisited(prefix string) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.ContainsFunc(tb.visited, func(address string) bool { return strings.HasPrefix(address, prefix) })
}

// do runs actions, each within a bound. One that found its element in a page that was just being
// left has done nothing, and is tried again in the page that follows.
func (tb *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	for i, action := range actions {
		ctx, cancel := context.WithTimeout(tb.ctx, tabWait)
		err := chromedp.Do(ctx, action)
		for err != nil && ctx.Err() == nil && isOfALeftPage(err) {
			err = chromedp.Do(ctx, action)
		}
		cancel()
		if err != nil {
			tb.t.Fatalf("browser step %d of %d: %v\nthe page is:\n%s", i+1, len(actions), err, tb.html())
		}
	}
}

// ask runs an action that has a result.
func ask[T any](tb *tab, action chromedp.Action[T]) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, tabWait)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		tb.t.Fatalf("browser: %v", err)
	}
	return result
}

// html is the page as it stands, for telling what went wrong.
func (tb *tab) html() string {
	ctx, cancel := context.WithTimeout(tb.ctx, tabWait)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.OuterHTML(chromedp.CSS("html")))
	if err != nil {
		return err.Error()
	}
	return text
}

// see waits for an element, and so for the page that has it.
func (tb *tab) see(selector string) {
	tb.t.Helper()
	tb.do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

// seesWithin reports whether an element comes within a time.
func (tb *tab) seesWithin(selector string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(tb.ctx, wait)
	defer cancel()
	return chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(selector))) == nil
}

// text returns what a reader sees.
func (tb *tab) text() string {
	tb.t.Helper()
	return ask(tb, chromedp.Text(chromedp.CSS("body")))
}

func (tb *tab) open(address string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(address))
}

func (tb *tab) click(selector string) {
	tb.t.Helper()
	tb.see(selector)
	eventually(tb.t, func() bool { return tb.takesPointer(selector) }, "%s takes no click", selector)
	tb.do(chromedp.Click(chromedp.CSS(selector)))
}

// takesPointer reports whether a click reaches an element, or falls through it.
func (tb *tab) takesPointer(selector string) bool {
	tb.t.Helper()
	return ask(tb, chromedp.Evaluate[bool](fmt.Sprintf(`getComputedStyle(document.querySelector(%q)).pointerEvents != "none"`, selector)))
}

// clickRestored clicks in a page that the browser brought back out of its memory.
// The protocol announces no document then, so chromedp finds no element in it.
func (tb *tab) clickRestored(selector string) {
	tb.t.Helper()
	eventually(tb.t, func() bool { return tb.takesPointer(selector) }, "%s takes no click", selector)
	// Before its first frame a restored page drops clicks.
	at := ask(tb, chromedp.Evaluate[[2]float64](fmt.Sprintf(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
		const box = document.querySelector(%q).getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	})`, selector), chromedp.EvalAwaitPromise))
	tb.do(chromedp.MouseClickXY(at[0], at[1]))
}

// press types keys at whatever has the focus.
func (tb *tab) press(keys string) {
	tb.t.Helper()
	tb.do(chromedp.KeyEvent(keys))
}

// signIn fills in the form that is shown and sends it.
func (tb *tab) signIn(username, password string) {
	tb.t.Helper()
	tb.see("input[name=username]")
	tb.do(chromedp.Clear(chromedp.CSS("input[name=username]")),
		chromedp.SendKeys(chromedp.CSS("input[name=username]"), username),
		chromedp.SendKeys(chromedp.CSS("input[name=password]"), password))
	tb.click("form button[type=submit]")
}

func (tb *tab) size(width, height int64) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, height))
}

// scheme chooses between "light" and "dark", without the change of colours in
// between that a picture would catch.
func (tb *tab) scheme(name string) {
	tb.t.Helper()
	tb.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}))
}

// callback is where a client waits for the browser to come back.
type callback struct {
	t       testing.TB
	base    string // scheme, host and port
	arrived chan *url.URL
}

// newCallback listens on an address and answers /callback there.
func newCallback(t testing.TB, address string) *callback {
	t.Helper()
	return newCallbackThat(t, address, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!DOCTYPE html><html lang="en"><title>Callback</title><link rel="icon" href="data:,"><p id="arrived">Arrived`))
	})
}

// newCallbackThat answers /callback with a handler of the test's.
func newCallbackThat(t testing.TB, address string, answer http.HandlerFunc) *callback {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("callback: %v", err)
	}
	c := &callback{t: t, base: "http://" + listener.Addr().String(), arrived: make(chan *url.URL, 16)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		c.arrived <- r.URL
		answer(w, r)
	})
	served := &http.Server{Handler: mux, ReadHeaderTimeout: requestWait}
	done := make(chan struct{})
	go func() { defer close(done); _ = served.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = served.Close(); <-done })
	return c
}

// uri is the redirect URI of this callback.
func (c *callback) uri() string { return c.base + "/callback" }

// wait returns the query with which the browser arrived.
func (c *callback) wait() url.Values {
	c.t.Helper()
	select {
	case u := <-c.arrived:
		return u.Query()
	case <-time.After(tabWait):
		c.t.Fatalf("the browser did not arrive at %s within %v", c.uri(), tabWait)
		return nil
	}
}

// quiet fails the test when the browser has arrived once more.
func (c *callback) quiet() {
	c.t.Helper()
	select {
	case u := <-c.arrived:
		c.t.Errorf("the browser arrived at the callback with %v, want it kept away", u.Query())
	default:
	}
}

// picture writes what the tab shows to the directory that asks for pictures.
func (tb *tab) picture(name string) {
	dir := os.Getenv("TOLLHOUSE_PICTURES")
	if dir == "" {
		return
	}
	tb.t.Helper()
	// After a change of size the first frame may lack what is below the window.
	ask(tb, chromedp.Evaluate[bool](`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, chromedp.EvalAwaitPromise))
	png := ask(tb, chromedp.FullScreenshot(100))
	if !bytes.HasPrefix(png, []byte("\x89PNG")) {
		tb.t.Fatalf("picture %s is not a PNG", name)
	}
	if err := os.WriteFile(dir+"/"+name+".png", png, 0o644); err != nil {
		tb.t.Fatal(err)
	}
}

package proof

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// site is where the store of a test is: the data directory of one server, or a
// database that two servers share.
type site struct {
	where   []string // the flag for commands
	serving []string // and for servers
	shared  bool
	binary  string // in place of the program under test
}

// eachSite runs a test on a data directory, and on a database with two servers that
// take turns with the requests.
func eachSite(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	t.Run("on_a_directory", func(t *testing.T) {
		t.Parallel()
		test(t, onDirectory(t))
	})
	t.Run("on_a_database_of_two_servers", func(t *testing.T) {
		t.Parallel()
		must.SkipInShort(t)
		test(t, onDatabase(t, pgtest.Start(t)))
	})
}

// onDirectory returns the site of a store in a directory of its own.
func onDirectory(t *testing.T) site {
	t.Helper()
	where := []string{"--data", filepath.Join(t.TempDir(), "data")}
	return site{where: where, serving: where}
}

// onDatabase returns the site of a store in a database.
func onDatabase(t *testing.T, dsn string) site {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	const hex = "5f1c0a77d94e2b3860c5a1e49b7d02f38e6411aa0937cc52d8be46f10b9a7e63"
	if err := os.WriteFile(key, []byte(hex+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	where := []string{"--store", dsn}
	return site{where: where, serving: append(where, "--key-file", key), shared: true}
}

// serve starts the server, or both.
func (p site) serve(t testing.TB, args ...string) *server {
	t.Helper()
	// Some tests write as fast as they can, for hours.
	args = append(append([]string{"serve", "--listen", "127.0.0.1:0", "--account-writes", "0"}, p.serving...), args...)
	if !p.shared {
		return p.start(t, args)
	}
	dir := t.TempDir()
	s := p.start(t, append(args, "--admin-socket", filepath.Join(dir, "one")))
	s.beside = p.start(t, append(args, "--admin-socket", filepath.Join(dir, "other")))
	s.where, s.beside.where = p.where, p.where
	s.base = inTurns(t, s, s.beside)
	return s
}

func (p site) start(t testing.TB, args []string) *server {
	t.Helper()
	if p.binary == "" {
		return start(t, args...)
	}
	cmd := exec.Command(p.binary, args...)
	cmd.Env = environ()
	return startCommand(t, cmd, p.binary)
}

// inTurns returns the address of a balancer that passes each request to the next
// server. A server that is dead breaks the connection.
func inTurns(t testing.TB, servers ...*server) string {
	t.Helper()
	var next atomic.Int64
	balancer := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to := servers[int(next.Add(1))%len(servers)]
			r.SetURL(&url.URL{Scheme: "http", Host: to.ready.Listen[0]})
			r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery // as sent, even if malformed
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	t.Cleanup(balancer.Close)
	return balancer.URL
}

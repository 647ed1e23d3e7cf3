package proof

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// metrics reads the server's metrics over its admin socket, by name and labels.
func (s *server) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	scraper := &http.Client{Timeout: requestWait, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.ready.AdminSocket)
		},
	}}
	answer := must.Get(scraper.Get("http://tollhouse/metrics"))(t)
	defer answer.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); ok && err == nil {
			values[name] = value
		}
	}
	must.Do(t, lines.Err())
	return values
}

// descriptors counts the open files of the server, but for those of the store: it keeps
// one open for each of its tables, so that they grow with the data.
func (s *server) descriptors(t *testing.T) (count int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", s.process.Pid)
	for _, file := range must.Get(os.ReadDir(dir))(t) {
		to, err := os.Readlink(filepath.Join(dir, file.Name()))
		if ext := filepath.Ext(to); err == nil && ext != ".sst" && ext != ".vlog" && ext != ".mem" { // it may be closed by now
			count++
		}
	}
	return count
}

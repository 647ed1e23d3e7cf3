package proof

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
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

// descriptors counts the open files of the server.
func (s *server) descriptors(t *testing.T) int {
	t.Helper()
	return len(must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Pid)))(t))
}

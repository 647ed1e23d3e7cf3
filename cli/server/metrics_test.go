package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// scrape reads /metrics.
func scrape(t testing.TB, r *running) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.server().Monitor().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics = %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// everySeries makes every metric appear at least once.
func everySeries(t testing.TB, r *running) {
	t.Helper()
	r.metrics.observe(web.Served{
		Route: "/oauth/v2/token", Method: "POST", Status: 200, Took: time.Millisecond, GrantType: "password",
		Refusal: "used_before", SignIn: web.SignInRight, Throttled: true,
	})
	r.metrics.hashed(time.Millisecond, time.Millisecond, false)
	importHash(t, r.data().Store, "harriet")
	r.certificates = openTestFiles(t, certify(t, time.Hour, "pay.example"), "pay.example")
	r.checked.Store(&lastCheck{ended: time.Unix(1_790_000_000, 0), took: time.Second})
}

// Promise (Monitoring): metrics follow Prometheus' conventions and count what happened
func TestMetrics(t *testing.T) {
	t.Parallel()
	t.Run("metrics_follow_the_conventions", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		everySeries(t, r)
		scrape(t, r)
		problems := must.Get(testutil.GatherAndLint(r.metrics.registry))(t)
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	})
	t.Run("metrics_count_what_happened", func(t *testing.T) {
		t.Parallel()
		r := onDisk(t)
		must.Do(t, seedDemo(t.Context(), r.data().Store, r.data().Store.Now()))
		for _, path := range []string{"/healthz", "/nowhere", "/nowhere-else"} {
			ask(t, r, path)
		}
		everySeries(t, r)
		page := scrape(t, r)
		for _, want := range []string{
			`tollhouse_http_requests_total{method="GET",route="/healthz",status="2xx"} 1`,
			`tollhouse_http_requests_total{method="GET",route="(none)",status="4xx"} 2`,
			`tollhouse_http_request_duration_seconds_count{route="(none)"} 2`,
			`tollhouse_token_requests_total{grant_type="password",outcome="issued"} 1`,
			`tollhouse_refusals_total{grant_type="password",reason="used_before"} 1`,
			`tollhouse_sign_ins_total{outcome="right"} 1`,
			`tollhouse_throttled_total 1`,
			`tollhouse_password_hash_duration_seconds_count 1`,
			`tollhouse_imported_hashes{kind="bcrypt-10",wrapped="false"} 1`,
			fmt.Sprintf("tollhouse_events_recorded_total %d", demoEvents),
			`tollhouse_events_live_readers 0`,
			`tollhouse_ready 1`,
			`tollhouse_store_damaged 0`,
			`tollhouse_store_last_check_timestamp_seconds 1.79e+09`,
			`tollhouse_store_queue_limit_updates 1024`,
			`tollhouse_store_free_limit_bytes 1.6777216e+08`,
			`tollhouse_store_free_last_limit_bytes 1.17440512e+08`,
			`tollhouse_store_disk_refused_access_total 0`,
			`tollhouse_store_disk_refused_endings_total 0`,
			`tollhouse_account_writes_refused_total 0`,
			`tollhouse_build_info{goversion="go`,
			"go_goroutines ",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("metrics lack %s", want)
			}
		}
		for _, atLeast := range []string{"tollhouse_store_commit_duration_seconds_count", "tollhouse_store_commit_updates_count", "tollhouse_store_size_bytes", "tollhouse_store_free_bytes"} {
			if !regexp.MustCompile(`(?m)^` + atLeast + ` [1-9]`).MatchString(page) {
				t.Errorf("metrics have no %s above 0", atLeast)
			}
		}
	})
	t.Run("metrics_show_damage_and_shutdown", func(t *testing.T) {
		t.Parallel()
		r := inMemory(t)
		damage := error(record.ErrCorrupt)
		r.damage.Store(&damage)
		if page := scrape(t, r); !strings.Contains(page, "\ntollhouse_store_damaged 1\n") || !strings.Contains(page, "\ntollhouse_ready 0\n") {
			t.Error("metrics of a damaged store do not say so")
		}
		r.damage.Store(nil)
		r.closing.Store(true)
		if page := scrape(t, r); !strings.Contains(page, "\ntollhouse_ready 0\n") {
			t.Error("metrics of a server that stops do not say so")
		}
	})
	t.Run("a_wait_for_events_is_not_a_slow_request", func(t *testing.T) {
		t.Parallel()
		r := inMemory(t)
		r.metrics.observe(web.Served{Route: "/api/events", Method: "GET", Status: 200, Took: time.Hour, Waited: true})
		page := scrape(t, r)
		if !strings.Contains(page, `tollhouse_http_requests_total{method="GET",route="/api/events",status="2xx"} 1`) || !strings.Contains(page, `_seconds_count{route="/api/events"} 0`) {
			t.Error("a wait is not counted, or counted with its time")
		}
	})
}

// ask sends a GET to the public handler.
func ask(t testing.TB, r *running, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	r.server().Public().ServeHTTP(w, httptest.NewRequest("GET", r.server().Site.PublicURL()+path, nil))
	return w.Code
}

var metricName = regexp.MustCompile(`\b(?:tollhouse|process|go)_[a-z_]+\b`)

// databaseMetricNames returns the names of the series of a store in a database.
func databaseMetricNames() map[string]bool {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		(&databaseGauges{}).Describe(descs)
	}()
	names := map[string]bool{}
	for d := range descs {
		names[regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]] = true
	}
	return names
}

// metricNames returns the names of the series on a metrics page.
func metricNames(page string) map[string]bool {
	names := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(page, -1) {
		names[found[1]] = true
		if found[2] == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				names[found[1]+part] = true
			}
		}
	}
	return names
}

// TestDashboard: the dashboard shows only existing metrics and labels, and works both
// imported and provisioned: its data source is a variable, not an input of the import.
func TestDashboard(t *testing.T) {
	t.Parallel()
	r := onDisk(t)
	everySeries(t, r)
	page := scrape(t, r)
	names := metricNames(page)
	maps.Copy(names, databaseMetricNames())
	text := must.Get(os.ReadFile("../printed/grafana.json"))(t)
	var dashboard struct {
		UID        string
		Inputs     any `json:"__inputs"`
		Templating struct {
			List []struct{ Name, Type string }
		}
		Panels []struct {
			Title      string
			Datasource struct{ UID string }
			Targets    []struct {
				Expr       string
				Datasource struct{ UID string }
			}
		}
	}
	must.Do(t, json.Unmarshal(text, &dashboard))
	variables := map[string]string{}
	for _, v := range dashboard.Templating.List {
		variables[v.Name] = v.Type
	}
	if dashboard.UID != "tollhouse" || dashboard.Inputs != nil || variables["datasource"] != "datasource" || variables["instance"] != "query" {
		t.Errorf("uid %q, inputs %v, variables %v", dashboard.UID, dashboard.Inputs, variables)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: %d expressions over %q", p.Title, len(p.Targets), p.Datasource.UID)
		}
		for _, target := range p.Targets {
			found := metricName.FindAllString(target.Expr, -1)
			if len(found) == 0 || target.Datasource.UID != "${datasource}" || !strings.Contains(target.Expr, `{instance=~"$instance"`) {
				t.Errorf("%s: %s over %q", p.Title, target.Expr, target.Datasource.UID)
			}
			for _, name := range found {
				if !names[name] {
					t.Errorf("%s shows %s, which is no metric", p.Title, name)
				}
				for _, label := range regexp.MustCompile(`by \((\w+)\)`).FindAllStringSubmatch(target.Expr, -1) {
					if !regexp.MustCompile(`(?m)^` + name + `\{[^}]*\b` + label[1] + `=`).MatchString(page) {
						t.Errorf("%s: %s has no label %s", p.Title, name, label[1])
					}
				}
			}
		}
	}
}

// TestMonitoringDocument: the alerts and the monitoring chapter name only existing
// metrics, and the chapter names all of them.
//
// Promise (Monitoring): metrics follow Prometheus' conventions and count what happened
func TestMonitoringDocument(t *testing.T) {
	t.Parallel()
	r := onDisk(t)
	everySeries(t, r)
	names := metricNames(scrape(t, r))
	maps.Copy(names, databaseMetricNames())
	read := func(path string) string {
		text := must.Get(os.ReadFile(path))(t)
		return string(text)
	}
	rules, chapter := read("../../docs/alerts.yml"), read("../../docs/operations.md")
	for _, name := range metricName.FindAllString(rules+chapter, -1) {
		if !names[name] {
			t.Errorf("the documents speak of %s, which is no metric", name)
		}
	}
	for name := range names {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "tollhouse_") && !strings.Contains(chapter, base) {
			t.Errorf("docs/operations.md does not list %s", name)
		}
	}
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(chapter, found[1]) {
			t.Errorf("docs/operations.md does not say what to do about %s", found[1])
		}
	}
}

// BenchmarkObserve measures what the metrics add to a request.
func BenchmarkObserve(b *testing.B) {
	m := newMetrics()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.observe(web.Served{Route: "/api/events", Method: "GET", Status: 200, Took: time.Millisecond})
		}
	})
}

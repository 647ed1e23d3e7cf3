package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// selector chooses series in an expression of PromQL, without what Prometheus or Grafana
// add to them.
type selector struct {
	name     string
	matchers []matcher
}

type matcher struct{ label, op, value string }

var (
	selectorForm = regexp.MustCompile(`\b((?:tollhouse|process)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcherForm  = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)
	sampleForm   = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? (\S+)$`)
)

// selectorsIn returns the selectors of an expression.
func selectorsIn(expr string) (all []selector) {
	for _, found := range selectorForm.FindAllStringSubmatch(expr, -1) {
		s := selector{name: found[1]}
		for _, m := range matcherForm.FindAllStringSubmatch(found[2], -1) {
			if m[1] != "instance" && m[1] != "job" {
				s.matchers = append(s.matchers, matcher{m[1], m[2], m[3]})
			}
		}
		all = append(all, s)
	}
	return all
}

// chooses reports whether the series, such as name{label="value"}, is one of the selector's.
func (s selector) chooses(series string) bool {
	name, rest, _ := strings.Cut(series, "{")
	labels := map[string]string{}
	for _, l := range matcherForm.FindAllStringSubmatch(rest, -1) {
		labels[l[1]] = l[3]
	}
	for _, m := range s.matchers {
		is := labels[m.label] == m.value
		if strings.HasSuffix(m.op, "~") {
			is = regexp.MustCompile(`^(?:` + m.value + `)$`).MatchString(labels[m.label])
		}
		if is == strings.HasPrefix(m.op, "!") {
			return false
		}
	}
	return name == s.name
}

// samples returns the values on a metrics page by their series.
func samples(page string) map[string]string {
	all := map[string]string{}
	for _, found := range sampleForm.FindAllStringSubmatch(page, -1) {
		series := found[1]
		if found[2] != "" {
			series += "{" + found[2] + "}"
		}
		all[series] = found[3]
	}
	return all
}

// watchedExpressions returns the expressions of the alerts, by name, and of the dashboard.
func watchedExpressions(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	rules := string(must.Get(os.ReadFile("../../docs/alerts.yml"))(t))
	for _, found := range regexp.MustCompile(`- alert: (\w+)\n\s+expr: (.*)\n`).FindAllStringSubmatch(rules, -1) {
		all[found[1]] = found[2]
	}
	if len(all) < 20 || len(all) != strings.Count(rules, "- alert:") {
		t.Fatalf("%d expressions found in alerts.yml, which has %d alerts", len(all), strings.Count(rules, "- alert:"))
	}
	dashboard := string(must.Get(os.ReadFile("../printed/grafana.json"))(t))
	for i, found := range regexp.MustCompile(`"expr": (".*")`).FindAllStringSubmatch(dashboard, -1) {
		var expr string
		must.Do(t, json.Unmarshal([]byte(found[1]), &expr))
		all[fmt.Sprintf("panel %d", i)] = expr
	}
	return all
}

// stolen lets a refresh token be used twice by a client of the demo.
func stolen(t testing.TB, r *running) {
	t.Helper()
	grant := func(values ...string) string {
		form := url.Values{}
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		w := httptest.NewRecorder()
		req := httptest.NewRequest("POST", r.server().Site.PublicURL()+"/oauth/v2/token", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(demoClientID, demoClientSecret)
		r.server().Public().ServeHTTP(w, req)
		var answer struct {
			RefreshToken string `json:"refresh_token"`
		}
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return answer.RefreshToken
	}
	first := grant("grant_type", "password", "username", demoUsername, "password", demoPassword)
	second := grant("grant_type", "refresh_token", "refresh_token", first)
	third := grant("grant_type", "refresh_token", "refresh_token", second)
	if third == "" || grant("grant_type", "refresh_token", "refresh_token", first) != "" {
		t.Fatal("the demo's client got no tokens, or some for a stolen one")
	}
}

// TestEverySeriesExistsFromTheStart: to Prometheus, a series that appears with its first
// event has no increase, so each that an alert or the dashboard uses is in the first scrape.
//
// Promise (Monitoring): each series of an alert exists from the start; each alert fires in
// Prometheus's engine
func TestEverySeriesExistsFromTheStart(t *testing.T) {
	t.Parallel()
	r := onDisk(t)
	must.Do(t, seedDemo(t.Context(), r.data().Store, r.data().Store.Now()))
	r.certificates = openTestFiles(t, certify(t, time.Hour, "pay.example"), "pay.example")
	fresh := samples(scrape(t, r))
	ofDatabase := databaseMetricNames()
	var watched []selector
	for where, expr := range watchedExpressions(t) {
		for _, s := range selectorsIn(expr) {
			watched = append(watched, s)
			found := slices.ContainsFunc(slices.Collect(maps.Keys(fresh)), s.chooses)
			if !found && !ofDatabase[s.name] {
				t.Errorf("%s: a fresh scrape has no %+v", where, s)
			}
		}
	}
	for series, value := range fresh {
		if regexp.MustCompile(`[{,](job|instance)="`).MatchString(series) {
			t.Errorf("%s has a label that Prometheus sets itself", series)
		}
		if strings.HasPrefix(series, "tollhouse_refusals_total") && value != "0" {
			t.Errorf("%s = %s at the start", series, value)
		}
	}

	stolen(t, r)
	for _, path := range []string{"/nowhere", "/api/events", "/api/resources/customer/a", "/login", "/desk", "/docs/events", "/callback", "/oauth/v2/auth", "/readyz", "/static/x"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			r.server().Public().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, r.server().Site.PublicURL()+path, nil))
		}
	}
	r.closing.Store(true)
	ask(t, r, "/readyz") // 503
	r.server().Admin().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "http://tollhouse/api/platform/clients", nil))
	everySeries(t, r)
	for series := range samples(scrape(t, r)) {
		if _, was := fresh[series]; !was && slices.ContainsFunc(watched, func(s selector) bool { return s.chooses(series) }) {
			t.Errorf("%s was not there before its first event", series)
		}
	}
	if now := samples(scrape(t, r)); now[theft] != "1" {
		t.Errorf("%s = %q after a theft", theft, now[theft])
	}
}

const theft = `tollhouse_refusals_total{grant_type="refresh_token",reason="used_before"}`

// TestSignInsDocument: the chapter names each outcome of a sign-in that has a series.
func TestSignInsDocument(t *testing.T) {
	t.Parallel()
	chapter := string(must.Get(os.ReadFile("../../docs/operations.md"))(t))
	for _, o := range inMemory(t).server().Site.Outcomes() {
		if o.SignIn != "" && !strings.Contains(chapter, "`"+string(o.SignIn)+"`") {
			t.Errorf("docs/operations.md does not name %s", o.SignIn)
		}
	}
}

// Prometheus looks once a minute: what happens, happens at one minute, and an alert has to
// fire at a later one.
const (
	happens  = 10
	sustains = 90 // longer than any alert waits
)

// change is what happens to series of a server at rest: a value that they get, or by how much
// they grow each minute from then on.
type change struct {
	to, grow map[string]float64
	at       int // when the alert has to fire; 0 is sustains
}

func to(series string, value float64) change {
	return change{to: map[string]float64{series: value}}
}

func once(series string) change {
	return change{to: map[string]float64{series: 1}, at: happens + 5}
}

func grows(series string, each float64) change {
	return change{grow: map[string]float64{series: each}}
}

// firing is a change for each alert. Times are of the test's clock, which begins at 0.
var firing = map[string]change{
	"TollhouseDown":          to("up", 0),
	"TollhouseNotReady":      to("tollhouse_ready", 0),
	"TollhouseDamage":        to("tollhouse_store_damaged", 1),
	"TollhouseCheckOverdue":  to("process_start_time_seconds", -3*86400),
	"TollhouseNoBackup":      to("tollhouse_backup_last_timestamp_seconds", -3*86400),
	"TollhouseFinding":       to(`tollhouse_finding{check="backup",state="warning"}`, 1),
	"TollhouseDiskFull":      to("tollhouse_store_free_bytes", 130e6),
	"TollhouseDiskExhausted": to("tollhouse_store_free_bytes", 100e6),
	"TollhouseAccountWrites": grows("tollhouse_account_writes_refused_total", 1),
	"TollhouseDiskFilling":   to("tollhouse_store_free_bytes", 300e6),
	"TollhouseErrors":        grows(`tollhouse_http_requests_total{method="GET",route="/api/events",status="5xx"}`, 1),
	"TollhouseSlow":          grows(`tollhouse_http_request_duration_seconds_bucket{route="/api/events",le="+Inf"}`, 1),
	"TollhouseSlowDisk":      grows(`tollhouse_store_commit_duration_seconds_bucket{le="+Inf"}`, 1),
	"TollhouseOverloaded":    once("tollhouse_password_hash_refused_total"),
	"TollhouseTokenReuse":    once(theft),
	"TollhouseGuessing":      grows("tollhouse_throttled_total", 20),
	"TollhouseAuditLost":     once("tollhouse_audit_lines_lost_total"),
	"TollhouseCertificateExpiring": {to: map[string]float64{
		"tollhouse_tls_certificate_expiry_timestamp_seconds": 0, "tollhouse_tls_certificate_not_before_timestamp_seconds": 0,
	}},
	"TollhouseRestarting":      grows("process_start_time_seconds", 60),
	"TollhouseFiles":           to("process_open_fds", 1e12),
	"TollhouseDatabaseAway":    grows("tollhouse_store_unavailable_total", 1),
	"TollhouseOutcomeUnknown":  once("tollhouse_store_unknown_outcomes_total"),
	"TollhouseWebhookFailing":  {to: map[string]float64{"tollhouse_webhook_failing": 1, "tollhouse_webhook_oldest_undelivered_seconds": 4000}},
	"TollhouseWebhookDisabled": once(`tollhouse_webhook_disabled_total{by="receiver"}`),
	"TollhouseWebhookDead":     once("tollhouse_webhook_dead"),
	"TollhouseWebhookHeld":     to("tollhouse_webhook_held", 1),
	"TollhouseClock":           to("tollhouse_store_clock_offset_seconds", -2),
	"TollhouseNoSweep":         to(`tollhouse_store_job{task="sweep"}`, 0),
	"TollhouseOldSnapshot":     to(`tollhouse_store_snapshot_age_seconds{holder="session"}`, 100),
	"TollhouseServerMissing":   {to: map[string]float64{"tollhouse_store_servers": 1}, at: happens + 20},
}

// atRest are the series of a server to which nothing has happened yet: a fresh scrape, as far
// as the alerts use it, and those of a database.
func atRest(t testing.TB) map[string]float64 {
	t.Helper()
	r := onDisk(t)
	r.certificates = openTestFiles(t, certify(t, time.Hour, "pay.example"), "pay.example")
	rest := map[string]float64{
		"up": 1, "tollhouse_store_unavailable_total": 0, "tollhouse_store_unknown_outcomes_total": 0, "tollhouse_store_clock_offset_seconds": 0,
		`tollhouse_store_job{task="sweep"}`: 1, "tollhouse_store_servers": 2, `tollhouse_store_snapshot_age_seconds{holder="session"}`: 0,
	}
	var used []selector
	for where, expr := range watchedExpressions(t) {
		if strings.HasPrefix(where, "Tollhouse") {
			used = append(used, selectorsIn(expr)...)
		}
	}
	for series, value := range samples(scrape(t, r)) {
		isOtherRoute := strings.Contains(series, "route=") && !strings.Contains(series, `route="/api/events"`)
		if !isOtherRoute && slices.ContainsFunc(used, func(s selector) bool { return s.chooses(series) }) {
			rest[series] = must.Get(strconv.ParseFloat(value, 64))(t)
		}
	}
	return rest
}

// The file of promtool test rules, as JSON, which is YAML too.
type (
	ruleTests struct {
		RuleFiles []string   `json:"rule_files"`
		Every     string     `json:"evaluation_interval"`
		Tests     []ruleTest `json:"tests"`
	}
	ruleTest struct {
		Name     string            `json:"name"`
		Interval string            `json:"interval"`
		Series   []inputSeries     `json:"input_series"`
		Alerts   []expectedAlerts  `json:"alert_rule_test,omitempty"`
		Exprs    []expectedSamples `json:"promql_expr_test"`
	}
	inputSeries struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	expectedAlerts struct {
		At     string          `json:"eval_time"`
		Name   string          `json:"alertname"`
		Alerts []expectedAlert `json:"exp_alerts"`
	}
	expectedAlert struct {
		Labels      map[string]string `json:"exp_labels"`
		Annotations map[string]string `json:"exp_annotations"`
	}
	expectedSamples struct {
		Expr    string           `json:"expr"`
		At      string           `json:"eval_time"`
		Samples []expectedSample `json:"exp_samples"`
	}
	expectedSample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
)

// ruleTestOf is the test of one change.
func ruleTestOf(name string, rest map[string]float64, c change) ruleTest {
	test := ruleTest{Name: name, Interval: "1m"}
	for _, series := range slices.Sorted(maps.Keys(rest)) {
		before := rest[series]
		after, changes := c.to[series]
		if !changes {
			after = before
		}
		labels := `instance="pay:9464",job="tollhouse"`
		metric, own, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if own != "" {
			labels += "," + own
		}
		test.Series = append(test.Series, inputSeries{
			Series: metric + "{" + labels + "}",
			Values: fmt.Sprintf("%s+0x%d %s+%sx%d", decimal(before), happens-1, decimal(after), decimal(c.grow[series]), sustains-happens),
		})
	}
	return test
}

func decimal(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func minute(at int) string { return strconv.Itoa(at) + "m" }

// TestAlertsFire runs the rules in Prometheus's own engine over what a server shows: none
// fires at rest, and each fires after what it is for, the first stolen token included.
//
// Promise (Monitoring): each series of an alert exists from the start; each alert fires in
// Prometheus's engine
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	rest := atRest(t)
	rules := must.Get(filepath.Abs("../../docs/alerts.yml"))(t)
	quietly := ruleTestOf("at rest", rest, change{})
	for _, at := range []int{happens, sustains} {
		quietly.Exprs = append(quietly.Exprs, expectedSamples{Expr: `count by (alertname) (ALERTS{alertstate="firing"})`, At: minute(at), Samples: []expectedSample{}})
	}
	every := "1m"
	if testing.Short() {
		every = "5m" // a quarter of the time: evaluating all rules at each minute is what takes it
	}
	file := ruleTests{RuleFiles: []string{rules}, Every: every, Tests: []ruleTest{quietly}}
	for alert := range watchedExpressions(t) {
		if _, has := firing[alert]; !has && strings.HasPrefix(alert, "Tollhouse") {
			t.Errorf("%s has no change that makes it fire", alert)
		}
	}
	for _, alert := range slices.Sorted(maps.Keys(firing)) {
		c := firing[alert]
		for series := range maps.Keys(c.to) {
			if _, has := rest[series]; !has {
				t.Errorf("%s: a server at rest has no series %s", alert, series)
			}
		}
		for series := range maps.Keys(c.grow) {
			if _, has := rest[series]; !has {
				t.Errorf("%s: a server at rest has no series %s", alert, series)
			}
		}
		test := ruleTestOf(alert, rest, c)
		is := fmt.Sprintf(`min(ALERTS{alertname=%q,alertstate="firing"})`, alert)
		test.Exprs = []expectedSamples{
			{Expr: is, At: minute(happens - 1), Samples: []expectedSample{}},
			{Expr: is, At: minute(cmp.Or(c.at, sustains)), Samples: []expectedSample{{Labels: "{}", Value: 1}}},
		}
		if alert == "TollhouseTokenReuse" {
			test.Alerts = []expectedAlerts{{At: minute(c.at), Name: alert, Alerts: []expectedAlert{{
				Labels:      map[string]string{"instance": "pay:9464", "grant_type": "refresh_token", "severity": "warning"},
				Annotations: map[string]string{"summary": "a refresh_token was used twice on pay:9464: it may have been stolen"},
			}}}}
		}
		file.Tests = append(file.Tests, test)
	}

	promtool, err := exec.LookPath("promtool")
	must.Have(t, err == nil, "promtool, which is in Debian's package prometheus")
	path := filepath.Join(t.TempDir(), "rules.json")
	must.Do(t, os.WriteFile(path, must.Get(json.MarshalIndent(file, "", " "))(t), 0o600))
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", path}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

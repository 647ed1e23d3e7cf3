package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/webhooks"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// Promise (Webhooks): the desk's page; metrics
func TestWebhookMetrics(t *testing.T) {
	t.Parallel()
	r := onDisk(t)
	t.Run("all_are_there_from_the_start", func(t *testing.T) {
		var want []string
		for _, o := range []string{"accepted", "refused", "dns", "connect", "tls", "timeout", "address_not_allowed", "response", "reset"} {
			want = append(want, fmt.Sprintf("webhook_attempts_total{outcome=%q}", o))
		}
		for _, by := range []string{"api", "operator", "receiver", "system"} {
			want = append(want, fmt.Sprintf("webhook_disabled_total{by=%q}", by))
		}
		want = append(want, `webhook_endpoints{state="enabled"}`, `webhook_endpoints{state="disabled"}`, "webhook_attempt_seconds_count",
			"webhook_failing", "webhook_parked", "webhook_dead", "webhook_oldest_undelivered_seconds", "webhook_gaps_total", "webhook_held")
		wantMetrics(t, scrape(t, r), want, 0)
	})
	t.Run("they_follow_the_endpoints_and_name_none", func(t *testing.T) {
		s, ctx := r.data().Store, t.Context()
		var ids []string
		for _, url := range []string{"https://hooks.larkspurtea.example/1", "https://hooks.larkspurtea.example/2"} {
			e, _, err := s.Webhooks.Create(ctx, webhook.System, store.DefaultAccount, webhook.Settings{URL: url})
			must.Do(t, err)
			ids = append(ids, e.ID)
		}
		must.Get(s.Webhooks.Disable(ctx, webhook.System, ids[1]))(t)
		must.Get(s.Webhooks.Hold(ctx, webhook.System))(t)
		r.metrics.webhooks.observe(webhooks.Refused, 20*time.Millisecond)
		page := scrape(t, r)
		wantMetrics(t, page, []string{
			`webhook_endpoints{state="enabled"}`, `webhook_endpoints{state="disabled"}`, `webhook_disabled_total{by="operator"}`,
			`webhook_attempts_total{outcome="refused"}`, "webhook_attempt_seconds_count", "webhook_held",
		}, 1)
		for _, name := range append(ids, "larkspurtea", store.DefaultAccount) {
			if strings.Contains(page, name) {
				t.Errorf("the metrics name %s", name)
			}
		}
	})
}

func wantMetrics(t *testing.T, page string, names []string, value int) {
	t.Helper()
	for _, name := range names {
		if line := fmt.Sprintf("\ntollhouse_%s %d\n", name, value); !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", strings.TrimSpace(line))
		}
	}
}

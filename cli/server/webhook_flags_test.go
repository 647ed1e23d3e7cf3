package server

import (
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/term"
)

func TestWebhookFlags(t *testing.T) {
	t.Parallel()
	parse := func(dev bool, args ...string) (webhookConfig, error) {
		var f webhookFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.add(flags, dev)
		if err := flags.Parse(args); err != nil {
			return webhookConfig{}, term.Usage("", "%w", err)
		}
		return f.parse(dev)
	}

	t.Run("the_default_is_the_table_of_Standard_Webhooks", func(t *testing.T) {
		t.Parallel()
		c, err := parse(false)
		if err != nil || c.Off || c.Proxy != nil || c.Roots != nil || c.Timeout != 15*time.Second || c.ParkAfter != time.Hour || c.DisableAfter != 120*time.Hour || c.Parallel != 64 {
			t.Errorf("parse() = %+v, %v", c, err)
		}
		total := time.Duration(0)
		for _, pause := range c.Schedule {
			total += pause
		}
		if want := 75*time.Hour + 35*time.Minute + 5*time.Second; total != want || len(c.Schedule) != 9 {
			t.Errorf("%d pauses take %s, want 9 that take %s", len(c.Schedule), total, want)
		}
	})
	t.Run("only_dev_allows_this_machine_by_itself", func(t *testing.T) {
		t.Parallel()
		for dev, want := range map[bool]bool{false: false, true: true} {
			c, err := parse(dev, "--webhook-allow", "hooks.internal")
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range []string{"http://127.0.0.1:3000/", "http://[::1]/", "http://localhost:3000/"} {
				if _, err := c.Rules.ParseURL(u); (err == nil) != want {
					t.Errorf("dev %v: ParseURL(%q) = %v", dev, u, err)
				}
			}
			if _, err := c.Rules.ParseURL("http://hooks.internal/"); err != nil {
				t.Errorf("dev %v: a host that --webhook-allow names: %v", dev, err)
			}
		}
	})
	t.Run("a_schedule_comes_back_as_it_was_given", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]pauses{
			"50ms": {50 * time.Millisecond}, "1s,24h": {time.Second, 24 * time.Hour}, "1m, 1h30m": {time.Minute, 90 * time.Minute},
		} {
			var p, again pauses
			if err := p.Set(text); err != nil || !slices.Equal(p, want) {
				t.Errorf("Set(%q) = %v, %v; want %v", text, p, err, want)
			}
			if err := again.Set(p.String()); err != nil || !slices.Equal(again, want) {
				t.Errorf("Set(%q) = %v, %v; want %v", p.String(), again, err, want)
			}
		}
	})
	for name, args := range map[string][]string{
		"neither_on_nor_off":     {"--webhooks", "yes"},
		"no_pause":               {"--webhook-schedule", ","},
		"a_pause_too_short":      {"--webhook-schedule", "49ms"},
		"a_pause_too_long":       {"--webhook-schedule", "5s,25h"},
		"too_many_pauses":        {"--webhook-schedule", "1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s,1s"},
		"timeout_too_short":      {"--webhook-timeout", "99ms"},
		"timeout_too_long":       {"--webhook-timeout", "61s"},
		"park_after_too_short":   {"--webhook-park-after", "999ms"},
		"disable_after_1ms":      {"--webhook-disable-after", "1ms"},
		"parallel_none":          {"--webhook-parallel", "0"},
		"parallel_too_many":      {"--webhook-parallel", "10001"},
		"a_proxy_without_scheme": {"--webhook-proxy", "proxy.example:3128"},
		"metadata_allowed":       {"--webhook-allow", "169.254.169.254"},
		"no_name_or_address":     {"--webhook-allow", "10.0.0.0/33"},
	} {
		t.Run(name+"_is_refused", func(t *testing.T) {
			t.Parallel()
			if c, err := parse(false, args...); term.FailureOf(err).Code != term.ExitUsage {
				t.Errorf("parse(%q) = %+v, %v; want a usage error", args, c, err)
			}
		})
	}
}

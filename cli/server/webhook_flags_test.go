package server

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
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
	t.Run("dev_tries_again_within_seconds", func(t *testing.T) {
		t.Parallel()
		c, err := parse(true)
		if want := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}; err != nil || !slices.Equal(c.Schedule, want) {
			t.Errorf("parse() has the schedule %v, %v, want %v", c.Schedule, err, want)
		}
	})
	t.Run("a_file_of_CAs_replaces_those_of_the_system", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "ca.pem")
		s := httptest.NewTLSServer(nil)
		t.Cleanup(s.Close)
		must.Do(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
		want := x509.NewCertPool()
		want.AddCert(s.Certificate())
		if c, err := parse(false, "--webhook-ca", file); err != nil || !c.Roots.Equal(want) {
			t.Errorf("parse() = %+v, %v, want the CA of the file alone", c, err)
		}
		must.Do(t, os.WriteFile(file, []byte("no certificate"), 0o600))
		if _, err := parse(false, "--webhook-ca", file); term.FailureOf(err).Code != term.ExitConfig {
			t.Errorf("a file without a certificate: %v", err)
		}
	})
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		if c, err := parse(false, "--webhooks", "off"); err != nil || !c.Off {
			t.Errorf("parse() = %+v, %v, want off", c, err)
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

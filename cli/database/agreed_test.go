package database

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/kv/pgkv"
)

func someSettings() Agreed {
	lives := store.DefaultLifetimes()
	lives.AccessToken, lives.RefreshToken, lives.Code, lives.SessionIdle, lives.RefreshGrace = 31*time.Minute, 15*24*time.Hour, 30*time.Second, 11*time.Hour, 7*time.Second
	return Agreed{PublicURL: "https://pay.example/base", Lifetimes: lives, Retain: 30 * 24 * time.Hour, AuditRetain: 90 * 24 * time.Hour, CardGuard: "warn", OpenKinds: true, Feed: 30 * 24 * time.Hour, SecondFactor: store.FactorOperators}
}

// Commands read from the database what servers wrote there.
func TestAgreedSettingsAreReadBack(t *testing.T) {
	t.Parallel()
	rules := Rules{Key: "k1", Agreed: someSettings()}
	site, err := rules.judge(pgkv.Found{First: true, Alone: true})
	if err != nil {
		t.Fatalf("judge() = %v, want nil", err)
	}
	if got, err := ReadAgreed(site); err != nil || !reflect.DeepEqual(got, rules.Agreed) {
		t.Errorf("ReadAgreed() = %+v, %v, want %+v", got, err, rules.Agreed)
	}
	if got := rules.Agreed.URL().String(); got != "https://pay.example/base" {
		t.Errorf("URL() = %q", got)
	}
	if got, err := ReadAgreed(nil); err != nil || got.Lifetimes != store.DefaultLifetimes() || got.URL().Host != "127.0.0.1" {
		t.Errorf("ReadAgreed() of an empty site = %+v, %v, want the defaults", got, err)
	}
	if _, err := ReadAgreed(map[string]string{"access-ttl": "soon"}); term.FailureOf(err).Code != term.ExitConfig {
		t.Errorf("ReadAgreed() of an unknown form = %v, want exit code %d", err, term.ExitConfig)
	}
}

func TestJoiningServerIsJudged(t *testing.T) {
	t.Parallel()
	ours := Rules{Key: "k1", Agreed: someSettings()}
	site, _ := ours.judge(pgkv.Found{First: true, Alone: true})
	with := func(name, value string) map[string]string {
		changed := maps.Clone(site)
		changed[name] = value
		return changed
	}
	settled := func(site map[string]string) map[string]string {
		site = maps.Clone(site)
		site[pgkv.SiteSettled] = "on"
		return site
	}
	older := maps.Clone(site)
	delete(older, "card-guard")
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		found pgkv.Found
		rules func(*Rules)
		want  []string // in the error
	}{
		{name: "the_same_settings", found: pgkv.Found{Site: site}},
		{name: "a_setting_that_an_older_release_lacks", found: pgkv.Found{Site: older}},
		{name: "every_lifetime_counts", found: pgkv.Found{Site: with("session-idle", "12h")}, want: []string{"--session-idle is 11h here, but 12h", "give --session-idle 12h here"}},
		{name: "a_public_url_that_others_lack", found: pgkv.Found{Site: with("public-url", "")}, want: []string{"--public-url", "leave --public-url out here"}},
		{name: "kinds_that_others_close", found: pgkv.Found{Site: with("open-kinds", "")}, want: []string{"--open-kinds is on here, but not set", "leave --open-kinds out here"}},
		{name: "kinds_that_others_open", found: pgkv.Found{Site: site}, rules: func(r *Rules) { r.Agreed.OpenKinds = false }, want: []string{"--open-kinds is not set here, but on", "give --open-kinds here"}},
		{name: "a_second_factor_that_others_do_not_require", found: pgkv.Found{Site: with("second-factor", "offered")}, want: []string{"--second-factor is operators here, but offered", "give --second-factor offered here"}},
		{name: "a_feed_that_others_do_not_keep", found: pgkv.Found{Site: with("feed", "0")}, want: []string{"--feed is 30d here, but 0", "give --feed 0 here"}},
		{name: "alone_settings_are_replaced", found: pgkv.Found{Alone: true, Site: with("session-idle", "12h")}},
		{name: "alone_what_a_command_has_set_is_not", found: pgkv.Found{Alone: true, Site: settled(with("session-idle", "12h"))}, want: []string{"--session-idle is 11h here, but 12h by tollhouse config set", "give --session-idle 12h here", "tollhouse config set --session-idle=11h"}},
		{name: "alone_with_what_a_command_has_set", found: pgkv.Found{Alone: true, Site: settled(site)}},
		{name: "settings_that_were_changed_meanwhile", found: pgkv.Found{Site: with("session-idle", "12h")}},
		{name: "another_key", found: pgkv.Found{Site: with("key", "k2")}, want: []string{"fingerprint k1, but", "have k2", "copy their key file"}},
		{name: "another_key_alone", found: pgkv.Found{Alone: true, Site: with("key", "k2")}, want: []string{"--new-key"}},
		{name: "a_new_key_alone", found: pgkv.Found{Alone: true, Site: with("key", "k2")}, rules: func(r *Rules) { r.NewKey = true }},
		{name: "a_new_key_beside_others", found: pgkv.Found{Site: with("key", "k2")}, rules: func(r *Rules) { r.NewKey = true }, want: []string{"stop all other servers first"}},
		{name: "a_clock_within_a_minute", found: pgkv.Found{First: true, Site: site, Clock: pgkv.Clock{Offset: 59 * time.Second, Now: now}}},
		{name: "a_clock_ahead", found: pgkv.Found{First: true, Site: site, Clock: pgkv.Clock{Offset: 61 * time.Second, Now: now}}, want: []string{"1m1s ahead of the database's", "--accept-clock"}},
		{name: "a_clock_behind", found: pgkv.Found{First: true, Site: site, Clock: pgkv.Clock{Offset: -61 * time.Second, Now: now}}, want: []string{"1m1s behind the database's"}},
		{name: "a_clock_that_is_accepted", found: pgkv.Found{First: true, Site: site, Clock: pgkv.Clock{Offset: time.Hour, Now: now}}, rules: func(r *Rules) { r.AcceptClock = true }},
		{name: "a_clock_that_jumped_meanwhile", found: pgkv.Found{Site: site, Clock: pgkv.Clock{Offset: time.Hour, Now: now}}},
		{name: "a_database_behind_its_last_write", found: pgkv.Found{First: true, Site: site, Clock: pgkv.Clock{Now: now, LastWrite: now.Add(2 * time.Minute)}}, want: []string{"last write was 2m later"}},
		{name: "a_database_far_ahead", found: pgkv.Found{First: true, Site: site, Clock: pgkv.Clock{Now: now, LastWrite: now.AddDate(-2, 0, 0)}}, want: []string{"730 days after its last write"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rules := ours
			if c.rules != nil {
				c.rules(&rules)
			}
			c.found.First = !strings.Contains(c.name, "meanwhile") // else it rejoins
			set, err := rules.judge(c.found)
			if len(c.want) == 0 {
				if err != nil || c.found.Alone != (len(set) > 0) {
					t.Errorf("judge() = %v, %v, want nil, and what to set if alone", set, err)
				}
				return
			}
			f, code := term.FailureOf(err), term.ExitConfig
			if strings.Contains(c.name, "ahead") || strings.Contains(c.name, "behind") {
				code = term.ExitBusy // a clock is set in time
			}
			for _, want := range c.want {
				if f == nil || f.Code != code || !strings.Contains(f.Error()+"; "+f.Hint, want) {
					t.Errorf("judge() = %v, want exit code %d and %q", err, code, want)
				}
			}
		})
	}
}

func TestClocksThatDifferAreNotReady(t *testing.T) {
	t.Parallel()
	for offset, ready := range map[time.Duration]bool{0: true, 2 * time.Second: true, 2100 * time.Millisecond: false, -2100 * time.Millisecond: false} {
		if err := CheckOffset(pgkv.Clock{Offset: offset}); (err == nil) != ready {
			t.Errorf("CheckOffset(%s) = %v", offset, err)
		}
	}
}

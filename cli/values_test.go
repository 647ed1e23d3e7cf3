package cli

import (
	"errors"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
)

func TestValues(t *testing.T) {
	t.Parallel()
	t.Run("lifetime", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]time.Duration{
			"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "14d": 14 * 24 * time.Hour, "0d": 0,
			"": -1, "soon": -1, "-1s": -1, "14": -1, "d": -1, "-1d": -1, "99999999d": -1,
		} {
			var got lifetime
			if err := got.Set(text); (err != nil) != (want < 0) || err == nil && time.Duration(got) != want {
				t.Errorf("Set(%q) = %s, %v; want %s", text, got.String(), err, want)
			}
		}
	})
	t.Run("lifetime_is_shown_as_it_is_given", func(t *testing.T) {
		t.Parallel()
		for _, want := range []string{"0", "90ms", "30s", "1m", "1m30s", "1h", "1h30m", "1h0m1s", "12h", "1d", "14d", "25h", "400d"} {
			var l lifetime
			if err := l.Set(want); err != nil || l.String() != want {
				t.Errorf("Set(%q) is shown as %q, %v", want, l.String(), err)
			}
		}
	})
	t.Run("moment", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]int64{
			"2026-03-09T15:30:00Z": 1773070200, "2026-03-09T16:30:00+01:00": 1773070200, "1773070200": 1773070200,
			"0": 0, "99999999999": 99999999999, "5138-11-16T09:46:39Z": 99999999999,
			"": -1, "yesterday": -1, "-5": -1, "100000000000": -1, "9999-12-31T23:59:59Z": -1, "1773070200000": -1, "2026-03-09": -1,
		} {
			var got moment
			if err := got.Set(text); (err != nil) != (want < 0) || err == nil && got.Unix() != want {
				t.Errorf("Set(%q) = %s, %v; want %d", text, got.String(), err, want)
			}
		}
	})
	t.Run("public_url", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"https://pay.example": "https://pay.example", "https://PAY.example:8443/till/": "https://pay.example:8443/till",
			"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://pay.example/": "https://pay.example",
			"": "", "pay.example": "", "https://": "", "https://pay.example/?a": "", "https://pay.example/#a": "",
			"https://me@pay.example": "", "https://pay.example//a": "", "https://pay.example/a/../b": "",
			"https://pay.example/a%2fb": "", "mailto:me@pay.example": "", "https://:8080": "", "https://pay.example/%zz": "",
		} {
			got, err := parsePublicURL(text)
			if (err != nil) != (want == "") || err == nil && got.String() != want {
				t.Errorf("parsePublicURL(%q) = %v, %v; want %q", text, got, err, want)
			}
		}
	})
	t.Run("loopback_address", func(t *testing.T) {
		t.Parallel()
		for addr, want := range map[string]bool{
			"127.0.0.1:0": true, "[::1]:80": true, "127.8.8.8:1": true, "localhost:0": true,
			":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.0.2.1:80": false,
		} {
			if got := isLoopbackAddress(addr); got != want {
				t.Errorf("isLoopbackAddress(%q) = %v, want %v", addr, got, want)
			}
		}
	})
}

// TestExitCodes: every error that an operator must act on has its code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int
		hint bool
	}{
		"appliance_exit_74_disk":            {&badgerkv.DiskError{Dir: "d", Reason: "full", Remedy: "free some"}, exitIO, true},
		"appliance_exit_74_unknown_outcome": {store.ErrUnknownOutcome, exitIO, false},
		"appliance_exit_74_corrupt":         {store.ErrCorrupt, exitIO, false},
		"appliance_exit_75_unavailable":     {store.ErrUnavailable, exitBusy, true},
		"appliance_exit_78_clock":           {&badgerkv.ClockError{Dir: "d"}, exitConfig, true},
		"appliance_exit_78_behind":          {&badgerkv.BehindError{Dir: "d", Found: 1, Stamped: 2}, exitConfig, true},
		"appliance_exit_78_newer_schema":    {&store.SchemaError{Found: 2, Known: 1}, exitConfig, true},
		"appliance_exit_1_anything_else":    {errors.New("odd"), exitFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if f := asFault(c.err); f.code != c.want || (f.hint != "") != c.hint {
				t.Errorf("asFault(%v) = exit %d, hint %q; want %d", c.err, f.code, f.hint, c.want)
			}
		})
	}
}

func TestAsClause(t *testing.T) {
	t.Parallel()
	for sentence, want := range map[string]string{
		"The name is empty.": "the name is empty", "OAuth is spelt so.": "OAuth is spelt so", "": "", "A": "a", "X.": "x",
		"JSON is not read": "JSON is not read",
	} {
		if got := asClause(sentence); got != want {
			t.Errorf("asClause(%q) = %q, want %q", sentence, got, want)
		}
	}
}

func TestShowBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 384 << 20: "384.0 MiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := showBytes(n); got != want {
			t.Errorf("showBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

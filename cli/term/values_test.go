package term

import (
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	t.Parallel()
	t.Run("lifetime", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]time.Duration{
			"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "14d": 14 * 24 * time.Hour, "0d": 0,
			"": -1, "soon": -1, "-1s": -1, "14": -1, "d": -1, "-1d": -1, "99999999d": -1,
		} {
			var got Duration
			if err := got.Set(text); (err != nil) != (want < 0) || err == nil && time.Duration(got) != want {
				t.Errorf("Set(%q) = %s, %v; want %s", text, got.String(), err, want)
			}
		}
	})
	t.Run("lifetime_is_shown_as_it_is_given", func(t *testing.T) {
		t.Parallel()
		for _, want := range []string{"0", "90ms", "30s", "1m", "1m30s", "1h", "1h30m", "1h0m1s", "12h", "1d", "14d", "25h", "400d"} {
			var l Duration
			if err := l.Set(want); err != nil || l.String() != want {
				t.Errorf("Set(%q) is shown as %q, %v", want, l.String(), err)
			}
		}
	})
	t.Run("moment_ends_with_what_was_named", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"2026-03-09": "2026-03-09T23:59:59Z", "2026-03-09 15:30": "2026-03-09T15:30:59Z", "2026-03-09T15:30:07": "2026-03-09T15:30:07Z",
			"2026-03-09T15:30:00+01:00": "2026-03-09T14:30:00Z", "1773070200": "2026-03-09T15:30:00Z",
		} {
			var m Moment
			if err := m.Set(text); err != nil || m.Last().Format(time.RFC3339) != want {
				t.Errorf("the last second of %q is %s, %v, want %s", text, m.Last().Format(time.RFC3339), err, want)
			}
		}
	})
	t.Run("moment", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]int64{
			"2026-03-09T15:30:00Z": 1773070200, "2026-03-09T16:30:00+01:00": 1773070200, "1773070200": 1773070200,
			"0": 0, "99999999999": 99999999999, "5138-11-16T09:46:39Z": 99999999999,
			"": -1, "yesterday": -1, "-5": -1, "100000000000": -1, "9999-12-31T23:59:59Z": -1, "1773070200000": -1,
			"2026-03-09": 1773014400, "2026-03-09 15:30": 1773070200, "2026-03-09T15:30": 1773070200, "2026-03-09 15:30:00": 1773070200, "2026-03-09T15:30:00": 1773070200,
			"2026-02-30": -1, "2026-3-9": -1, "2026-03-09 24:00": -1, "1969-12-31": -1,
		} {
			var got Moment
			if err := got.Set(text); (err != nil) != (want < 0) || err == nil && got.Unix() != want {
				t.Errorf("Set(%q) = %s, %v; want %d", text, got.String(), err, want)
			}
		}
	})
}

// FuzzDuration: a duration is accepted again as it is shown, and is the same.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"90s", "15m", "12h", "14d", "0", "1.5h", "65535d", "65536d", "-1s", "1h0m0s", "2562047h47m16s", "1d12h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var is, again Duration
		if is.Set(text) != nil {
			return
		}
		if err := again.Set(is.String()); err != nil || again != is || is < 0 {
			t.Errorf("%q is %v, shown as %q, which is %v, %v", text, int64(is), is.String(), int64(again), err)
		}
	})
}

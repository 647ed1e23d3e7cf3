package record

import (
	"strings"
	"testing"
	"time"
)

// Promise (§2.4): the order survives a clock set back; at start, future events are refused unless
// allowed
func TestPosition(t *testing.T) {
	t.Parallel()

	t.Run("carries_its_createdAt_as_the_golden_examples_do", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]int64{
			"evt_01kk9kgbjj00023m5qehe9m3gk": 1773070200, "evt_01kk9kgbjj000qfaggyf1b9p3e": 1773070200,
			"evt_01kkc2f6j70005qrp905tfd8yr": 1773153000, "evt_01kk9g2fnp0008yce2tg57qtan": 1773066600,
		} {
			p, ok := ParsePosition(text)
			if !ok || p.Millis()/1000 != want || p.String() != text {
				t.Errorf("ParsePosition(%s) = %v at %d, %v, want %d", text, p, p.Millis()/1000, ok, want)
			}
		}
	})

	t.Run("stays_unique_and_in_order_when_the_clock_does_not", func(t *testing.T) {
		t.Parallel()
		now := time.Unix(1<<31-2, 0)
		var head Position
		for i, step := range []time.Duration{0, 0, time.Millisecond, -time.Hour, 0, 24 * time.Hour, 4 * time.Second, -48 * time.Hour, 0} {
			now = now.Add(step)
			p := head.Next(now, [8]byte{byte(200 - i)})
			if p.Compare(head) <= 0 || p.String() <= head.String() {
				t.Fatalf("step %d: %v does not come after %v", i, p, head)
			}
			head = p
		}
	})

	t.Run("carries_a_full_counter_into_the_next_millisecond", func(t *testing.T) {
		t.Parallel()
		now := time.UnixMilli(1773070200000)
		full := NewPosition(now.UnixMilli(), 0xffff, [8]byte{0xff})
		if p := full.Next(now, [8]byte{}); p.Millis() != now.UnixMilli()+1 {
			t.Errorf("next of a full millisecond stands at %d, want %d", p.Millis(), now.UnixMilli()+1)
		}
	})

	t.Run("bounds_do_not_overflow", func(t *testing.T) {
		t.Parallel()
		for _, seconds := range []int64{1 << 62, 1<<63 - 1, 99_999_999_999_999} {
			if p := FirstPosition(seconds); p != LastPosition {
				t.Errorf("firstPosition(%d) = %v, want the last of all", seconds, p)
			}
		}
		if p := FirstPosition(-5); !p.IsZero() {
			t.Errorf("firstPosition(-5) = %v", p)
		}
	})
}

func FuzzParsePosition(f *testing.F) {
	f.Add("evt_01kk9kgbjj00023m5qehe9m3gk")
	f.Add("evt_" + strings.Repeat("0", 26))
	f.Add("evt_81kk9kgbjj00023m5qehe9m3gk")
	f.Add("EVT_01KK9KGBJJ00023M5QEHE9M3GK")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := ParsePosition(text)
		if ok && p.String() != text {
			t.Errorf("ParsePosition(%q) spells %q: one position has two spellings", text, p)
		}
		if !ok && !p.IsZero() {
			t.Error("a refused text gave a position")
		}
	})
}

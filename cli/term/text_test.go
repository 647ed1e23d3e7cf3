package term

import (
	"testing"
	"time"
)

func TestShowBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 384 << 20: "384.0 MiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := ShowBytes(n); got != want {
			t.Errorf("showBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestShowAge(t *testing.T) {
	t.Parallel()
	for of, want := range map[time.Duration]string{0: "0s", 900 * time.Millisecond: "1s", 48 * time.Second: "48s", 5 * time.Minute: "5m", 61 * time.Second: "1m1s",
		2*time.Hour + 5*time.Minute + 7*time.Second: "2h5m", 24 * time.Hour: "24h", 50 * time.Hour: "2d2h", 400 * 24 * time.Hour: "400d"} {
		if got := ShowAge(of); got != want {
			t.Errorf("ShowAge(%v) = %q, want %q", of, got, want)
		}
	}
}

package term

import "testing"

func TestShowBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 384 << 20: "384.0 MiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := ShowBytes(n); got != want {
			t.Errorf("showBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

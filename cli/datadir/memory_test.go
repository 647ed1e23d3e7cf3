package datadir

import "testing"

func TestMemoryValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, shown string
		want        Memory
	}{
		{"268435456", "256MiB", 256 << 20}, {"256MiB", "256MiB", 256 << 20}, {"512m", "512MiB", 512 << 20}, {"1G", "1GiB", 1 << 30},
		{"2gb", "2GiB", 2 << 30}, {"1536MiB", "1536MiB", 1536 << 20}, {"300KiB", "300KiB", 300 << 10}, {"7b", "7", 7}, {"0", "0", 0},
	} {
		var m, again Memory
		if err := m.Set(c.text); err != nil || m != c.want || m.String() != c.shown {
			t.Errorf("Set(%q) = %d, %v, shown as %s; want %d and %s", c.text, m, err, &m, c.want, c.shown)
		}
		if err := again.Set(m.String()); err != nil || again != m {
			t.Errorf("Set(%q) = %d, %v; want %d again", m.String(), again, err, m)
		}
	}
	for _, wrong := range []string{"", "MiB", "much", "-1", "1.5GiB", "1TiB", "99999999999GiB", "9223372036854775808", "1 GiB", "1kk"} {
		m := Memory(5)
		if err := m.Set(wrong); err == nil || m != 5 {
			t.Errorf("Set(%q) = %d, %v; want an error, and nothing changed", wrong, m, err)
		}
	}
}

func TestMemoryOfTheEngine(t *testing.T) {
	t.Parallel()
	if got, want := MemoryDefault.Engine(), int64(80<<20); got != want || MemoryMin.Engine() != 40<<20 {
		t.Errorf("the engine has %d of the default, want the %d of the small profile, and 40 MiB of the least", got, want)
	}
}

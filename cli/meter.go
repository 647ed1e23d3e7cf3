package cli

import (
	"fmt"
	"io"
	"time"
)

// meter is a line on the terminal that shows how far a long copy is: bytes, rate
// and, when the end is known, the time left. It counts what goes through it.
type meter struct {
	r       io.Reader
	w       io.Writer // nil: nobody looks
	what    string
	total   int64 // 0: not known
	done    int64
	started time.Time
	shown   time.Time
}

const meterEvery = 100 * time.Millisecond

func (p *program) newMeter(what string, r io.Reader, total int64) *meter {
	m := &meter{r: r, what: what, total: total, started: time.Now()}
	if isTerminal(p.stderr) && !p.quiet {
		m.w = p.stderr
	}
	return m
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	if m.w != nil && time.Since(m.shown) >= meterEvery {
		m.show()
	}
	return n, err
}

func (m *meter) show() {
	m.shown = time.Now()
	rate := float64(m.done) / max(m.shown.Sub(m.started).Seconds(), 0.001)
	left := ""
	if m.total > m.done && rate > 0 {
		left = ", " + (time.Duration(float64(m.total-m.done)/rate) * time.Second).String() + " left"
	}
	fmt.Fprintf(m.w, "\r\033[K%s: %.1f MiB, %.1f MiB/s%s", m.what, float64(m.done)/(1<<20), rate/(1<<20), left)
}

// clear takes the line away.
func (m *meter) clear() {
	if m.w != nil && !m.shown.IsZero() {
		fmt.Fprint(m.w, "\r\033[K")
	}
}

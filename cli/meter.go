package cli

import (
	"fmt"
	"io"
	"time"
)

// progress is a line on the terminal that shows how far long work is, until it is
// cleared. Where nobody looks it shows nothing.
type progress struct {
	w       io.Writer // nil: nobody looks
	what    string
	started time.Time
	shown   time.Time
}

const (
	meterEvery = 100 * time.Millisecond
	waitEvery  = time.Second
)

func (p *program) newProgress(what string) *progress {
	g := &progress{what: what, started: time.Now()}
	if isTerminal(p.stderr) && !p.quiet {
		g.w = p.stderr
	}
	return g
}

// due reports whether it is time to show something.
func (g *progress) due() bool { return g.w != nil && time.Since(g.shown) >= meterEvery }

// show replaces the line. share is how much of the work is done, of 1; 0 when
// that is not known.
func (g *progress) show(share float64, format string, args ...any) {
	if g.w == nil {
		return
	}
	g.shown = time.Now()
	line := g.what + ": " + fmt.Sprintf(format, args...)
	if took := g.shown.Sub(g.started); share > 0 && share < 1 {
		left := time.Duration(float64(took) * (1 - share) / share).Round(time.Second)
		line += ", " + max(left, time.Second).String() + " left"
	}
	if room := widthOf(g.w) - 1; room > 0 { // a line that went on below could not be replaced
		line = wrap(line, room)[0]
	}
	fmt.Fprint(g.w, "\r\033[K"+line)
}

// rate is how much of n was done in a second.
func (g *progress) rate(n float64) float64 { return n / max(time.Since(g.started).Seconds(), 0.001) }

// clear takes the line away.
func (g *progress) clear() {
	if g.w != nil && !g.shown.IsZero() {
		fmt.Fprint(g.w, "\r\033[K")
		g.shown = time.Time{}
	}
}

const mebibyte = 1 << 20

// meter is the progress of a long copy: bytes, rate and, when the end is known, the
// time left. It counts what goes through it.
type meter struct {
	*progress
	r     io.Reader
	done  int64
	share func(done int64) float64 // how much of it that is, of 1; 0 when not known
}

// newMeter reads r, which holds total bytes, or 0 when that is not known.
func (p *program) newMeter(what string, r io.Reader, total int64) *meter {
	return &meter{progress: p.newProgress(what), r: r, share: func(done int64) float64 {
		if total == 0 {
			return 0
		}
		return float64(done) / float64(total)
	}}
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	if m.due() {
		m.show(m.share(m.done), "%.1f MiB, %.1f MiB/s", float64(m.done)/mebibyte, m.rate(float64(m.done))/mebibyte)
	}
	return n, err
}

// toOutput is a meter of what goes to standard output. When that is a terminal it
// stays silent: a line in between would tear the output apart.
func (p *program) toOutput(what string, r io.Reader) *meter {
	m := p.newMeter(what, r, 0)
	if isTerminal(p.stdout) {
		m.w = nil
	}
	return m
}

// waiting does work of which nobody tells how far it is, and shows for how long.
func (p *program) waiting(what string, work func() error) error {
	g := p.newProgress(what)
	if g.w == nil {
		return work()
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(waitEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				g.show(0, "for %s", time.Since(g.started).Round(waitEvery))
			case <-done:
				g.clear()
				return
			}
		}
	}()
	err := work()
	close(done)
	<-ended
	return err
}

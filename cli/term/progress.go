package term

import (
	"fmt"
	"io"
	"time"
)

// Progress is a line on the terminal that shows how much of a long task is done.
// Without a terminal on standard error, and with --quiet, it shows nothing.
type Progress struct {
	w       io.Writer // nil shows nothing
	what    string
	started time.Time
	shown   time.Time
}

const (
	meterEvery = 100 * time.Millisecond
	waitEvery  = time.Second
)

// NewProgress returns the progress of a task that begins now.
func (c *Console) NewProgress(what string) *Progress {
	g := &Progress{what: what, started: time.Now()}
	if f, ok := fileOf(c.Err); ok && IsTerminal(f) && !c.Quiet {
		g.w = f
	}
	return g
}

// Due reports whether the line should be updated now.
func (g *Progress) Due() bool { return g.w != nil && time.Since(g.shown) >= meterEvery }

// Show replaces the line. share is the part done, from 0 to 1; 0 means unknown.
func (g *Progress) Show(share float64, format string, args ...any) {
	if g.w == nil {
		return
	}
	g.shown = time.Now()
	line := Visible(g.what + ": " + fmt.Sprintf(format, args...))
	if took := g.shown.Sub(g.started); share > 0 && share < 1 {
		left := time.Duration(float64(took) * (1 - share) / share)
		line += ", " + ShowAge(max(left, time.Second)) + " left"
	}
	if room := widthOf(g.w) - 1; room > 0 { // a line that wraps could not be replaced
		line = wrap(line, room)[0]
	}
	fmt.Fprint(g.w, "\r\033[K"+line)
}

// Rate returns n per second since the start.
func (g *Progress) Rate(n float64) float64 { return n / max(time.Since(g.started).Seconds(), 0.001) }

// Clear removes the line.
func (g *Progress) Clear() {
	if g.w != nil && !g.shown.IsZero() {
		fmt.Fprint(g.w, "\r\033[K")
		g.shown = time.Time{}
	}
}

const Mebibyte = 1 << 20

// Meter is a reader that shows its progress: bytes, rate and, when the size is
// known, the time left.
type Meter struct {
	*Progress
	r     io.Reader
	done  int64
	Share func(done int64) float64 // how much of it that is, of 1; 0 when not known
}

// NewMeter reads r, which has total bytes; 0 means unknown.
func (c *Console) NewMeter(what string, r io.Reader, total int64) *Meter {
	return &Meter{Progress: c.NewProgress(what), r: r, Share: func(done int64) float64 {
		if total == 0 {
			return 0
		}
		return float64(done) / float64(total)
	}}
}

func (m *Meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	if m.Due() {
		m.Show(m.Share(m.done), "%.1f MiB, %.1f MiB/s", float64(m.done)/Mebibyte, m.Rate(float64(m.done))/Mebibyte)
	}
	return n, err
}

// MeterToOutput is a meter of what is copied to standard output. On a terminal it
// shows nothing, because its line would break the output.
func (c *Console) MeterToOutput(what string, r io.Reader) *Meter {
	m := c.NewMeter(what, r, 0)
	if IsTerminal(c.Out) {
		m.w = nil
	}
	return m
}

// Wait runs work whose progress is unknown and shows how long it has taken.
func (c *Console) Wait(what string, work func() error) error {
	g := c.NewProgress(what)
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
				g.Show(0, "for %s", time.Since(g.started).Round(waitEvery))
			case <-done:
				g.Clear()
				return
			}
		}
	}()
	err := work()
	close(done)
	<-ended
	return err
}

package term

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	gatherFor = 50 * time.Millisecond // how long a line of the log waits for others
	gatherMax = 32 << 10              // bytes that wait
)

// gathered is a log whose lines are written together: one write(2) for each line would
// be a tenth of the work of a small answer. A warning or an error is written at once,
// with all lines before it.
type gathered struct {
	slog.Handler // writes to lines
	lines        *gatheredLines
}

// Handle is slog.Handler's.
func (g gathered) Handle(ctx context.Context, r slog.Record) error {
	err := g.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		g.lines.Flush()
	}
	return err
}

// WithAttrs is slog.Handler's.
func (g gathered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gathered{Handler: g.Handler.WithAttrs(attrs), lines: g.lines}
}

// WithGroup is slog.Handler's.
func (g gathered) WithGroup(name string) slog.Handler {
	return gathered{Handler: g.Handler.WithGroup(name), lines: g.lines}
}

// gatheredLines is the end of a gathered log.
type gatheredLines struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte
	due     bool // a flush is on its way
}

// Write adds a line.
func (l *gatheredLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, line...)
	if len(l.waiting) >= gatherMax {
		l.flush()
	} else if !l.due {
		l.due = true
		time.AfterFunc(gatherFor, l.Flush)
	}
	return len(line), nil
}

// Flush writes what waits.
func (l *gatheredLines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = false
	l.flush()
}

func (l *gatheredLines) flush() {
	if len(l.waiting) == 0 {
		return
	}
	_, _ = l.to.Write(l.waiting) // slog drops a line that cannot be written, too
	l.waiting = l.waiting[:0]
}

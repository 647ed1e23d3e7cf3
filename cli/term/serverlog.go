package term

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	gatherFor = 50 * time.Millisecond // how long a line of the log waits for others
	gatherMax = 32 << 10              // bytes that start a write, and bytes of one write
	linesMax  = 2 << 20               // bytes that wait: some 7,000 requests

	flushStall = time.Second     // without progress, after which a flush gives up
	flushMax   = 3 * time.Second // of a flush altogether, within TimeoutStopSec of the unit
	againPause = 10 * time.Millisecond
)

// gathered is a log whose lines are written together: one write(2) for each line would
// be a tenth of the work of a small answer. A warning or an error does not wait for
// others.
type gathered struct {
	slog.Handler // writes to lines
	lines        *logLines
}

// Handle is slog.Handler's. It never blocks.
func (g gathered) Handle(ctx context.Context, r slog.Record) error {
	err := g.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		g.lines.hurry()
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

// logLines is the sink of a server's log. Its reader may stall: a pipe that nobody reads, a
// terminal after Ctrl-S, a log driver that blocks. So Write only adds to a buffer, and one
// goroutine writes it, in order. When the buffer is full, lines are dropped, and a line
// says how many where they are missing.
type logLines struct {
	to      io.Writer
	gather  time.Duration             // how long a line waits for others
	missing func(lines uint64) []byte // the line that says how many were dropped; nil for none
	dropped atomic.Uint64             // lines, ever
	pieces  atomic.Uint64             // writes that have finished

	mu      sync.Mutex
	waiting []byte
	full    uint64        // lines dropped since the writer last took those that wait
	due     bool          // a timer will start the writer
	ended   chan struct{} // closed when the writer stops; nil while there is none

	untold uint64 // lines dropped and not reported yet; of the writer
}

// Write adds a line, or drops it. It never blocks and never fails.
func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full > 0 || len(l.waiting)+len(line) > linesMax {
		l.full++
		l.dropped.Add(1)
		l.begin()
		return len(line), nil
	}
	l.waiting = append(l.waiting, line...)
	switch {
	case l.gather == 0 || len(l.waiting) >= gatherMax:
		l.begin()
	case l.ended == nil && !l.due:
		l.due = true
		time.AfterFunc(l.gather, l.hurry)
	}
	return len(line), nil
}

// hurry starts writing the lines that wait, without waiting for that.
func (l *logLines) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = false
	if len(l.waiting) > 0 {
		l.begin()
	}
}

// begin starts the writer unless it runs. The caller holds mu.
func (l *logLines) begin() {
	if l.ended == nil {
		l.ended = make(chan struct{})
		go l.writeAll()
	}
}

// writeAll writes until no line waits.
func (l *logLines) writeAll() {
	var lines []byte
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 && l.full == 0 {
			close(l.ended)
			l.ended = nil
			l.mu.Unlock()
			return
		}
		spare := lines[:0]
		if cap(spare) > 2*gatherMax {
			spare = nil // grown in a stall
		}
		lines, l.waiting = l.waiting, spare
		full := l.full
		l.full = 0
		l.mu.Unlock()

		l.report()
		lost := l.write(lines)
		l.dropped.Add(lost)
		l.untold += lost
		if full > 0 {
			l.untold += full
			l.report()
		}
	}
}

// report writes how many lines are missing here.
func (l *logLines) report() {
	if l.untold > 0 && l.missing != nil && l.write(l.missing(l.untold)) == 0 {
		l.untold = 0
	}
}

// write writes lines, in pieces, so that Flush sees progress. It returns how many lines
// could not be written, which are not tried again.
func (l *logLines) write(lines []byte) uint64 {
	for len(lines) > 0 {
		piece := lines[:min(len(lines), gatherMax)]
		if end := bytes.LastIndexByte(piece, '\n') + 1; end > 0 {
			piece = piece[:end]
		}
		n, err := l.to.Write(piece)
		lines = lines[n:]
		l.pieces.Add(1)
		switch {
		case errors.Is(err, syscall.EAGAIN): // another process made the pipe non-blocking
			time.Sleep(againPause)
		case err != nil:
			return uint64(bytes.Count(lines, []byte("\n")))
		}
	}
	return 0
}

// Flush waits until the lines that wait are written, but not for a reader that stalls.
func (l *logLines) Flush() {
	l.hurry()
	l.mu.Lock()
	ended := l.ended
	l.mu.Unlock()
	if ended == nil {
		return
	}
	last := time.After(flushMax)
	for {
		seen := l.pieces.Load()
		select {
		case <-ended:
			return
		case <-last:
			return
		case <-time.After(flushStall):
			if l.pieces.Load() == seen {
				return
			}
		}
	}
}

package term

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// plainLines is slog's JSON handler with a shorter way for the line that each request writes:
// texts of plain ASCII and numbers are appended to a buffer that is used again. A line with
// anything else, or of a logger with attributes or groups of its own, is slog's. So every line
// reads as slog writes it.
type plainLines struct {
	*slog.JSONHandler
	to io.Writer
}

func newPlainLines(to io.Writer, options *slog.HandlerOptions) plainLines {
	return plainLines{JSONHandler: slog.NewJSONHandler(to, options), to: to}
}

// lineKept bounds the buffers that are kept, in bytes.
const lineKept = 16 << 10

var lineBuffers = sync.Pool{New: func() any { return &line{} }}

// Handle is slog.Handler's.
func (h plainLines) Handle(ctx context.Context, r slog.Record) error {
	l := lineBuffers.Get().(*line)
	defer func() {
		if cap(l.b) <= lineKept {
			lineBuffers.Put(l)
		}
	}()
	l.b, l.isSlogs = append(l.b[:0], '{'), false
	if !r.Time.IsZero() {
		l.key(slog.TimeKey)
		l.time(r.Time)
		l.b = append(l.b, ',')
	}
	l.key(slog.LevelKey)
	l.text(r.Level.String())
	l.b = append(l.b, ',')
	l.key(slog.MessageKey)
	l.text(r.Message)
	r.Attrs(l.attr)
	if l.isSlogs {
		return h.JSONHandler.Handle(ctx, r)
	}
	l.b = append(l.b, "}\n"...)
	_, err := h.to.Write(l.b)
	return err
}

// line is a line in the making.
type line struct {
	b       []byte
	isSlogs bool // it has something that slog must write
}

// attr appends an attribute, and reports whether the next one is wanted.
func (l *line) attr(a slog.Attr) bool {
	kind := a.Value.Kind()
	if kind == slog.KindGroup {
		if a.Key != "" {
			l.isSlogs = true
		}
		for _, a := range a.Value.Group() {
			if l.isSlogs || !l.attr(a) {
				break
			}
		}
		return !l.isSlogs
	}
	l.b = append(l.b, ',')
	l.key(a.Key)
	switch kind {
	case slog.KindString:
		l.text(a.Value.String())
	case slog.KindInt64:
		l.b = strconv.AppendInt(l.b, a.Value.Int64(), 10)
	case slog.KindUint64:
		l.b = strconv.AppendUint(l.b, a.Value.Uint64(), 10)
	case slog.KindFloat64:
		l.float(a.Value.Float64())
	case slog.KindBool:
		l.b = strconv.AppendBool(l.b, a.Value.Bool())
	case slog.KindDuration:
		l.b = strconv.AppendInt(l.b, int64(a.Value.Duration()), 10)
	case slog.KindTime:
		l.time(a.Value.Time())
	default:
		l.isSlogs = true
	}
	return !l.isSlogs
}

func (l *line) key(name string) {
	l.text(name)
	l.b = append(l.b, ':')
}

// text appends a text without characters that are escaped in JSON.
func (l *line) text(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			l.isSlogs = true
			return
		}
	}
	l.b = append(append(append(l.b, '"'), text...), '"')
}

// float appends a number that encoding/json writes without an exponent.
func (l *line) float(f float64) {
	const least, beyond = 1e-6, 1e21
	if size := math.Abs(f); f != 0 && !(size >= least && size < beyond) {
		l.isSlogs = true
		return
	}
	l.b = strconv.AppendFloat(l.b, f, 'f', -1, 64)
}

func (l *line) time(t time.Time) {
	if year := t.Year(); year < 0 || year > 9999 {
		l.isSlogs = true
		return
	}
	l.b = append(t.AppendFormat(append(l.b, '"'), time.RFC3339Nano), '"')
}

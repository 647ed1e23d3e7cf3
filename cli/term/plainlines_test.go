package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLinesAreSlogs gives the same records to our handler and to slog's: the times, levels,
// texts and attributes that make a line unusual, in any combination.
//
// Promise (Monitoring): log lines are slog's
func TestLinesAreSlogs(t *testing.T) {
	t.Parallel()
	const records = 20_000
	draw := drawing{rand.New(rand.NewPCG(43, 1))}
	var ours, theirs bytes.Buffer
	short := 0
	for i := range records {
		options := &slog.HandlerOptions{Level: slog.LevelDebug - 100}
		pair := [2]slog.Handler{newPlainLines(&ours, options), slog.NewJSONHandler(&theirs, options)}
		for draw.IntN(8) == 0 { // loggers of loggers
			attrs, group := draw.attrs(2), draw.text()
			for j, h := range pair {
				if i%2 == 0 {
					pair[j] = h.WithAttrs(attrs)
				} else {
					pair[j] = h.WithGroup(group)
				}
			}
		}
		r := slog.NewRecord(draw.time(), draw.level(), draw.text(), 0)
		r.AddAttrs(draw.attrs(2)...)
		for _, h := range pair {
			if err := h.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(ours.Bytes(), theirs.Bytes()) {
			t.Fatalf("record %d: we write\n%s\nslog writes\n%s", i, &ours, &theirs)
		}
		if h, is := pair[0].(plainLines); is && h.isShort(r) {
			short++
		}
		ours.Reset()
		theirs.Reset()
	}
	if short < records/20 || short > records*19/20 {
		t.Errorf("%d of %d lines took the short way, want a good part of both", short, records)
	}
}

// isShort reports whether a record takes the short way: slog's part of the handler writes nothing.
func (h plainLines) isShort(r slog.Record) bool {
	var slogs bytes.Buffer
	_ = plainLines{JSONHandler: slog.NewJSONHandler(&slogs, nil), to: io.Discard}.Handle(context.Background(), r)
	return slogs.Len() == 0
}

// drawing draws what a record may hold.
type drawing struct{ *rand.Rand }

func (d drawing) text() string {
	usual := []string{"request served", "req_mzxw6ytboi4dkmrqgiydsmrqge", "acct_a", "/api/events/:id", "", "a b", "x=y", "~", " "}
	unusual := []string{`"`, `\`, "\x00", "\n\t\r\b\f", "\x1f", "\x7f", "é", "日本", "\u2028\u2029\u0085", "\xff\xfe", "a\xc3", "<&>'", "🍵", "\ufeff", strings.Repeat("x", lineKept+1)}
	if d.IntN(12) > 0 {
		return usual[d.IntN(len(usual))]
	}
	return usual[d.IntN(len(usual))] + unusual[d.IntN(len(unusual))] + usual[d.IntN(len(usual))]
}

func (d drawing) level() slog.Level {
	return []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelInfo + 1, slog.LevelError + 40, slog.LevelDebug - 90}[d.IntN(7)]
}

func (d drawing) time() time.Time {
	usual := time.Unix(d.Int64N(4_000_000_000), d.Int64N(1_000_000_000))
	switch d.IntN(8) {
	case 0:
		return time.Time{}
	case 1:
		return time.Date(d.IntN(30_000)-10_000, 2, 3, 4, 5, 6, d.IntN(10)*100_000_000, time.UTC)
	case 2:
		return usual.In(time.FixedZone("odd", d.IntN(90_000)-45_000))
	case 3:
		return usual.UTC().Truncate(time.Second)
	case 4:
		return time.Now() // with a monotonic reading
	}
	return usual
}

// attrs draws attributes, with groups as deep as depth.
func (d drawing) attrs(depth int) (attrs []slog.Attr) {
	for range d.IntN(9) {
		attrs = append(attrs, d.attr(depth))
	}
	return attrs
}

func (d drawing) attr(depth int) slog.Attr {
	key := d.text()
	if d.IntN(3) > 0 { // as the lines of requests
		return []slog.Attr{slog.String(key, d.text()), slog.Int(key, d.IntN(600)), slog.Float64(key, float64(d.IntN(1<<20))/1000)}[d.IntN(3)]
	}
	switch d.IntN(15) {
	case 0:
		return slog.Int64(key, d.Int64()-d.Int64())
	case 1:
		return slog.Uint64(key, d.Uint64())
	case 2:
		return slog.Bool(key, d.IntN(2) == 0)
	case 3:
		return slog.Duration(key, time.Duration(d.Int64()))
	case 4:
		return slog.Time(key, d.time())
	case 5:
		return slog.Float64(key, math.Float64frombits(d.Uint64()))
	case 6:
		odd := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e-6, 9.99e-7, 1e21, 1e20, math.MaxFloat64, math.SmallestNonzeroFloat64}
		return slog.Float64(key, odd[d.IntN(len(odd))])
	case 7:
		return slog.Any(key, fmt.Errorf("%s: %w", d.text(), errors.New(d.text())))
	case 8:
		return slog.Any(key, []any{nil, []string{d.text()}, map[string]any{"a": d.text()}, struct{ A, B any }{1, "<"}, make(chan int), (*broken)(nil), broken{}, d.text()}[d.IntN(8)])
	case 9:
		return slog.Any(key, resolved{slog.StringValue(d.text())})
	case 10:
		return slog.Any(key, resolved{slog.GroupValue(d.inner(depth)...)})
	case 11:
		return slog.Attr{}
	case 12:
		return slog.Attr{Value: slog.GroupValue(d.inner(depth)...)} // its members stand for it
	}
	return slog.Attr{Key: key, Value: slog.GroupValue(d.inner(depth)...)}
}

func (d drawing) inner(depth int) []slog.Attr {
	if depth == 0 {
		return nil
	}
	return d.attrs(depth - 1)
}

// resolved is a value that says late what it is.
type resolved struct{ v slog.Value }

func (r resolved) LogValue() slog.Value { return r.v }

// broken panics when it is written.
type broken struct{ text *string }

func (b broken) MarshalText() ([]byte, error) { return []byte(*b.text), nil }

// TestLinesOfManyGoroutinesStayWhole: the buffers that are used again belong to one line at a time.
func TestLinesOfManyGoroutinesStayWhole(t *testing.T) {
	t.Parallel()
	const writers, lines = 8, 500
	out := &lockedBuffer{}
	log := slog.New(newPlainLines(out, nil))
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			for i := range lines {
				log.Info("line", "writer", w, "text", strings.Repeat(fmt.Sprint(w), 1+i%40))
			}
		})
	}
	done.Wait()
	count := 0
	for text := range strings.Lines(out.String()) {
		var w int
		if _, err := fmt.Sscanf(text[strings.Index(text, `"writer":`):], `"writer":%d,`, &w); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		_, rest, _ := strings.Cut(text, `"text":"`)
		if strings.Trim(rest, fmt.Sprint(w)) != "\"}\n" {
			t.Fatalf("a line has the text of another: %q", text)
		}
		count++
	}
	if count != writers*lines {
		t.Errorf("%d lines, want %d", count, writers*lines)
	}
}

// lockedBuffer is a sink for several goroutines, as the log of a server is.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// BenchmarkLine is the line of a refresh, beside slog's own handler.
//
//	go test ./cli/term -run '^$' -bench Line
func BenchmarkLine(b *testing.B) {
	attrs := []slog.Attr{
		slog.String("request_id", "req_mzxw6ytboi4dkmrqgiydsmrqge"), slog.String("method", "POST"), slog.Int("status", 200), slog.Float64("duration_ms", 1.234),
		{Value: slog.GroupValue(slog.String("route", "/oauth/v2/token"), slog.String("client_id", "tollhouse_mzxw6ytboi4dkmrqgiydsmrqge"),
			slog.String("grant_type", "refresh_token"), slog.String("family_id", "fam_0123456789abcdefghjkmnpqrs"), slog.String("user_id", "usr_0123456789abcdefghjkmnpqrs"),
			slog.String("account_id", "acct_larkspur"), slog.String("source", "127.0.0.1"))},
	}
	for name, h := range map[string]slog.Handler{"ours": newPlainLines(io.Discard, nil), "slog": slog.NewJSONHandler(io.Discard, nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := slog.NewRecord(time.Unix(1_770_000_000, 123_456_789), slog.LevelInfo, "request served", 0)
				r.AddAttrs(attrs...)
				_ = h.Handle(b.Context(), r)
			}
		})
	}
}

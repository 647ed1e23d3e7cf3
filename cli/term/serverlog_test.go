package term

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pieces is the end of a log that keeps each write apart.
type pieces struct {
	mu      sync.Mutex
	written []string
}

func (p *pieces) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written = append(p.written, string(b))
	return len(b), nil
}

func (p *pieces) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written
}

func serverLog(t *testing.T, format string) (*Console, *slog.Logger, *pieces) {
	t.Helper()
	written := &pieces{}
	c := &Console{Out: &bytes.Buffer{}, Err: written}
	log, err := c.ServerLog(format, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	return c, log, written
}

func TestLinesOfAServersLogAreWrittenTogether(t *testing.T) {
	for _, format := range []string{"text", "json", "auto"} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, log, written := serverLog(t, format)
				log.Info("first")
				log.With("a", 1).WithGroup("g").Info("second")
				synctest.Wait()
				if len(written.all()) != 0 {
					t.Errorf("written at once: %q", written.all())
				}
				time.Sleep(gatherFor)
				synctest.Wait()
				if len(written.all()) != 1 || strings.Count(written.all()[0], "\n") != 2 {
					t.Errorf("after %v written are %q, want both lines in one", gatherFor, written.all())
				}
				log.Info("third")
				time.Sleep(gatherFor)
				synctest.Wait()
				if len(written.all()) != 2 {
					t.Errorf("written are %q, want the third line later", written.all())
				}
			})
		})
	}
}

func TestAWarningIsWrittenAtOnceWithTheLinesBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, written := serverLog(t, "json")
		log.Info("before")
		log.With("a", 1).Warn("careful")
		synctest.Wait()
		if text := strings.Join(written.all(), ""); strings.Count(text, "\n") != 2 || strings.Index(text, "before") > strings.Index(text, "careful") {
			t.Errorf("written are %q, want both in order", written.all())
		}
	})
}

func TestTheLastLinesAreWrittenWhenTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log, written := serverLog(t, "json")
		log.Info("the last")
		c.Report(nil)
		if len(written.all()) != 1 {
			t.Errorf("written are %q, want the last line", written.all())
		}
	})
}

func TestALogThatIsLongIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, written := serverLog(t, "json")
		log.Info(strings.Repeat("x", gatherMax))
		synctest.Wait()
		if got := strings.Join(written.all(), ""); strings.Count(got, "\n") != 1 {
			t.Errorf("written are %d bytes, want the line at once", len(got))
		}
	})
}

// stalling is the end of a log whose reader stalls until go is closed, or fails.
type stalling struct {
	pieces
	goes chan struct{}
	err  error // of all writes
}

func (s *stalling) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *stalling) Write(b []byte) (int, error) {
	if s.goes != nil {
		<-s.goes
	}
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return s.pieces.Write(b)
}

func TestALogThatIsNotReadBlocksNobodyAndSaysWhatIsMissing(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := &stalling{goes: make(chan struct{})}
				c := &Console{Out: &bytes.Buffer{}, Err: reader}
				log, err := c.ServerLog(format, slog.LevelInfo)
				if err != nil {
					t.Fatal(err)
				}
				const lines = 50_000
				for i := range lines {
					log.Warn("number", "n", i, "text", strings.Repeat("x", 100))
				}
				dropped := c.LogDropped()
				began := time.Now()
				c.Report(nil)
				if took := time.Since(began); dropped == 0 || took > flushStall {
					t.Errorf("%d lines were dropped, and the end took %v", dropped, took)
				}
				close(reader.goes)
				c.Report(nil)
				log.Warn("after")
				c.Report(nil)
				text := strings.Join(reader.all(), "")
				next, missing := 0, 0
				for line := range strings.Lines(text) {
					switch {
					case strings.Contains(line, "log lines dropped"):
						missing++
						if !strings.Contains(line, fmt.Sprint(dropped)) {
							t.Errorf("it says %q, but %d were dropped", line, dropped)
						}
						next += int(dropped)
					case strings.Contains(line, "number"):
						if missing > 0 || !regexp.MustCompile(fmt.Sprintf(`n"?[=:]%d\b`, next)).MatchString(line) {
							t.Fatalf("line %q, want number %d, before the line about those that are missing", line, next)
						}
						next++
					}
				}
				if next != lines || missing != 1 || !strings.Contains(text[strings.Index(text, "lines dropped"):], "after") {
					t.Errorf("%d of %d lines are there or counted, in %d lines about that", next, lines, missing)
				}
			})
		})
	}
}

func TestLinesThatCannotBeWrittenAreCountedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &stalling{err: errors.New("no space left")}
		c := &Console{Out: &bytes.Buffer{}, Err: disk}
		log, err := c.ServerLog("json", slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			log.Warn("lost")
			synctest.Wait()
		}
		if c.LogDropped() != 3 {
			t.Errorf("%d lines are counted, want 3", c.LogDropped())
		}
		disk.fail(nil)
		log.Warn("kept")
		synctest.Wait()
		text := strings.Join(disk.all(), "")
		if told, kept := strings.Index(text, `"log lines dropped","lines":3`), strings.Index(text, "kept"); told < 0 || kept < told {
			t.Errorf("written are %q, want the count and then the line", text)
		}
	})
}

func TestAPipeThatAnotherProcessMadeNonBlockingLosesNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := &stalling{err: syscall.EAGAIN}
		c := &Console{Out: &bytes.Buffer{}, Err: pipe}
		log, err := c.ServerLog("json", slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		log.Warn("first")
		synctest.Wait()
		pipe.fail(nil)
		time.Sleep(againPause)
		synctest.Wait()
		if text := strings.Join(pipe.all(), ""); !strings.Contains(text, "first") || c.LogDropped() != 0 {
			t.Errorf("written are %q, and %d are dropped", text, c.LogDropped())
		}
	})
}

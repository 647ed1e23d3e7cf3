package term

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
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

func TestALogThatIsFullDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, written := serverLog(t, "json")
		log.Info(strings.Repeat("x", gatherMax))
		if len(written.all()) != 1 {
			t.Errorf("written are %d pieces, want one at once", len(written.all()))
		}
	})
}

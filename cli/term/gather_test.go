package term

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pieces is the end of a log that keeps each write apart.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
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
				if len(*written) != 0 {
					t.Errorf("written at once: %q", *written)
				}
				time.Sleep(gatherFor)
				synctest.Wait()
				if len(*written) != 1 || strings.Count((*written)[0], "\n") != 2 {
					t.Errorf("after %v written are %q, want both lines in one", gatherFor, *written)
				}
				log.Info("third")
				time.Sleep(gatherFor)
				synctest.Wait()
				if len(*written) != 2 {
					t.Errorf("written are %q, want the third line later", *written)
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
		if text := strings.Join(*written, ""); strings.Count(text, "\n") != 2 || strings.Index(text, "before") > strings.Index(text, "careful") {
			t.Errorf("written are %q, want both in order", *written)
		}
	})
}

func TestTheLastLinesAreWrittenWhenTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log, written := serverLog(t, "json")
		log.Info("the last")
		c.Report(nil)
		if len(*written) != 1 {
			t.Errorf("written are %q, want the last line", *written)
		}
	})
}

func TestALogThatIsFullDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, written := serverLog(t, "json")
		log.Info(strings.Repeat("x", gatherMax))
		if len(*written) != 1 {
			t.Errorf("written are %d pieces, want one at once", len(*written))
		}
	})
}

package badgerkv

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestEngineMessages: what the engine says of its cache once a minute is no
// warning, and everything else that it warns of is.
func TestEngineMessages(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := engineLogger{log: slog.New(slog.NewTextHandler(&out, nil)), fatal: func(err error) { t.Errorf("fatal: %v", err) }}
	l.Warningf("%s might be too small. Metrics: %s\n", "Block cache", "hit: 1")
	l.Warningf("Cache life expectancy (in seconds): %s\n", "2")
	l.Infof("Lifetime L0 stalled for: %s", "0s")
	if out.Len() > 0 {
		t.Errorf("it is told:\n%s", &out)
	}
	l.Warningf("While closing %s\n", "a table")
	if got := out.String(); !strings.Contains(got, `level=WARN msg="engine message" detail="While closing a table"`) {
		t.Errorf("a warning is told as %q", got)
	}
}

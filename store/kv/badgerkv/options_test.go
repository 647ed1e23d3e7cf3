package badgerkv

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestEngineMessages: the engine's cache report each minute is not a warning, and all its
// other warnings are.
func TestEngineMessages(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := engineLogger{log: slog.New(slog.NewTextHandler(&out, nil)), fatal: func(err error) { t.Errorf("fatal: %v", err) }}
	l.Warningf("%s might be too small. Metrics: %s\n", "Block cache", "hit: 1")
	l.Warningf("Cache life expectancy (in seconds): %s\n", "2")
	l.Infof("Lifetime L0 stalled for: %s", "0s")
	if out.Len() > 0 {
		t.Errorf("it is logged:\n%s", &out)
	}
	l.Warningf("While closing %s\n", "a table")
	if got := out.String(); !strings.Contains(got, `level=WARN msg="engine message" detail="While closing a table"`) {
		t.Errorf("a warning is logged as %q", got)
	}
}

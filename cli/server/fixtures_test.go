package server

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const startMax = time.Minute // for what takes hundredths of a second

var quiet = slog.New(slog.DiscardHandler)

// closedDir returns a directory that other users cannot open, as a data directory is.
func closedDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, 0o700))
	return dir
}

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

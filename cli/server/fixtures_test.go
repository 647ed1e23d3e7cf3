package server

import (
	"log/slog"
	"time"
)

const startMax = time.Minute // for what takes hundredths of a second

var quiet = slog.New(slog.DiscardHandler)

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

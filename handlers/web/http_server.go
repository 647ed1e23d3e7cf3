package web

import (
	"log/slog"
	"net/http"
	"time"
)

// The limits of every HTTP server with these handlers. Long routes move their own
// deadlines.
const (
	readHeaderTimeout = 5 * time.Second
	ReadTimeout       = 15 * time.Second
	WriteTimeout      = 30 * time.Second
	// Twice what common load balancers keep a connection for: if we closed it first,
	// a POST that is on its way would be lost.
	idleTimeout   = 120 * time.Second
	headerSizeMax = 32 << 10 // bytes; net/http adds 4 KiB of its own
)

// NewHTTPServer returns an http.Server with the limits that these handlers need.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerSizeMax - 4<<10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/julienschmidt/httprouter"
)

// constantPageSize is that of a page of 100 events of about 790 bytes.
const constantPageSize = 92 << 10

// runFloor serves the least that a server over net/http and httprouter can do:
// nothing, a page that never changes, and a form that is parsed and forgotten.
func runFloor() error {
	page := []byte(strings.Repeat("x", constantPageSize))
	r := httprouter.New()
	r.GET("/empty", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {})
	r.GET("/page", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		_, _ = w.Write(page)
	})
	r.POST("/form", func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: r}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); _ = srv.Close() }()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"url": "http://" + listener.Addr().String()}); err != nil {
		return err
	}
	if err := srv.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func startFloor() (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(self, "-serve-floor")
}

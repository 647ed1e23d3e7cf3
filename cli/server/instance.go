package server

import (
	"context"
	"net/http"
	"sync"

	"tollhouse/cli/datadir"
	"tollhouse/cli/webhooks"
	"tollhouse/handlers"
)

// instance is an open store and the handlers over it. serve has one for its whole life.
// dev replaces it at a reset: a request in progress then finishes on the instance on
// which it began.
type instance struct {
	data   *datadir.Opened
	server *handlers.Server
	sender *webhooks.Sender
	waits  waitingEvents

	present context.Context // done when another instance replaces it
	end     context.CancelFunc

	mu       sync.Mutex // guards the rest, of dev alone
	inFlight int        // requests
	replaced bool
}

func newInstance(data *datadir.Opened) *instance {
	i := &instance{data: data}
	i.present, i.end = context.WithCancel(context.Background())
	return i
}

// data is the store of the present instance.
func (r *running) data() *datadir.Opened { return r.current.Load().data }

// server is the present instance's.
func (r *running) server() *handlers.Server { return r.current.Load().server }

// handler returns one of the server's handlers. dev's follows the present instance.
func (r *running) handler(of func(*handlers.Server) http.Handler) http.Handler {
	if r.control == nil {
		return of(r.server())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, rq *http.Request) {
		i := r.enter()
		defer i.leave()
		of(i.server).ServeHTTP(w, rq)
	})
}

// enter returns the present instance, which stays open until the request leaves it.
func (r *running) enter() *instance {
	for {
		i := r.current.Load()
		i.mu.Lock()
		if !i.replaced {
			i.inFlight++
			i.mu.Unlock()
			return i
		}
		i.mu.Unlock()
	}
}

func (i *instance) leave() {
	i.mu.Lock()
	i.inFlight--
	last := i.replaced && i.inFlight == 0
	i.mu.Unlock()
	if last {
		_ = i.data.Close() // in memory: nothing is written
	}
}

// replace makes another instance the present one. The old one ends its streams and
// long polls, and closes after its last request.
func (r *running) replace(with *instance) {
	old := r.current.Swap(with)
	old.end()
	old.mu.Lock()
	old.replaced = true
	last := old.inFlight == 0
	old.mu.Unlock()
	old.server.API.Drain()
	if last {
		_ = old.data.Close()
	}
}

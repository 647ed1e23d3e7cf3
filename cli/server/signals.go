package server

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"tollhouse/cli/term"
)

// stopSignals receives the signals that stop a server.
type stopSignals struct {
	first  chan os.Signal // the one that stops it
	second chan struct{}  // closed at another one, which stops it without waiting for requests
	done   chan struct{}
}

// hangups returns a channel for SIGHUP where that asks for a reload: a server without a
// terminal gets it from a person or a service manager. With a terminal it means that the
// terminal is gone. The server must not die of it before it is ready, so this is called first.
func hangups() chan os.Signal {
	if hasTerminal() {
		return nil
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c
}

// listenForSignals starts receiving signals, until close is called.
func (r *running) listenForSignals() *stopSignals {
	s := &stopSignals{first: make(chan os.Signal, 1), second: make(chan struct{}), done: make(chan struct{})}
	stopping := make(chan os.Signal, 8)
	signal.Notify(stopping, os.Interrupt, syscall.SIGTERM)
	if r.hangups == nil && !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(stopping, syscall.SIGHUP)
	}
	go func() {
		defer signal.Stop(stopping)
		s.receive(stopping, r.hangups, r.reload)
	}()
	return s
}

// close stops receiving, but not so early that a repeated signal kills the process while
// it closes its store.
func (s *stopSignals) close() { close(s.done) }

// receive passes the signals to s until s is closed.
func (s *stopSignals) receive(stopping, hangups <-chan os.Signal, reload func()) {
	var began, last time.Time
	defer func() { time.Sleep(time.Until(last.Add(term.SameSignal))) }()
	for {
		select {
		case got := <-stopping:
			last = time.Now()
			switch {
			case began.IsZero():
				began = last
				s.first <- got
			case got == syscall.SIGHUP || time.Since(began) < term.SameSignal: // a repeat, not an order to hurry
			default:
				close(s.second)
				return
			}
		case <-hangups:
			go reload() // a file system that hangs must not keep the server from stopping
		case <-s.done:
			return
		}
	}
}

// reload reads the certificate again.
func (r *running) reload() {
	r.log.Info("reloading", "signal", syscall.SIGHUP.String())
	if r.certificates != nil {
		r.certificates.reload()
	}
}

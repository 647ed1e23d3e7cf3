package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// inProcess carries requests to a handler in this very process, so that a
// command without a server runs the same code as one with it. Both bodies
// stream: an import is answered while it is still read.
type inProcess struct {
	handler http.Handler
	running sync.WaitGroup
}

// RoundTrip runs the handler and returns once it has begun to answer.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := req.Clone(ctx)
	r.RequestURI = r.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, sink := io.Pipe()
	w := &responder{header: http.Header{}, sink: sink, begun: make(chan struct{})}
	t.running.Add(1)
	go func() {
		defer t.running.Done()
		defer cancel()
		defer r.Body.Close()
		w.run(t.handler, r)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		if err := req.Context().Err(); err != nil {
			_ = body.CloseWithError(err)
			return nil, err
		}
		// The handler returned, and cancelled, before anybody waited for it: its
		// answer is valid, and its body ends as the handler ended it.
		<-w.begun
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &answerBody{PipeReader: body, cancel: cancel}, ContentLength: -1, Request: req,
	}, nil
}

// wait returns when every handler has returned.
func (t *inProcess) wait() { t.running.Wait() }

// answerBody cancels the handler when it is closed.
type answerBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *answerBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// responder is the http.ResponseWriter of a request in process.
type responder struct {
	header, sent http.Header
	status       int
	sink         *io.PipeWriter
	begun        chan struct{} // closed with the header
}

// run serves the request and ends the body: with an error when the handler gave
// up half-way, so that no part of an answer is taken for the whole.
func (w *responder) run(h http.Handler, r *http.Request) {
	defer func() {
		broken := recover()
		if w.status == 0 {
			w.WriteHeader(http.StatusOK)
		}
		if broken != nil {
			_ = w.sink.CloseWithError(io.ErrUnexpectedEOF)
			return
		}
		_ = w.sink.Close()
	}()
	h.ServeHTTP(w, r)
}

func (w *responder) Header() http.Header { return w.header }

func (w *responder) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	close(w.begun)
}

func (w *responder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.sink.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = http.ErrHandlerTimeout // the reader has closed
	}
	return n, err
}

// What http.ResponseController asks for. There is no connection here, so there
// are no deadlines on one, and nothing is buffered.

func (w *responder) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return nil
}
func (w *responder) EnableFullDuplex() error          { return nil }
func (w *responder) SetReadDeadline(time.Time) error  { return nil }
func (w *responder) SetWriteDeadline(time.Time) error { return nil }

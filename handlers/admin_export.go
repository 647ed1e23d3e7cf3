package handlers

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

const ndjsonType = "application/x-ndjson"

// longStep is how long one step of a long answer may take: a page that is
// written, or a piece of an upload that is read.
const longStep = time.Minute

// extendDeadlines moves the deadlines of a request that goes on as long as its
// caller does; a connection's are the machine's time, not the store's. In the
// command's own process there is no connection.
func extendDeadlines(c *http.ResponseController) {
	deadline := time.Now().Add(longStep)
	_ = c.SetReadDeadline(deadline)
	_ = c.SetWriteDeadline(deadline)
}

const exportPageEvents = 500 // read in one transaction

// adminExportEvents is GET /admin/event-export?account=A: every event that is
// there when it begins, oldest first, one a line, in the form that import reads.
// The trailer Tollhouse-Events counts the lines; an export that breaks off has
// none and ends the connection.
func (s *Server) adminExportEvents(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.adminAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return unknownParameter(pairs[0].name, nil, []string{"account"})
	}
	h := w.Header()
	h.Set("Content-Type", ndjsonType)
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", "Tollhouse-Events")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	controller := http.NewResponseController(w)
	buffer := takeBuffer()
	defer buffer.release()
	export := s.store.NewExport(account)
	lines := 0
	for {
		var n int
		buffer.b, n, err = export.Next(r.Context(), exportPageEvents, buffer.b[:0])
		if err == nil && n > 0 {
			extendDeadlines(controller)
			_, err = w.Write(buffer.b)
		}
		if err != nil {
			note(r.Context(), slog.String("err", err.Error()))
			panic(http.ErrAbortHandler) // the only way to tell that the list is not whole
		}
		if n == 0 {
			break
		}
		lines += n
	}
	h.Set("Tollhouse-Events", strconv.Itoa(lines))
	return nil
}

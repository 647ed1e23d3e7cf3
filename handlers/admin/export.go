package admin

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// longStep bounds one step of a long response: writing a page, or reading a piece
// of an upload.
const longStep = time.Minute

// extendDeadlines gives a long request the time for its next step. A command that
// opens the store itself has no connection.
func extendDeadlines(c *http.ResponseController) {
	deadline := time.Now().Add(longStep)
	_ = c.SetReadDeadline(deadline)
	_ = c.SetWriteDeadline(deadline)
}

const exportPageEvents = 500 // read in one transaction

// exportEvents is GET /admin/event-export?account=A: all events at its start,
// oldest first, one per line, in the format of import. The trailer Tollhouse-Events
// counts the lines; an export that fails has no trailer and closes the connection.
func (s *Server) exportEvents(w http.ResponseWriter, r *http.Request) error {
	account, pairs, err := s.api.AdminAccount(r)
	if err != nil {
		return err
	}
	if len(pairs) > 0 {
		return web.UnknownParameter(pairs[0].Name, nil, []string{"account"})
	}
	h := w.Header()
	h.Set("Content-Type", api.AsNDJSON)
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", "Tollhouse-Events")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	controller := http.NewResponseController(w)
	buffer := api.TakeBuffer()
	defer buffer.Release()
	export := s.site.Store.Events.NewExport(account)
	lines := 0
	for {
		var n int
		buffer.B, n, err = export.Next(r.Context(), exportPageEvents, buffer.B[:0])
		if err == nil && n > 0 {
			extendDeadlines(controller)
			_, err = w.Write(buffer.B)
		}
		if err != nil {
			web.Note(r.Context(), slog.String("err", err.Error()))
			panic(http.ErrAbortHandler) // the only way to signal that the list is incomplete
		}
		if n == 0 {
			break
		}
		lines += n
	}
	h.Set("Tollhouse-Events", strconv.Itoa(lines))
	return nil
}

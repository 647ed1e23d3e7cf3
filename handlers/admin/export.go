package admin

import (
	"context"
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

// extendWrites gives a long response the time for its next step. A command that
// opens the store itself has no connection.
func extendWrites(c *http.ResponseController) { _ = c.SetWriteDeadline(time.Now().Add(longStep)) }

// beginLong removes the read deadline: one that passes would end a response that is still looking
// for its next lines.
func beginLong(c *http.ResponseController) { _ = c.SetReadDeadline(time.Time{}) }

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
	if !beginLines(w, r, "Tollhouse-Events") {
		return nil
	}
	export := s.site.Store.Events.NewExport(account)
	lines := streamLines(w, r, func(ctx context.Context, b []byte) ([]byte, int, error) { return export.Next(ctx, exportPageEvents, b) })
	w.Header().Set("Tollhouse-Events", strconv.Itoa(lines))
	return nil
}

// beginLines writes the head of an answer of lines whose trailer counts them, and reports whether they
// are to follow.
func beginLines(w http.ResponseWriter, r *http.Request, trailer string) bool {
	h := w.Header()
	h.Set("Content-Type", api.AsNDJSON)
	h.Set("Cache-Control", "no-store")
	h.Set("Trailer", trailer)
	w.WriteHeader(http.StatusOK)
	return r.Method != http.MethodHead
}

// streamLines writes the pages that next appends to an empty slice, until one has no lines, and returns
// how many lines there were. It closes the connection if it fails.
func streamLines(w http.ResponseWriter, r *http.Request, next func(context.Context, []byte) ([]byte, int, error)) (lines int) {
	controller := http.NewResponseController(w)
	beginLong(controller)
	buffer := api.TakeBuffer()
	defer buffer.Release()
	for {
		var n int
		var err error
		buffer.B, n, err = next(r.Context(), buffer.B[:0])
		extendWrites(controller) // also for the trailer, after a last page that took long
		if err == nil && n > 0 {
			_, err = w.Write(buffer.B)
		}
		if err != nil {
			web.Note(r.Context(), slog.String("err", err.Error()))
			panic(http.ErrAbortHandler) // the only way to signal that the lines are incomplete
		}
		if n == 0 {
			return lines
		}
		lines += n
	}
}

package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// backup is GET /admin/backup: a snapshot of the store, while writes go on. A
// complete backup has an end mark; if it fails, the connection is closed as well.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	frugal := r.URL.RawQuery == "frugal=true" // of a command that answers itself
	if r.URL.RawQuery != "" && !frugal {
		return web.InvalidRequest("A backup takes no parameters.")
	}
	out := &backupBody{w: w, controller: http.NewResponseController(w)}
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	totals, err := s.site.Store.Backup(r.Context(), out, store.BackupNotes{Version: s.site.Version, Key: s.keyFingerprint(), Frugal: frugal})
	switch {
	case err != nil && out.begun:
		web.Note(r.Context(), slog.String("err", err.Error()))
		panic(http.ErrAbortHandler) // the only way to signal that the backup is incomplete
	case errors.Is(err, record.ErrCorrupt):
		p := web.NewProblem(http.StatusInternalServerError, StoreDamaged, "The store is damaged, so a backup would be incomplete: %v.", err)
		p.Extra = map[string]any{"hint": "restore the last complete backup"}
		return p.Because(err)
	case err != nil:
		return err
	}
	web.Note(r.Context(), slog.Int64("records", totals.Records))
	return nil
}

// AdminBackup is the body of POST /admin/backup: a backup that is complete.
type AdminBackup struct {
	Created   time.Time `json:"created"`
	File      string    `json:"file"` // an absolute path, or -
	Bytes     uint64    `json:"bytes"`
	Records   uint64    `json:"records"`
	Scheduled bool      `json:"scheduled"`
	Encrypted bool      `json:"encrypted,omitempty"`
}

// backedUp is POST /admin/backup: the caller confirms that the backup is
// complete and in place.
func (s *Server) backedUp(w http.ResponseWriter, r *http.Request) error {
	var made AdminBackup
	if err := readAdminBody(w, r, &made); err != nil {
		return err
	}
	if made.File == "" || len(made.File) > backupNameSizeMax || made.Created.IsZero() {
		return web.InvalidRequest("file must be a path of at most %d bytes, and created the time of the backup.", backupNameSizeMax).On("file")
	}
	if err := s.site.Store.RecordBackup(r.Context(), store.BackupMade(made), web.By(r.Context())); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// backupNameSizeMax is the longest path of Linux.
const backupNameSizeMax = 4096 // bytes

// Error codes of the admin API alone.

const (
	StoreDamaged = "store_damaged" // it cannot be read completely
)

// keyFingerprint identifies the server key, if known: a command that answers for a
// server may not be allowed to read it.
func (s *Server) keyFingerprint() string {
	if s.site.Key == (secret.Key{}) {
		return s.fingerprint
	}
	return s.site.Key.Fingerprint()
}

// backupBody extends the deadline with every write.
type backupBody struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	begun      bool
}

func (b *backupBody) begin() {
	b.begun = true
	beginLong(b.controller)
	h := b.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	b.w.WriteHeader(http.StatusOK)
}

func (b *backupBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begin()
	}
	extendWrites(b.controller)
	return b.w.Write(p)
}

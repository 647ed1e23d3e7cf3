package handlers

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// adminBackup is GET /admin/backup: a snapshot of the store, while writes go on. A
// complete backup has an end mark; if it fails, the connection is closed as well.
func (s *Server) adminBackup(w http.ResponseWriter, r *http.Request) error {
	if r.URL.RawQuery != "" {
		return invalidRequest("A backup takes no parameters.")
	}
	out := &backupBody{w: w, controller: http.NewResponseController(w)}
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	totals, err := s.store.Backup(r.Context(), out, store.BackupNotes{Version: s.version, Key: s.keyFingerprint()})
	switch {
	case err != nil && out.begun:
		note(r.Context(), slog.String("err", err.Error()))
		panic(http.ErrAbortHandler) // the only way to signal that the backup is incomplete
	case errors.Is(err, record.ErrCorrupt):
		p := newProblem(http.StatusInternalServerError, StoreDamaged, "The store is damaged, so a backup would be incomplete: %v.", err)
		p.extra = map[string]any{"hint": "restore the last complete backup"}
		return p.because(err)
	case err != nil:
		return err
	}
	note(r.Context(), slog.Int64("records", totals.Records))
	return nil
}

// AdminBackup is the body of POST /admin/backup: a backup that is complete.
type AdminBackup struct {
	Created   time.Time `json:"created"`
	File      string    `json:"file"` // an absolute path, or -
	Bytes     uint64    `json:"bytes"`
	Records   uint64    `json:"records"`
	Scheduled bool      `json:"scheduled"`
}

// adminBackedUp is POST /admin/backup: the caller confirms that the backup is
// complete and in place.
func (s *Server) adminBackedUp(w http.ResponseWriter, r *http.Request) error {
	var made AdminBackup
	if err := readAdminBody(w, r, &made); err != nil {
		return err
	}
	if made.File == "" || len(made.File) > backupNameSizeMax || made.Created.IsZero() {
		return invalidRequest("file must be a path of at most %d bytes, and created the time of the backup.", backupNameSizeMax).on("file")
	}
	if err := s.store.RecordBackup(r.Context(), store.BackupMade(made), by(r.Context())); err != nil {
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
	DiskFull     = "disk_full"     // nearly, so no change is accepted
)

// keyFingerprint identifies the server key, if known: a command that answers for a
// server may not be allowed to read it.
func (s *Server) keyFingerprint() string {
	if s.key == (secret.Key{}) {
		return s.fingerprint
	}
	return s.key.Fingerprint()
}

// backupBody extends the deadline with every write.
type backupBody struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	begun      bool
}

func (b *backupBody) begin() {
	b.begun = true
	h := b.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	b.w.WriteHeader(http.StatusOK)
}

func (b *backupBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begin()
	}
	extendDeadlines(b.controller)
	return b.w.Write(p)
}

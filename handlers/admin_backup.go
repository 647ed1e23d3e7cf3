package handlers

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// adminBackup is GET /admin/backup: a backup of the store, of the moment at which
// it begins, while everybody goes on. It has its own end, without which it is not
// whole; one that breaks off ends the connection too.
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
		panic(http.ErrAbortHandler) // the only way to tell that it is not whole
	case errors.Is(err, store.ErrCorrupt):
		p := newProblem(http.StatusInternalServerError, storeDamaged, "There is damage in the store, and a backup of it would lack what is damaged: %v.", err)
		p.extra = map[string]any{"hint": "restore the last backup that is whole"}
		return p.because(err)
	case err != nil:
		return err
	}
	note(r.Context(), slog.Int64("records", totals.Records))
	return nil
}

// adminBackedUp is POST /admin/backup: who asked for a backup says that it lies
// whole where it belongs, which only they can know.
func (s *Server) adminBackedUp(w http.ResponseWriter, r *http.Request) error {
	var told struct {
		File      string    `json:"file"`
		Created   time.Time `json:"created"`
		Bytes     uint64    `json:"bytes"`
		Records   uint64    `json:"records"`
		Scheduled bool      `json:"scheduled"`
	}
	if err := readAdminBody(w, r, &told); err != nil {
		return err
	}
	if told.File == "" || len(told.File) > backupNameSizeMax || told.Created.IsZero() {
		return invalidRequest("file must be a path of at most %d bytes, and created the time of the backup.", backupNameSizeMax).on("file")
	}
	made := store.BackupMade{Created: told.Created, File: told.File, Bytes: told.Bytes, Records: told.Records, Scheduled: told.Scheduled}
	if err := s.store.RecordBackup(r.Context(), made, by(r.Context())); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// backupNameSizeMax is the longest path of Linux.
const backupNameSizeMax = 4096 // bytes

// storeDamaged is the error code when the store cannot be read to its end.
const storeDamaged = "store_damaged"

// keyFingerprint names the server key, where it is known: a command that answers
// for a server may not be allowed to read it.
func (s *Server) keyFingerprint() string {
	if s.key == (secret.Key{}) {
		return ""
	}
	return s.key.Fingerprint()
}

// backupBody is an answer of any length, to a reader of any speed that reads on.
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

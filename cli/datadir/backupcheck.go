package datadir

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"tollhouse/cli/term"
)

// A check of a scheduled backup is noted next to it, in a file with CheckedSuffix, so that
// the desk shows it after a restart too.

// CheckedSuffix follows the name of a backup.
const CheckedSuffix = ".checked"

const checkNoteMax = 4 << 10 // bytes read of a note

// ScheduledName is the form of the names of scheduled backups.
var ScheduledName = regexp.MustCompile(`^tollhouse-[0-9a-z]{8}-[0-9]{8}T[0-9]{6}Z\.backup$`)

// BackupCheck is what a check of a backup found, and when.
type BackupCheck struct {
	At      time.Time `json:"at"`
	Problem string    `json:"problem,omitempty"` // empty for a backup that can be restored
}

// NoteCheck notes what a check of a scheduled backup found: nothing, or damage. Other
// files and other errors, which say nothing about the backup, leave no note.
func NoteCheck(path string, at time.Time, found error) error {
	if !ScheduledName.MatchString(filepath.Base(path)) || found != nil && term.FailureOf(found).Code != term.ExitBadData {
		return nil
	}
	note := BackupCheck{At: at.UTC().Truncate(time.Second)}
	if found != nil {
		note.Problem = found.Error()
	}
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	f, err := NewBackupFile(path + CheckedSuffix)
	if err != nil {
		return err
	}
	defer f.Discard()
	err = f.Fill(func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
	if err == nil {
		err = f.Chmod(0o644) // the server reads the notes of root
	}
	if err != nil {
		return err
	}
	return f.Publish()
}

// LastCheck returns the noted check of a backup, or the zero BackupCheck.
func LastCheck(path string) (check BackupCheck) {
	f, err := os.Open(path + CheckedSuffix)
	if err != nil {
		return check
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, checkNoteMax)).Decode(&check); err != nil {
		return BackupCheck{}
	}
	return check
}

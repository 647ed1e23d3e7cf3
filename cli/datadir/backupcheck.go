package datadir

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/backup/encryption"
)

// A check of a scheduled backup is noted next to it, in a file with CheckedSuffix, so that
// the desk shows it after a restart too. The note of an encrypted backup is written with the
// file, whoever makes it, because it says what the file does not show without an identity.

// CheckedSuffix follows the name of a backup.
const CheckedSuffix = ".checked"

// The names of backups that we choose end in one of these. What a file is, its content says.
const (
	BackupSuffix    = ".backup"
	EncryptedSuffix = ".backup.age"
)

// SuffixOf returns the suffix of a backup for those recipients, or of a plain one for nil.
func SuffixOf(to *encryption.Recipients) string {
	if to != nil {
		return EncryptedSuffix
	}
	return BackupSuffix
}

const checkNoteMax = 32 << 10 // bytes read of a note; what a check found may name a long path

// ScheduledName is the form of the names of scheduled backups.
var ScheduledName = regexp.MustCompile(`^tollhouse-[0-9a-z]{8}-[0-9]{8}T[0-9]{6}Z\.backup(\.age)?$`)

// BackupNote is what is noted of a backup.
type BackupNote struct {
	At      time.Time `json:"at,omitzero"`       // of the last check since it was made
	Problem string    `json:"problem,omitempty"` // that the check found; empty for a backup that can be restored

	// Of an encrypted one, and of one that a program runs after.
	Encrypted bool      `json:"encrypted,omitempty"`
	SHA256    string    `json:"sha256,omitempty"` // of the file
	Bytes     int64     `json:"bytes,omitempty"`  // of the file
	Instance  string    `json:"instance,omitempty"`
	Created   time.Time `json:"created,omitzero"`
	Records   int64     `json:"records,omitempty"`

	Then string `json:"then,omitempty"` // ThenDue until the program after the backup has ended
}

// ThenDue says that the program after a backup has not ended.
const ThenDue = "due"

// notes keeps two writers of this process apart.
var notes sync.Mutex

// NoteCheck notes what a check of a scheduled backup found: nothing, or damage. Other
// files and other errors, which say nothing about the backup, leave no note.
func NoteCheck(path string, at time.Time, found error) error {
	if !ScheduledName.MatchString(filepath.Base(path)) || found != nil && term.FailureOf(found).Code != term.ExitBadData {
		return nil
	}
	notes.Lock()
	defer notes.Unlock()
	note := ReadNote(path)
	note.At, note.Problem = at.UTC().Truncate(time.Second), ""
	if found != nil {
		note.Problem = found.Error()
	}
	return note.write(path)
}

// NoteThen notes whether a run of the program after a backup is due. The note of a backup that
// is gone goes too.
func NoteThen(path, then string) error {
	notes.Lock()
	defer notes.Unlock()
	if _, err := os.Lstat(path); err != nil {
		_ = os.Remove(path + CheckedSuffix)
		return nil
	}
	note := ReadNote(path)
	note.Then = then
	return note.write(path)
}

// write writes the note of the backup at path.
func (n BackupNote) write(path string) error {
	text, err := json.Marshal(n)
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

// ReadNote returns the note of a backup, or the zero BackupNote.
func ReadNote(path string) (note BackupNote) {
	f, err := os.Open(path + CheckedSuffix)
	if err != nil {
		return note
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, checkNoteMax)).Decode(&note); err != nil {
		return BackupNote{}
	}
	return note
}

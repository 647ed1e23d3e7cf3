package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/kv/badgerkv"
)

// A lock on LOCK (flock) says that its holder works on the data directory. The
// kernel releases it when the process exits, however it does. The file's text
// names the holder, for waiting processes and messages; it decides nothing.

const (
	LockWait  = 25 * time.Millisecond // between two tries
	LockTries = 5 * time.Second       // of trying, in total
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("the data directory is in use")

// Holder is the text of LOCK.
type Holder struct {
	PID     int       `json:"pid"`
	Role    string    `json:"role"` // serve, or the command
	Socket  string    `json:"socket"`
	Listen  []string  `json:"listen"`
	Started time.Time `json:"started"`
}

// Lock is a held lock. Its Holder is the text of LOCK, as of the last Write.
type Lock struct {
	file *os.File // LOCK
	dir  *os.File // the data directory
	Holder
}

// TryLock takes the lock of dir, or returns [ErrLocked] immediately. role names the
// holder to others.
func TryLock(dir, role string) (*Lock, error) {
	path := filepath.Join(dir, LockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, NotAllowedOr(term.ExitIO, path, err)
	}
	if err := LockFile(f); err != nil {
		_ = f.Close()
		if errors.Is(err, ErrLocked) {
			return nil, err
		}
		return nil, term.Fail(term.ExitIO, "use a local filesystem; network filesystems may not support locks", "cannot lock %s: %w", path, err)
	}
	held, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(NotAllowedOr(term.ExitIO, dir, err), f.Close())
	}
	l := &Lock{file: f, dir: held, Holder: Holder{PID: os.Getpid(), Role: role, Listen: []string{}, Started: time.Now().UTC().Truncate(time.Second)}}
	if l.Moved() != nil { // between the opening and the lock
		_, _ = held.Close(), f.Close()
		return nil, ErrLocked
	}
	if err := l.Write(); err != nil {
		_, _ = held.Close(), f.Close()
		return nil, term.Fail(term.ExitIO, "check the disk", "cannot write %s: %w", path, err)
	}
	return l, nil
}

// Write records who holds the lock. The file is written in place: a new file
// would have a lock of its own.
func (l *Lock) Write() error {
	text, err := json.Marshal(l.Holder)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// Moved returns a [*badgerkv.MovedError] if the data directory, or LOCK, is no longer the one
// that was opened, or nil.
func (l *Lock) Moved() error {
	if err := badgerkv.CheckMoved(l.dir, l.dir.Name()); err != nil {
		return err
	}
	return badgerkv.CheckMoved(l.file, l.file.Name())
}

// Release releases the lock. The file is kept: removing it would let two processes
// hold two locks of one name. In a directory that was moved nothing is changed.
func (l *Lock) Release() (err error) {
	if l.Moved() == nil {
		err = l.file.Truncate(0)
	}
	return errors.Join(err, l.file.Close(), l.dir.Close())
}

const holderSizeMax = 64 << 10 // bytes

// ReadHolder returns the text of LOCK, or the zero Holder when it is empty or being
// written.
func ReadHolder(dir string) (h Holder) {
	f, err := os.Open(filepath.Join(dir, LockName))
	if err != nil {
		return h
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, holderSizeMax))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}

// HolderSocket returns the admin socket of the server that holds dir: the one in
// LOCK, or the default.
func HolderSocket(dir string) string {
	return cmp.Or(ReadHolder(dir).Socket, filepath.Join(dir, SocketName))
}

// HeldError is the error when h holds the data directory.
func HeldError(dir string, h Holder) error {
	if h.PID == 0 {
		return term.Fail(term.ExitBusy, "try again when it is done", "the data directory %s is in use by another process", dir)
	}
	where := ""
	if len(h.Listen) > 0 {
		where = ", listening on " + strings.Join(h.Listen, " and ")
	}
	// A process in another container or machine has a different PID here, or none.
	stop := "stop it first, on its own machine"
	if info, err := os.Stat(filepath.Join(dir, LockName)); err == nil && hasOpen(h.PID, info) {
		stop = fmt.Sprintf("stop it first (kill %d)", h.PID)
	}
	hint := stop + ", or use a different directory with --data"
	return term.Fail(term.ExitBusy, hint, "the data directory %s is held by process %d (tollhouse %s) since %s%s", dir, h.PID, h.Role, h.Started.Format(time.RFC3339), where)
}

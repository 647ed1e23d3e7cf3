package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A lock on LOCK (flock) says that its holder works on the data directory. The
// kernel releases it with the process, however that ends. The file's text says
// who the holder is, for those who wait and for messages; it decides nothing.

const (
	lockWait  = 25 * time.Millisecond // between two tries
	lockTries = 5 * time.Second       // of trying, all in all
)

// errLocked says that another process holds the lock.
var errLocked = errors.New("the data directory is in use")

// holder is the text of LOCK.
type holder struct {
	PID     int       `json:"pid"`
	Role    string    `json:"role"` // serve, or the command
	Socket  string    `json:"socket"`
	Listen  []string  `json:"listen"`
	Started time.Time `json:"started"`
}

// dirLock is a held lock.
type dirLock struct {
	file *os.File
	holder
}

// tryLock takes the lock of dir or returns errLocked. It waits for nobody.
func tryLock(dir, role string) (*dirLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, notAllowedOr(exitIO, path, err)
	}
	if err := lockFile(f); err != nil {
		_ = f.Close()
		if errors.Is(err, errLocked) {
			return nil, err
		}
		return nil, fail(exitIO, "use a local filesystem; network filesystems may not lock", "cannot lock %s: %w", path, err)
	}
	l := &dirLock{file: f, holder: holder{PID: os.Getpid(), Role: role, Listen: []string{}, Started: time.Now().UTC().Truncate(time.Second)}}
	if err := l.tell(); err != nil {
		_ = f.Close()
		return nil, fail(exitIO, "check the disk", "cannot write %s: %w", path, err)
	}
	return l, nil
}

// tell writes down who holds the lock. The file is written in place: another
// one would have another lock.
func (l *dirLock) tell() error {
	text, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// release lets the next one in. The file stays: to remove it would let two
// processes hold two locks of one name.
func (l *dirLock) release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

const holderSizeMax = 64 << 10 // bytes

// readHolder returns what LOCK says, as far as it says anything: its holder may
// be writing it just now.
func readHolder(dir string) (h holder) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return h
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, holderSizeMax))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holder{}
	}
	return h
}

// heldFault names who holds the data directory.
func heldFault(dir string, h holder) error {
	if h.PID == 0 {
		return fail(exitBusy, "try again when it is done", "the data directory %s is in use by another process", dir)
	}
	where := ""
	if len(h.Listen) > 0 {
		where = ", listening on " + strings.Join(h.Listen, " and ")
	}
	hint := fmt.Sprintf("stop it first (kill %d), or give this one a directory of its own with --data", h.PID)
	return fail(exitBusy, hint, "the data directory %s is held by process %d (tollhouse %s) since %s%s", dir, h.PID, h.Role, h.Started.Format(time.RFC3339), where)
}

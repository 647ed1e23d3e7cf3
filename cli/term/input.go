package term

import (
	"errors"
	"os"
	"syscall"
)

// OpenInput opens a file for reading, and refuses a directory.
func OpenInput(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

package badgerkv

import (
	"math"
	"path/filepath"
)

// Each table is an open file. Badger opens those of a merge before it closes the old ones, and
// retries for ever to create one that it cannot open.

// filesSpare are the files other than the tables: the engine's logs, our own files, listeners,
// and the least number of connections.
const filesSpare = 64

// Files are the open files of a process and what its store needs of them.
type Files struct {
	Limit uint64 // that the process may open
	Need  uint64 // by the store: its tables, those of the next merges, and 64 others
}

// Left is how many other files may be open.
func (f Files) Left() uint64 { return f.Limit - min(f.Need, f.Limit) }

// Files returns what the store needs now. In memory it needs none.
func (db *DB) Files() Files {
	return Files{Limit: db.opts.filesMax(), Need: db.filesNeed.Load()}
}

// checkFiles refuses to open a store whose tables cannot be opened.
func checkFiles(opts Options) error {
	tables, err := filepath.Glob(filepath.Join(opts.path, "*.sst"))
	if err != nil {
		return err
	}
	return filesError(opts, uint64(len(tables))+filesSpare)
}

func filesError(opts Options, need uint64) error {
	if limit := opts.filesMax(); limit < need {
		return &FilesError{Dir: opts.Dir, Limit: limit, Need: need}
	}
	return nil
}

// needFiles notes how many files so many tables and merges of so many bytes need.
func (db *DB) needFiles(tables int, merges uint64) {
	db.filesNeed.Store(uint64(tables) + merges/tableSize + filesSpare)
}

// noLimit is the limit of open files where there is none.
const noLimit = math.MaxUint64

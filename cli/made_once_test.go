package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tollhouse/store/storetest/must"
)

// madeOnce is what commands make for many tests, such as a data directory. They run once, and
// each test gets a copy of its own: a command takes fifty times as long as a copy.
type madeOnce struct {
	once  sync.Once
	files map[string][]byte // by their path
}

// copyTo copies into a directory what make makes in another one.
func (m *madeOnce) copyTo(t *testing.T, dir string, make func(dir string)) {
	t.Helper()
	m.once.Do(func() {
		made, files := must.ClosedDir(t), map[string][]byte{}
		make(made)
		must.Do(t, filepath.WalkDir(made, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			files[path[len(made):]], err = os.ReadFile(path)
			return err
		}))
		m.files = files
	})
	if m.files == nil {
		t.Fatal("an earlier test could not make it")
	}
	for path, content := range m.files {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, path), content, 0o600))
	}
}

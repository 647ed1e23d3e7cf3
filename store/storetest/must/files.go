package must

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// File is what Files finds at a path. Sum is that of the content of a regular file.
type File struct {
	Mode     fs.FileMode
	Sum      [sha256.Size]byte
	Modified time.Time
}

// Files returns everything below dir, by its path from there.
func Files(t testing.TB, dir string) map[string]File {
	t.Helper()
	files := map[string]File{}
	Do(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := File{Mode: info.Mode(), Modified: info.ModTime()}
		if f.Mode.IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.Sum = sha256.Sum256(content)
		}
		files[strings.TrimPrefix(path, dir)] = f
		return nil
	}))
	return files
}

// Unlike returns the paths that differ.
func Unlike(a, b map[string]File) (paths []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for path := range all {
		before, had := a[path]
		after, has := b[path]
		if had != has || before != after {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

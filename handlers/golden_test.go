package handlers

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"tollhouse/store/storetest/must"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// Golden is golden, for tests outside.
func Golden(t *testing.T, name, got string) { t.Helper(); golden(t, name, got) }

// golden compares got with testdata/name, which -update rewrites.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if got != string(want) {
		t.Errorf("%s differs; got\n%s\nwant\n%s", path, got, want)
	}
}

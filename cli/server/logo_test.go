package server

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollhouse/cli/term"
	"tollhouse/store/storetest/must"
)

func pngOf(t testing.TB, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return b.Bytes()
}

func TestReadLogo(t *testing.T) {
	t.Parallel()
	read := func(content []byte) ([]byte, error) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "logo.png")
		must.Do(t, os.WriteFile(name, content, 0o600))
		return readLogo(name)
	}
	good := pngOf(t, 1024, 1024)
	if got, err := read(good); err != nil || !bytes.Equal(got, good) {
		t.Errorf("readLogo(1024 by 1024) = %d bytes, %v, want the file", len(got), err)
	}
	if got, err := readLogo(""); got != nil || err != nil {
		t.Errorf("readLogo(none) = %v, %v, want none", got, err)
	}
	for _, c := range []struct {
		name, want string
		content    []byte
	}{
		{"svg", "not a PNG", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>`)},
		{"empty", "not a PNG", nil},
		{"too_wide", "1025 by 1 pixels", pngOf(t, 1025, 1)},
		{"too_high", "1 by 1025 pixels", pngOf(t, 1, 1025)},
		{"too_large", "more than 64 KiB", append(bytes.Clone(good), make([]byte, 64<<10)...)},
		{"cut_short", "is damaged", good[:len(good)-20]},
	} {
		_, err := read(c.content)
		var refused *term.Failure
		if !errors.As(err, &refused) || refused.Code != term.ExitConfig || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: readLogo() = %v, want exit code %d and %q", c.name, err, term.ExitConfig, c.want)
		}
	}
}

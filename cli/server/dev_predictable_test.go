package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/secret"
)

// drawnForSeven is what sha256sum makes of "tollhouse/foretold/tollat_", a NUL,
// and 7 and 0 as eight bytes each.
const drawnForSeven = "2f23f002399b8274f34ef0d94fb6c6af1b82b19eb8708493db70ef55e249b2ff"

// Promise (Testers, bad input): dev has predictable ids and a fixed clock on request
func TestPredictable(t *testing.T) {
	t.Parallel()
	source := func(seed uint64) secret.Source { return newSequences(&seed, nil).source() }
	drawn := func(s secret.Source, sequence string, size int) []byte {
		b := make([]byte, size)
		s(sequence, b)
		return b
	}
	t.Run("the_same_seed_gives_the_same_drawings", func(t *testing.T) {
		t.Parallel()
		one, two := source(7), source(7)
		for n := range 4 {
			if a, b := drawn(one, "id", 16), drawn(two, "id", 16); !bytes.Equal(a, b) {
				t.Errorf("drawing %d = %x and %x, want the same", n, a, b)
			}
		}
	})
	t.Run("the_same_drawings_in_every_release", func(t *testing.T) {
		t.Parallel()
		if got := hex.EncodeToString(drawn(source(7), string(secret.AccessToken), sha256.Size)); got != drawnForSeven {
			t.Errorf("the first access token of seed 7 is of %s, want %s: people keep files of what they got", got, drawnForSeven)
		}
	})
	t.Run("no_drawing_comes_twice", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, seed := range []uint64{0, 1, 1 << 63} {
			s := source(seed)
			for _, sequence := range []string{"id", "key", "name", "tail", string(secret.Code)} {
				for range 3 {
					seen[string(drawn(s, sequence, sha256.Size))] = true
				}
			}
		}
		if want := 3 * 5 * 3; len(seen) != want {
			t.Errorf("%d different drawings, want %d", len(seen), want)
		}
	})
	t.Run("one_sequence_does_not_move_another", func(t *testing.T) {
		t.Parallel()
		quiet, busy := source(7), source(7)
		for range 9 {
			drawn(busy, "name", 26)
		}
		if a, b := drawn(quiet, "id", 16), drawn(busy, "id", 16); !bytes.Equal(a, b) {
			t.Errorf("an id after nine names is %x, want %x as without them", b, a)
		}
	})
	t.Run("nothing_is_predictable_unless_asked", func(t *testing.T) {
		t.Parallel()
		random := newSequences(nil, nil).source()
		if random != nil || secret.New(random, secret.AccessToken).Equal(secret.New(random, secret.AccessToken)) {
			t.Error("without --rand-seed the source is predictable")
		}
	})
}

// TestPredictableIsOfDevAlone: only the control of dev makes predictable secrets.
func TestPredictableIsOfDevAlone(t *testing.T) {
	t.Parallel()
	var callers []string
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.Name == "newSequences" && id.Pos() > f.Name.End() {
					callers = append(callers, filepath.Base(path)+" "+f.Name.Name)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"dev_control.go newControl", "dev_control.go open"}; !slices.Equal(callers, want) {
		t.Errorf("newSequences is called by %q, want by %q alone", callers, want)
	}
}

package secret

import (
	"bytes"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// foretoldForSeven is what sha256sum makes of "tollhouse/foretold/tollat_", a NUL,
// and 7 and 0 as eight bytes each.
const foretoldForSeven = "2f23f002399b8274f34ef0d94fb6c6af1b82b19eb8708493db70ef55e249b2ff"

func TestForetold(t *testing.T) {
	t.Parallel()
	drawn := func(o *oracle, sequence string, size int) []byte {
		b := make([]byte, size)
		o.draw(sequence, b)
		return b
	}
	t.Run("appliance_dev_rand_seed_same_seed_same_drawings", func(t *testing.T) {
		t.Parallel()
		one, two := newOracle(7), newOracle(7)
		for n := range 4 {
			if a, b := drawn(one, ofIDs, 16), drawn(two, ofIDs, 16); !bytes.Equal(a, b) {
				t.Errorf("drawing %d = %x and %x, want the same", n, a, b)
			}
		}
	})
	t.Run("appliance_dev_rand_seed_same_drawings_in_every_release", func(t *testing.T) {
		t.Parallel()
		if got := hex.EncodeToString(drawn(newOracle(7), string(AccessToken), drawingMax)); got != foretoldForSeven {
			t.Errorf("the first access token of seed 7 is of %s, want %s: people keep files of what they got", got, foretoldForSeven)
		}
	})
	t.Run("no_drawing_comes_twice", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, seed := range []uint64{0, 1, 1 << 63} {
			o := newOracle(seed)
			for _, sequence := range []string{ofIDs, ofKeys, ofTexts, ofNames, ofTails, ofLate, ofSalts, string(Code)} {
				for range 3 {
					seen[string(drawn(o, sequence, drawingMax))] = true
				}
			}
		}
		if want := 3 * 8 * 3; len(seen) != want {
			t.Errorf("%d different drawings, want %d", len(seen), want)
		}
	})
	t.Run("one_sequence_does_not_move_another", func(t *testing.T) {
		t.Parallel()
		quiet, busy := newOracle(7), newOracle(7)
		for range 9 {
			drawn(busy, ofTexts, 26)
		}
		if a, b := drawn(quiet, ofIDs, 16), drawn(busy, ofIDs, 16); !bytes.Equal(a, b) {
			t.Errorf("an id after nine texts is %x, want %x as without them", b, a)
		}
	})
	t.Run("nothing_is_foretold_unless_asked", func(t *testing.T) {
		t.Parallel()
		if IsForetold() || New(AccessToken).Equal(New(AccessToken)) {
			t.Error("this process was never asked to foretell, and does")
		}
	})
}

// TestForetellHasOneCaller: that secrets can be foretold is dev's alone, so dev
// alone may ask for it, in the one place that a reader then has to look at.
func TestForetellHasOneCaller(t *testing.T) {
	t.Parallel()
	var callers []string
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry os.DirEntry, err error) error {
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
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Foretell" {
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
	if want := []string{"dev.go foretell"}; !slices.Equal(callers, want) {
		t.Errorf("Foretell is called by %q, want by %q alone", callers, want)
	}
}

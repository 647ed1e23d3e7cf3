package secret

import (
	"crypto/md5" // as phpass does
	"fmt"
	"hash"
	"slices"
	"strings"
	"testing"
)

// counting counts the bytes that a digest reads, and computes nothing.
type counting struct {
	hash.Hash
	read int
}

func (c *counting) Write(b []byte) (int, error) { c.read += len(b); return len(b), nil }
func (c *counting) Sum(b []byte) []byte         { return append(b, make([]byte, md5.Size)...) }

// Promise (Platform §10): a check takes about a second of one processor at most: phpass with the most
// rounds reads no more than 512 bytes of a password in each, and a longer one is never right
func TestPhpassReadsABoundedPassword(t *testing.T) {
	t.Parallel()
	const blocksMax = 10 << 20 // of 64 bytes: a second
	for _, rounds := range []uint32{phpassLogMax - 1, phpassLogMax} {
		h := foreignHash{scheme: schemes["phpass"], cost: [3]uint32{rounds}, salt: make([]byte, phpassSaltSize), size: md5.Size}
		of := &counting{Hash: md5.New()}
		derivePhpass(of, h, make([]byte, PasswordSizeMax))
		if blocks := of.read / md5.BlockSize; blocks > blocksMax {
			t.Errorf("2^%d rounds over the longest password read %d blocks, want %d at most", rounds, blocks, blocksMax)
		}
	}
	h := foreignHash{scheme: schemes["phpass"], cost: [3]uint32{phpassLogMax}, salt: make([]byte, phpassSaltSize), size: md5.Size}
	read := strings.Repeat("x", phpassRead)
	keys := [][]byte{h.derive([]byte(read)), h.derive([]byte(read + "y")), h.derive([]byte(read + "z"))}
	if slices.Equal(keys[0], keys[1]) || slices.Equal(keys[1], keys[2]) {
		t.Error("what stands behind the bytes that are read does not matter")
	}
}

// TestTheDearestShapeIsMeasured: at the same count of rounds a small memory takes another time than a
// large one, and which of them takes longer is a matter of the machine.
func TestTheDearestShapeIsMeasured(t *testing.T) {
	t.Parallel()
	costs := []Cost{
		"argon2id$m=8,t=2048,p=1,l=32", "argon2id$m=8,t=1024,p=1,l=32", "argon2id$m=16384,t=1,p=1,l=32", "wrapped argon2id$m=8,t=1024,p=1,l=32",
		"scrypt$n=16,r=8,p=256,l=32", "scrypt$n=16384,r=8,p=1,l=32", "scrypt$n=16,r=8,p=128,l=32", "bcrypt$c=4", "bcrypt$c=5", "pbkdf2-sha1$i=1,l=20",
	}
	byMethod, err := dearestOf(costs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, shapes := range byMethod {
		slices.Sort(shapes)
		got = append(got, fmt.Sprint(shapes))
	}
	slices.Sort(got)
	want := []string{
		"[argon2id$m=16384,t=1,p=1,l=32 argon2id$m=8,t=2048,p=1,l=32]", "[bcrypt$c=5]", "[pbkdf2-sha1$i=1,l=20]",
		"[scrypt$n=16,r=8,p=256,l=32 scrypt$n=16384,r=8,p=1,l=32]", "[wrapped argon2id$m=8,t=1024,p=1,l=32]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("measured are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h := NewQuickHasher()
	if _, err := h.RefusalTime(t.Context(), costs); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Cost{"argon2id$m=16384,t=1,p=1,l=32", "argon2id$m=8,t=2048,p=1,l=32", "scrypt$n=16,r=8,p=256,l=32", "scrypt$n=16384,r=8,p=1,l=32"} {
		if h.measured.took[c] == 0 {
			t.Errorf("%s was not measured", c)
		}
	}
	for c, few := range map[Cost]string{
		"argon2id$m=8,t=65536,p=1,l=32": "argon2id$m=8,t=2048,p=1,l=32", "argon2id$m=131072,t=4,p=1,l=32": "argon2id$m=131072,t=1,p=1,l=32",
		"scrypt$n=16,r=8,p=8192,l=32": "scrypt$n=16,r=8,p=256,l=32", "scrypt$n=131072,r=8,p=1,l=32": "scrypt$n=131072,r=8,p=1,l=32",
	} {
		p, err := c.parse()
		if got := p.sample().costOf(false); err != nil || string(got) != few {
			t.Errorf("the sample of %s is %s, want %s", c, got, few)
		}
	}
}

package secret

import (
	"crypto/md5" // as phpass does
	"fmt"
	"hash"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
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
	must.SkipInShort(t)
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

// Promise (Platform §10): on a busy machine a refusal takes a quarter longer than the longest check of
// the last minute, so that load does not show whose hash is dear
func TestRefusalsFollowTheLoad(t *testing.T) {
	t.Parallel()
	h, ctx := NewQuickHasher(), t.Context()
	costs := []Cost{"bcrypt$c=4"}
	quiet, err := h.RefusalTime(ctx, costs)
	if err != nil {
		t.Fatal(err)
	}
	measured := max(h.measured.took[""], h.measured.took[costs[0]])
	for _, c := range []struct{ took, want time.Duration }{{measured / 2, measured}, {2 * measured, 2 * measured}, {measured, 2 * measured}, {time.Hour, recentMax * measured}} {
		h.recent.note(c.took)
		if got, err := h.RefusalTime(ctx, costs); err != nil || got != c.want*5/4 {
			t.Errorf("after a check of %v RefusalTime = %v, %v, want a quarter more than %v", c.took, got, err, c.want)
		}
	}
	h.recent.began = h.recent.began.Add(-recentEvery)
	if got, _ := h.RefusalTime(ctx, costs); got != recentMax*measured*5/4 {
		t.Errorf("a minute later RefusalTime = %v, want it as before", got)
	}
	h.recent.began = h.recent.began.Add(-recentEvery)
	if got, _ := h.RefusalTime(ctx, costs); got != quiet {
		t.Errorf("two minutes later RefusalTime = %v, want %v", got, quiet)
	}
	if _, err := h.Verify(ctx, Caller{}, "$2a$04$Bqriii12e9KfinuYScWI/uSRtXXzRKYM63MgVz8Uo1mBeGrMsKstm", "wrong"); err != nil || h.recent.longest() == 0 {
		t.Errorf("a check of bcrypt is not noted: %v", err)
	}
}

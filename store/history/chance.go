package history

import (
	"math/bits"
	"math/rand/v2"

	"tollhouse/store/secret"
)

// chance draws numbers and ids. It takes nothing from math/rand/v2 but the raw
// words of its PCG, whose algorithm is fixed, and does all arithmetic in whole
// numbers: so the same seed gives the same history with every release of Go and
// on every machine, where a fused multiply-add would round fractions otherwise.
type chance struct {
	pcg    *rand.PCG
	idKey  uint64
	idMade uint64
}

func newChance(seed, of uint64) *chance {
	pcg := rand.NewPCG(scramble(seed), scramble(of))
	return &chance{pcg: pcg, idKey: pcg.Uint64()}
}

// scramble is the finalizer of SplitMix64: neighbouring seeds begin far apart.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below returns a number from 0 to n-1. Its bias is under n in 2^64.
func (c *chance) below(n int64) int64 {
	high, _ := bits.Mul64(c.pcg.Uint64(), uint64(n))
	return int64(high)
}

// between returns a number from low to high, both included.
func (c *chance) between(low, high int64) int64 { return low + c.below(high-low+1) }

// outOf1000 reports true in that many of a thousand cases.
func (c *chance) outOf1000(cases int64) bool { return c.below(1000) < cases }

// pick returns one of the values.
func pick[T any](c *chance, from []T) T { return from[c.below(int64(len(from)))] }

// weighted is a value that is picked that often among others.
type weighted[T any] struct {
	weight int64
	value  T
}

func pickWeighted[T any](c *chance, from []weighted[T]) T {
	var total int64
	for _, w := range from {
		total += w.weight
	}
	at := c.below(total)
	for _, w := range from {
		if at -= w.weight; at < 0 {
			return w.value
		}
	}
	panic("history: weights do not add up")
}

// idBits is the size of a resource's id, as 12 characters. Shorter than any card
// number, it cannot be taken for one.
const idBits = 60

// id returns an id that no other resource of this history has: a counter, sent
// through steps each of which can be undone, so that no two meet.
func (c *chance) id(prefix string) string {
	const mask = 1<<idBits - 1
	c.idMade++
	x := c.idMade & mask
	x = x * 0x9e3779b97f4a7c15 & mask
	x = (x ^ x>>31) + c.idKey&mask
	x = x * 0xbf58476d1ce4e5b9 & mask
	x ^= x >> 29
	x = x * 0x94d049bb133111eb & mask
	x ^= x >> 32
	var raw [16]byte
	for i := range 8 {
		raw[15-i] = byte(x >> (8 * i))
	}
	spelt := secret.AppendCrockford(make([]byte, 0, secret.CrockfordSize), raw)
	return prefix + string(spelt[secret.CrockfordSize-idBits/5:])
}

// letters spell tokens: no digits, which might look like a card number, and no
// vowels, which might spell a word.
const letters = "bcdfghjkmnpqrstvwxz"

func (c *chance) letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[c.below(int64(len(letters)))]
	}
	return string(b)
}

// digits returns n decimal digits.
func (c *chance) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + c.below(10))
	}
	return string(b)
}

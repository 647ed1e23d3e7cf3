package secret

import (
	"crypto/sha256"
	"hash"
)

// deriveCrypt is SHA-crypt by Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", version 0.6.
// The numbers are those of its steps.
func deriveCrypt(of func() hash.Hash, h foreignHash, password []byte) []byte {
	a, b := of(), of()
	size := a.Size()
	inner := sumOf(b, password, h.salt, password) // 4–8
	a.Write(password)                             // 2
	a.Write(h.salt)                               // 3
	a.Write(repeated(inner, len(password)))       // 9, 10
	for n := len(password); n > 0; n >>= 1 {      // 11
		if n&1 == 1 {
			a.Write(inner)
		} else {
			a.Write(password)
		}
	}
	sum := a.Sum(nil) // 12
	b.Reset()
	for range password { // 13–15
		b.Write(password)
	}
	p := repeated(b.Sum(nil), len(password)) // 16
	b.Reset()
	for range 16 + int(sum[0]) { // 17–19
		b.Write(h.salt)
	}
	s := repeated(b.Sum(make([]byte, 0, size)), len(h.salt)) // 20
	for i := range h.cost[0] {                               // 21
		b.Reset()
		if i&1 == 1 {
			b.Write(p)
		} else {
			b.Write(sum)
		}
		if i%3 != 0 {
			b.Write(s)
		}
		if i%7 != 0 {
			b.Write(p)
		}
		if i&1 == 1 {
			b.Write(sum)
		} else {
			b.Write(p)
		}
		sum = b.Sum(sum[:0])
	}
	return sum
}

// repeated returns n bytes of block, repeated.
func repeated(block []byte, n int) (bytes []byte) {
	for len(bytes) < n {
		bytes = append(bytes, block[:min(len(block), n-len(bytes))]...)
	}
	return bytes
}

const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// cryptKey decodes the digest at the end of a text of SHA-crypt, whose bytes stand in an order of
// their own: each group of three has one from each third of the digest, and the thirds change
// their order from group to group.
func cryptKey(text string, size int) ([]byte, bool) {
	groups := size / 3
	order := make([]int, 0, size)
	turn := 1 // of SHA-512: 0 21 42, 22 43 1, 44 2 23
	if size == sha256.Size {
		turn = 2 // 0 10 20, 21 1 11, 12 22 2
	}
	for i := range groups {
		for j := range 3 {
			order = append(order, (j+turn*i)%3*groups+i)
		}
	}
	switch size {
	case sha256.Size:
		order = append(order, 31, 30)
	default:
		order = append(order, 63)
	}
	bytes, ok := littleEndian64(text, size)
	if !ok {
		return nil, false
	}
	key := make([]byte, size)
	for at, group := 0, 0; group < len(order); group += 3 {
		n := min(3, len(order)-group)
		for i := range n { // the first of a group is in the highest bits
			key[order[group+i]] = bytes[at+n-1-i]
		}
		at += n
	}
	return key, true
}

// littleEndian64 decodes the base64 of crypt and phpass, in which the first character has the
// lowest six bits of a group.
func littleEndian64(text string, size int) (bytes []byte, ok bool) {
	if len(text) != (size*8+5)/6 {
		return nil, false
	}
	for len(text) > 0 {
		group := text[:min(4, len(text))]
		text = text[len(group):]
		var bits uint32
		for i := range len(group) {
			at := indexOf64(group[i])
			if at < 0 {
				return nil, false
			}
			bits |= uint32(at) << (6 * i)
		}
		n := len(group) * 6 / 8
		for range n {
			bytes = append(bytes, byte(bits))
			bits >>= 8
		}
		if bits != 0 {
			return nil, false
		}
	}
	return bytes, true
}

func indexOf64(c byte) int {
	for i := range len(cryptAlphabet) {
		if cryptAlphabet[i] == c {
			return i
		}
	}
	return -1
}

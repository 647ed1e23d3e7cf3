package secret

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

var base64URL = base64.RawURLEncoding

const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// base62Chunk is the largest power of 62 below 2^64. Each division by it yields ten
// digits, so that a token takes a fifth of a microsecond.
const (
	base62Chunk       = 839299365868340224 // 62^10
	base62ChunkDigits = 10
)

// appendBase62 appends the 43 digits of a 256-bit number, most significant first.
func appendBase62(b []byte, number [32]byte) []byte {
	var limbs [4]uint64
	for i := range limbs {
		limbs[i] = binary.BigEndian.Uint64(number[8*i:])
	}
	var chunks [5]uint64 // least significant first; 43 digits = 4 × 10 + 3
	for i := range chunks {
		var rest uint64
		for j := range limbs {
			limbs[j], rest = bits.Div64(rest, limbs[j], base62Chunk)
		}
		chunks[i] = rest
	}
	b = appendBase62Digits(b, chunks[4], bodySize-4*base62ChunkDigits)
	for i := 3; i >= 0; i-- {
		b = appendBase62Digits(b, chunks[i], base62ChunkDigits)
	}
	return b
}

func appendBase62Digits(b []byte, number uint64, width int) []byte {
	start := len(b)
	b = append(b, "0000000000"[:width]...)
	for i := start + width - 1; i >= start; i-- {
		b[i] = base62Digits[number%62]
		number /= 62
	}
	return b
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

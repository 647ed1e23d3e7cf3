package secret

import (
	"encoding/binary"
	"slices"
)

// ID is an identifier of 128 random bits, unique in practice.
type ID [16]byte

// NewID returns a random ID.
func NewID(from Source) ID {
	var id ID
	from.fill("id", id[:])
	return id
}

// IsZero reports whether id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// NewTail returns the random bits of an event's position.
func NewTail(from Source) [8]byte {
	var tail [8]byte
	from.fill("tail", tail[:])
	return tail
}

// NewCount returns where a counter of changes begins: whatever is created again under the name
// of something deleted must not reach the counts of that.
func NewCount(from Source) uint64 {
	var b [8]byte
	from.fill("count", b[:])
	return binary.BigEndian.Uint64(b[:]) >> 16
}

// The alphabet of RFC 4648 §6, and in lower case.
const (
	base32Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	base32Lower  = "abcdefghijklmnopqrstuvwxyz234567"
)

// Text returns 26 random digits in upper-case base32, 130 bits, for names that are not
// secret, such as form nonces.
func Text(from Source) string { return named(from, "", base32Digits) }

// Name returns a prefix with the digits of Text in lower case, for ids of clients and requests.
func Name(from Source, prefix string) string { return named(from, prefix, base32Lower) }

func named(from Source, prefix, digits string) string {
	var drawn [26]byte
	from.fill("name", drawn[:])
	b := append(make([]byte, 0, 64), prefix...)
	for _, c := range drawn {
		b = append(b, digits[c&31])
	}
	return string(b)
}

// crockford is the alphabet of visible ids. It leaves out i, l, o and u, which are
// easy to misread.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// CrockfordSize is the length of 128 bits in Crockford's base32.
const CrockfordSize = 26

// AppendCrockford appends the 26 lower-case characters of id. They sort as the bytes
// do.
func AppendCrockford(b []byte, id [16]byte) []byte {
	// 26 characters hold 130 bits; the first two are zero.
	b = slices.Grow(b, CrockfordSize)
	var rest uint32
	var bitCount uint = 2
	for _, c := range id {
		rest = rest<<8 | uint32(c)
		bitCount += 8
		for bitCount >= 5 {
			bitCount -= 5
			b = append(b, crockford[rest>>bitCount&31])
		}
	}
	return b
}

// Crockford64Size is the length of 64 bits in Crockford's base32.
const Crockford64Size = 13

// AppendCrockford64 appends the 13 lower-case characters of n. They sort as the numbers do.
func AppendCrockford64(b []byte, n uint64) []byte {
	for shift := 5 * (Crockford64Size - 1); shift >= 0; shift -= 5 {
		b = append(b, crockford[n>>shift&31])
	}
	return b
}

// ParseCrockford64 reads only what AppendCrockford64 writes.
func ParseCrockford64(text string) (n uint64, ok bool) {
	if len(text) != Crockford64Size || text[0] > 'f' { // 13 characters hold 65 bits; the first bit is zero
		return 0, false
	}
	for i := range len(text) {
		digit := crockfordValue[text[i]]
		if digit < 0 {
			return 0, false
		}
		n = n<<5 | uint64(digit)
	}
	return n, true
}

// ParseCrockford reads only the canonical form that AppendCrockford writes: it rejects
// upper case, look-alike letters and numbers over 128 bits, so that every id has one
// spelling.
func ParseCrockford(text string) (id [16]byte, ok bool) {
	if len(text) != CrockfordSize || text[0] > '7' {
		return id, false
	}
	var rest uint32
	var bitCount uint
	next := 0
	for i := range len(text) {
		digit := crockfordValue[text[i]]
		if digit < 0 {
			return [16]byte{}, false
		}
		rest = rest<<5 | uint32(digit)
		bitCount += 5
		if i == 0 {
			bitCount -= 2
		}
		if bitCount >= 8 {
			bitCount -= 8
			id[next] = byte(rest >> bitCount)
			next++
		}
	}
	return id, true
}

var crockfordValue = func() (values [256]int8) {
	for i := range values {
		values[i] = -1
	}
	for i := range len(crockford) {
		values[crockford[i]] = int8(i)
	}
	return values
}()

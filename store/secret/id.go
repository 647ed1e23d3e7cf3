package secret

// ID is 128 random bits: an identifier that nobody else will ever draw.
type ID [16]byte

// NewID returns a random ID.
func NewID() ID {
	var id ID
	draw(ofIDs, id[:])
	return id
}

// IsZero reports whether id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// NewTail returns the random end of an event's position.
func NewTail() [8]byte {
	var tail [8]byte
	draw(ofTails, tail[:])
	return tail
}

// NewLateTail is NewTail for what is written in the background. It has a
// sequence of its own (see [Foretell]): when it is written is nobody's to say.
func NewLateTail() [8]byte {
	var tail [8]byte
	draw(ofLate, tail[:])
	return tail
}

// Text returns a random string of at least 128 bits in upper-case base32, for
// names that need not be kept secret: request ids, nonces of forms.
func Text() string { return text(ofTexts) }

// Name is Text for the name of a record, such as a client's id, which does not
// depend on how many requests came before (see [Foretell]).
func Name() string { return text(ofNames) }

// crockford is the alphabet of our visible ids: no i, l, o or u to misread.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// CrockfordSize is the length of 128 bits in Crockford's base32.
const CrockfordSize = 26

// AppendCrockford appends the 26 lower-case characters that spell id. They sort
// as the bytes do.
func AppendCrockford(b []byte, id [16]byte) []byte {
	// 26 characters hold 130 bits: the first carries the two that are zero.
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

// ParseCrockford reads what AppendCrockford wrote, and nothing else: upper case,
// look-alike letters and numbers over 128 bits are refused, so that one id has
// one spelling.
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

package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// A stored record is a version byte and its fields in a fixed order, with lengths and
// numbers as varints. The codec is written by hand because a bearer check decodes four
// records and must stay well under a microsecond. The decoder refuses any bytes that
// the encoder would not have written.

// Encoder appends the fields of a record to B. Its methods return it, for chains of calls.
type Encoder struct{ B []byte }

// NewEncoder returns an Encoder of a record that begins with a version byte.
func NewEncoder(version byte) *Encoder {
	return &Encoder{B: append(make([]byte, 0, 160), version)}
}

// Fields of fixed size, and Uint, a varint.

func (e *Encoder) Uint(n uint64) *Encoder        { e.B = binary.AppendUvarint(e.B, n); return e }
func (e *Encoder) Byte(c byte) *Encoder          { e.B = append(e.B, c); return e }
func (e *Encoder) ID(id secret.ID) *Encoder      { e.B = append(e.B, id[:]...); return e }
func (e *Encoder) Hash(h secret.Hash) *Encoder   { e.B = append(e.B, h[:]...); return e }
func (e *Encoder) Nonce(n secret.Nonce) *Encoder { e.B = append(e.B, n[:]...); return e }
func (e *Encoder) Position(p Position) *Encoder  { e.B = append(e.B, p[:]...); return e }

// Bool writes one byte, 1 or 0.
func (e *Encoder) Bool(v bool) *Encoder {
	if v {
		return e.Byte(1)
	}
	return e.Byte(0)
}

// Str writes the length in bytes, then the text.
func (e *Encoder) Str(text string) *Encoder {
	e.Uint(uint64(len(text)))
	e.B = append(e.B, text...)
	return e
}

// Strs writes the number of texts, then each of them.
func (e *Encoder) Strs(texts []string) *Encoder {
	e.Uint(uint64(len(texts)))
	for _, text := range texts {
		e.Str(text)
	}
	return e
}

// Time writes milliseconds since the Unix epoch, plus one: 0 is no time at all.
func (e *Encoder) Time(t time.Time) *Encoder {
	if t.IsZero() {
		return e.Uint(0)
	}
	return e.Uint(uint64(max(t.UnixMilli(), 0)) + 1)
}

// Decoder reads what Encoder wrote. It keeps its first failure, and every later read
// returns a zero value, so callers check once, in Done.
type Decoder struct {
	B    []byte
	kind string
	Err  error
}

// NewDecoder returns a value, so that it allocates nothing.
func NewDecoder(kind string, version byte, b []byte) Decoder {
	d := Decoder{B: b, kind: kind}
	if found := d.Byte(); d.Err == nil && found != version {
		d.Fail(fmt.Sprintf("unknown version %d", found))
	}
	return d
}

// Fail makes an [ErrCorrupt] with the reason the first failure, unless there is one, and stops
// reading. It is for callers whose own checks a field does not pass.
func (d *Decoder) Fail(reason string) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: %s record: %s", kv.ErrCorrupt, d.kind, reason)
	}
	d.B = nil
}

// Take returns the next n bytes, which share the memory of the record, or nil and a failure if
// fewer are left.
func (d *Decoder) Take(n uint64) []byte {
	if d.Err != nil || n > uint64(len(d.B)) {
		d.Fail("ends too early")
		return nil
	}
	taken := d.B[:n]
	d.B = d.B[n:]
	return taken
}

// Byte reads what Encoder.Byte wrote.
func (d *Decoder) Byte() byte {
	if b := d.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint reads a varint, and refuses any form but the shortest.
func (d *Decoder) Uint() uint64 {
	n, size := binary.Uvarint(d.B)
	if size <= 0 {
		d.Fail("has no number where one belongs")
		return 0
	}
	if size > 1 && d.B[size-1] == 0 {
		d.Fail("holds a number in a longer form than its writer uses")
		return 0
	}
	d.B = d.B[size:]
	return n
}

// Bool reads one byte, and refuses any but 1 and 0.
func (d *Decoder) Bool() bool {
	switch d.Byte() {
	case 0:
		return false
	case 1:
		return true
	}
	d.Fail("holds a byte that is no boolean")
	return false
}

// Str reads a text and returns a copy.
func (d *Decoder) Str() string { return string(d.Take(d.Uint())) }

// Strs reads a list of texts; nil if it is empty.
func (d *Decoder) Strs() []string {
	n := d.Uint()
	if n > uint64(len(d.B)) { // each takes at least one byte
		d.Fail("ends too early")
		return nil
	}
	var texts []string
	for range n {
		texts = append(texts, d.Str())
	}
	return texts
}

// Time reads a time in UTC, to the millisecond, or the zero Time.
func (d *Decoder) Time() time.Time {
	n := d.Uint()
	if n == 0 {
		return time.Time{}
	}
	if n > math.MaxInt64/2 {
		d.Fail("holds a time out of range")
		return time.Time{}
	}
	return time.UnixMilli(int64(n - 1)).UTC()
}

// More reports whether fields are left. A writer leaves out the last ones of a record that has
// nothing to say in them.
func (d *Decoder) More() bool { return d.Err == nil && len(d.B) > 0 }

// Fields of fixed size.

func (d *Decoder) ID() (id secret.ID)      { copy(id[:], d.Take(uint64(len(id)))); return id }
func (d *Decoder) Hash() (h secret.Hash)   { copy(h[:], d.Take(uint64(len(h)))); return h }
func (d *Decoder) Nonce() (n secret.Nonce) { copy(n[:], d.Take(uint64(len(n)))); return n }
func (d *Decoder) Position() (p Position)  { copy(p[:], d.Take(uint64(len(p)))); return p }

// Done returns the first failure, or one for bytes that are left over.
func (d *Decoder) Done() error {
	if d.Err == nil && len(d.B) > 0 {
		d.Fail(fmt.Sprintf("%d bytes after the last field", len(d.B)))
	}
	return d.Err
}

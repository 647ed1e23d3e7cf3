package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// A stored record is a version byte and its fields in a fixed order, lengths
// and numbers as varints. Hand-written, because a bearer check decodes four
// records and does so in well under a microsecond; the reader refuses whatever
// its writer would not have written.

type encoder struct{ b []byte }

func newEncoder(version byte) *encoder {
	return &encoder{b: append(make([]byte, 0, 160), version)}
}

func (e *encoder) uint(n uint64)        { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) byte(c byte)          { e.b = append(e.b, c) }
func (e *encoder) id(id secret.ID)      { e.b = append(e.b, id[:]...) }
func (e *encoder) hash(h secret.Hash)   { e.b = append(e.b, h[:]...) }
func (e *encoder) nonce(n secret.Nonce) { e.b = append(e.b, n[:]...) }
func (e *encoder) position(p Position)  { e.b = append(e.b, p[:]...) }

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
		return
	}
	e.byte(0)
}

func (e *encoder) str(text string) {
	e.uint(uint64(len(text)))
	e.b = append(e.b, text...)
}

func (e *encoder) strs(texts []string) {
	e.uint(uint64(len(texts)))
	for _, text := range texts {
		e.str(text)
	}
}

// time writes milliseconds since the Unix epoch, plus one: 0 is no time at all.
func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.uint(0)
		return
	}
	e.uint(uint64(max(t.UnixMilli(), 0)) + 1)
}

// decoder reads what encoder wrote. Its first failure is kept and every later
// read gives zero values, so that callers check once, in done.
type decoder struct {
	b    []byte
	kind string
	err  error
}

// newDecoder returns it by value, so that it needs no memory of its own.
func newDecoder(kind string, version byte, b []byte) decoder {
	d := decoder{b: b, kind: kind}
	if found := d.byte(); d.err == nil && found != version {
		d.fail(fmt.Sprintf("version %d is unknown", found))
	}
	return d
}

func (d *decoder) fail(reason string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s record: %s", kv.ErrCorrupt, d.kind, reason)
	}
	d.b = nil
}

func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.b)) {
		d.fail("ends too early")
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail("holds no number where one belongs")
		return 0
	}
	if size > 1 && d.b[size-1] == 0 {
		d.fail("holds a number in a longer form than its writer uses")
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) bool() bool {
	switch d.byte() {
	case 0:
		return false
	case 1:
		return true
	}
	d.fail("holds neither yes nor no where one belongs")
	return false
}

func (d *decoder) str() string { return string(d.take(d.uint())) }

func (d *decoder) strs() []string {
	n := d.uint()
	if n > uint64(len(d.b)) { // each takes a byte at least
		d.fail("ends too early")
		return nil
	}
	var texts []string
	for range n {
		texts = append(texts, d.str())
	}
	return texts
}

func (d *decoder) time() time.Time {
	n := d.uint()
	if n == 0 {
		return time.Time{}
	}
	if n > math.MaxInt64/2 {
		d.fail("holds a time past all times")
		return time.Time{}
	}
	return time.UnixMilli(int64(n - 1)).UTC()
}

func (d *decoder) id() (id secret.ID)      { copy(id[:], d.take(uint64(len(id)))); return id }
func (d *decoder) hash() (h secret.Hash)   { copy(h[:], d.take(uint64(len(h)))); return h }
func (d *decoder) nonce() (n secret.Nonce) { copy(n[:], d.take(uint64(len(n)))); return n }
func (d *decoder) position() (p Position)  { copy(p[:], d.take(uint64(len(p)))); return p }

// done returns the first failure, or one for bytes that are left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail(fmt.Sprintf("has %d bytes too many", len(d.b)))
	}
	return d.err
}

// Package backup is the form of a backup file: what is written so that a store
// can be built again from it, and so that no damage to it goes unnoticed.
//
//	magic      "tollbak\n"
//	header     length, CRC-32C, JSON: format, schema, instance, when, by what
//	chunks     each: length packed, length unpacked, CRC-32C, a zstd frame
//	           of records: length and key, length and value, expiry, CRC-32C
//	end        a chunk of length 0
//	trailer    length, CRC-32C, JSON: records, bytes, records of each kind
//	digest     SHA-256 of everything before it
//
// Lengths and checksums are 4 bytes, the most significant first; the lengths of
// keys and values, and the expiry, are varints. Keys come in ascending order.
//
// The checksums tell at once, and where, that something is damaged; the digest
// tells that all that came before is what was written. A file that ends early
// ends without its trailer, at whatever byte it was cut. Nothing follows the
// digest.
//
// The package knows the form and not the meaning: a key's first byte is the kind
// of its record, and the rest is the store's.
package backup

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"tollhouse/store/kv"
)

// Format is the version of the form that this code writes, and the newest that
// it reads.
const Format = 1

const (
	magic = "tollbak\n"

	// chunkSize is how much is packed at a time: enough to pack well, and little
	// enough to hold in memory on both sides.
	chunkSize = 1 << 20
	// recordSizeMax bounds a record in a chunk: its key and value at their
	// largest, and what stands around them.
	recordSizeMax = kv.KeySizeMax + kv.ValueSizeMax + 3*10 + crc32.Size
	chunkSizeMax  = chunkSize + recordSizeMax
	// noteSizeMax bounds the header and the trailer.
	noteSizeMax = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header says what a backup is of. It holds no secret.
type Header struct {
	Format   int       `json:"format"`
	Schema   uint64    `json:"schema"`   // of the store's records
	Instance string    `json:"instance"` // id of the store
	Created  time.Time `json:"created"`
	Version  string    `json:"version"`       // of the tollhouse that wrote it
	Key      string    `json:"key,omitempty"` // fingerprint of the server key, when it was known
}

// Totals are the counts of what a backup holds.
type Totals struct {
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"` // of keys and values
	Kinds   map[string]int64 `json:"kinds"` // records by the first byte of their keys
}

func (t *Totals) count(r kv.Record) {
	t.Records++
	t.Bytes += int64(len(r.Key) + len(r.Value))
	if t.Kinds == nil {
		t.Kinds = map[string]int64{}
	}
	t.Kinds[string(r.Key[:1])]++
}

var (
	// ErrForeign says that a file is no backup of tollhouse.
	ErrForeign = errors.New("it is not a backup of tollhouse")
	// ErrTruncated says that a backup ends before its end.
	ErrTruncated = errors.New("it is cut off")
	// ErrDamaged says that a backup is not what was written.
	ErrDamaged = errors.New("it is damaged")
)

// FormatError says that a backup has a form that this code does not know.
type FormatError struct{ Found int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("it has format %d, and this tollhouse knows up to %d", e.Found, Format)
}

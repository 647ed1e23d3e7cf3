// Package backup defines the format of a backup file. A store can be rebuilt
// from a backup, and any damage to it is detected.
//
//	magic      "tollbak\n"
//	header     length, CRC-32C, JSON: format, record format, instance, when, by what
//	chunks     each: length packed, length unpacked, CRC-32C, a zstd frame
//	           of records: length and key, length and value, expiry, CRC-32C
//	end        a chunk of length 0
//	trailer    length, CRC-32C, JSON: records, bytes, records of each kind
//	digest     SHA-256 of everything before it
//
// Lengths and checksums are 4 bytes, the most significant first; the lengths of
// keys and values, and the expiry, are varints. Keys are in ascending order.
//
// The checksums locate damage while reading; the digest proves that the whole file is
// unaltered. A truncated file has no trailer. Nothing follows the digest.
//
// The package knows the format, not the meaning: the first byte of a key is the kind of
// its record, and the rest belongs to the store.
package backup

import (
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"time"

	"tollhouse/store/kv"
)

// Format is the file format that this code writes, and the newest that it reads.
const Format = 1

const (
	magic = "tollbak\n"

	// chunkSize is how much is compressed at a time: enough to compress well, and
	// little enough to hold in memory on both sides.
	chunkSize = 1 << 20
	// recordSizeMax bounds a record in a chunk, with its lengths, expiry and checksum.
	recordSizeMax = kv.KeySizeMax + kv.ValueSizeMax + 3*10 + crc32.Size
	chunkSizeMax  = chunkSize + recordSizeMax
	// noteSizeMax bounds the header and the trailer.
	noteSizeMax = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header describes a backup. It holds no secret.
type Header struct {
	Format   int       `json:"format"`
	Schema   uint64    `json:"record_format"` // of the store; backups before format 1 was settled have none
	Instance string    `json:"instance"`      // id of the store
	Created  time.Time `json:"created"`
	Version  string    `json:"version"`       // of the tollhouse that wrote it
	Key      string    `json:"key,omitempty"` // fingerprint of the server key, if known
}

// Totals are the counts of what a backup holds.
type Totals struct {
	Records int64            `json:"records"`
	Bytes   int64            `json:"bytes"` // size of keys and values
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
	// ErrForeign means that a file is not a tollhouse backup.
	ErrForeign = errors.New("it is not a backup of tollhouse")
	// ErrTruncated means that a backup is incomplete.
	ErrTruncated = errors.New("it is cut off")
	// ErrDamaged means that a backup was altered.
	ErrDamaged = errors.New("it is damaged")
)

// FormatError means that this code does not know the backup's format.
type FormatError struct {
	Found   int
	Version string // of the tollhouse that wrote it
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("it has format %d, and this tollhouse knows up to %d", e.Found, Format)
}

// Hint returns the next step.
func (e *FormatError) Hint() string { return HintOf(e.Version) }

// releaseForm matches the number of a release. Other builds have no order.
var releaseForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]{0,60}$`)

// HintOf returns the next step for data that only newer builds read. release is one that
// reads it, from the data; "" if the data has none.
func HintOf(release string) string {
	if releaseForm.MatchString(release) {
		return "use tollhouse " + release + " or newer"
	}
	return "use the tollhouse that wrote it, or a later one"
}

package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"tollhouse/store/kv"
)

// Writer writes a backup. It holds at most one chunk in memory.
type Writer struct {
	w      io.Writer
	size   int // of a chunk
	digest hash.Hash
	packer *zstd.Encoder
	chunk  []byte // of records, not yet written
	packed []byte
	last   []byte // the last key
	totals Totals
}

var errOrder = errors.New("backup: keys do not ascend")

// NewWriter writes the header of a backup to w. Call Close when done.
func NewWriter(w io.Writer, h Header) (*Writer, error) { return newWriter(w, h, chunkSize) }

// NewFrugalWriter is NewWriter with smaller chunks, so that together with a Reader of what it
// writes it needs no more memory than another.
func NewFrugalWriter(w io.Writer, h Header) (*Writer, error) { return newWriter(w, h, chunkSize/4) }

func newWriter(w io.Writer, h Header, size int) (*Writer, error) {
	// Fast, because a backup runs alongside a server and JSON compresses well anyway. One
	// goroutine, and no checksum other than our own.
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(size))
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	b := &Writer{w: w, size: size, digest: sha256.New(), packer: packer, totals: Totals{Kinds: map[string]int64{}}}
	h.Format, h.Created = Format, h.Created.UTC().Truncate(time.Second)
	if err := b.write([]byte(magic)); err != nil {
		return nil, err
	}
	return b, b.note(h)
}

// Add writes records. Keys must ascend, also from call to call.
func (b *Writer) Add(records []kv.Record) error {
	for _, r := range records {
		if b.last != nil && bytes.Compare(b.last, r.Key) >= 0 {
			return errOrder
		}
		b.last = append(b.last[:0], r.Key...)
		b.chunk = appendRecord(b.chunk, r)
		b.totals.count(r)
		if len(b.chunk) < b.size {
			continue
		}
		if err := b.flush(); err != nil {
			return err
		}
	}
	return nil
}

// Close writes the rest and the end of the backup, and returns its totals. It does not
// close the underlying writer.
func (b *Writer) Close() (Totals, error) {
	if err := b.flush(); err != nil {
		return Totals{}, err
	}
	if err := b.write(binary.BigEndian.AppendUint32(nil, 0)); err != nil {
		return Totals{}, err
	}
	if err := b.note(b.totals); err != nil {
		return Totals{}, err
	}
	_, err := b.w.Write(b.digest.Sum(nil))
	return b.totals, err
}

// flush writes the chunk, unless it is empty.
func (b *Writer) flush() error {
	if len(b.chunk) == 0 {
		return nil
	}
	const header = 12 // the numbers before the frame
	b.packed = b.packer.EncodeAll(b.chunk, append(b.packed[:0], make([]byte, header)...))
	frame := b.packed[header:]
	binary.BigEndian.PutUint32(b.packed[0:], uint32(len(frame)))
	binary.BigEndian.PutUint32(b.packed[4:], uint32(len(b.chunk)))
	binary.BigEndian.PutUint32(b.packed[8:], crc32.Checksum(frame, castagnoli))
	b.chunk = b.chunk[:0]
	return b.write(b.packed)
}

// note writes a header or trailer.
func (b *Writer) note(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	framed = binary.BigEndian.AppendUint32(framed, crc32.Checksum(text, castagnoli))
	return b.write(append(framed, text...))
}

func (b *Writer) write(p []byte) error {
	b.digest.Write(p)
	_, err := b.w.Write(p)
	return err
}

func appendRecord(b []byte, r kv.Record) []byte {
	start := len(b)
	b = binary.AppendUvarint(b, uint64(len(r.Key)))
	b = append(b, r.Key...)
	b = binary.AppendUvarint(b, uint64(len(r.Value)))
	b = append(b, r.Value...)
	b = binary.AppendUvarint(b, uint64(r.ExpiresAt))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"math"

	"github.com/klauspost/compress/zstd"

	"tollhouse/store/kv"
)

// Reader reads a backup without trusting it: no length causes an allocation past
// chunkSizeMax, and every record is checked before it is yielded. Only the end shows
// that the whole is unaltered.
type Reader struct {
	Header Header

	r        io.Reader
	digest   hash.Hash
	offset   int64         // bytes read so far
	unpacker *zstd.Decoder // nil before the first chunk
	packed   []byte
	chunk    []byte
	last     []byte // the last key
	totals   Totals
	whole    bool
}

const readSize = 64 << 10 // bytes per read

// NewReader reads the header of a backup. Close the Reader when done. Errors:
// ErrForeign, ErrTruncated, ErrDamaged, *FormatError, and those of r.
func NewReader(r io.Reader) (*Reader, error) {
	r = bufio.NewReaderSize(r, readSize)
	b := &Reader{r: r, digest: sha256.New(), totals: Totals{Kinds: map[string]int64{}}}
	head := make([]byte, len(magic))
	n, err := io.ReadFull(r, head)
	if !bytes.HasPrefix([]byte(magic), head[:n]) {
		return nil, ErrForeign
	}
	if n == 0 && errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it is empty", ErrTruncated)
	}
	b.took(head[:n])
	if err != nil {
		return nil, b.broken(err)
	}
	if err := b.note("header", &b.Header); err != nil {
		return nil, err
	}
	if b.Header.Format < 1 {
		return nil, b.damaged("its header has no format")
	}
	if b.Header.Format > Format {
		return nil, &FormatError{Found: b.Header.Format, Version: b.Header.Version}
	}
	return b, nil
}

// Close releases the Reader's memory. It does not close the underlying reader.
func (b *Reader) Close() {
	if b.unpacker != nil {
		b.unpacker.Close()
	}
}

// Records yields the records once; each is valid until the next step. An error stops
// it. Errors: ErrTruncated, ErrDamaged, and those of the underlying reader.
func (b *Reader) Records() iter.Seq2[kv.Record, error] {
	return func(yield func(kv.Record, error) bool) {
		for {
			more, err := b.nextChunk()
			for rest := b.chunk; err == nil && more && len(rest) > 0; {
				var r kv.Record
				if r, rest, err = b.record(rest); err == nil && !yield(r, nil) {
					return
				}
			}
			if err == nil && !more {
				err = b.end()
			}
			if err != nil {
				yield(kv.Record{}, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// Totals returns the totals, and whether Records has reached the end.
func (b *Reader) Totals() (t Totals, whole bool) { return b.totals, b.whole }

// nextChunk reads and decompresses a chunk; more is false after the last.
func (b *Reader) nextChunk() (more bool, err error) {
	packed, err := b.number()
	if err != nil || packed == 0 {
		return false, err
	}
	unpacked, err := b.number()
	if err != nil {
		return false, err
	}
	sum, err := b.number()
	if err != nil {
		return false, err
	}
	// Incompressible data is stored in a slightly larger frame.
	if packed > chunkSizeMax+noteSizeMax || unpacked == 0 || unpacked > chunkSizeMax {
		return false, b.damaged("a chunk has an impossible length")
	}
	if b.packed, err = b.read(b.packed, int(packed)); err != nil {
		return false, err
	}
	if crc32.Checksum(b.packed, castagnoli) != sum {
		return false, b.damaged("the checksum of a chunk does not match")
	}
	if b.unpacker == nil {
		b.unpacker, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(chunkSizeMax), zstd.WithDecoderMaxWindow(chunkSizeMax))
		if err != nil {
			return false, fmt.Errorf("backup: %w", err)
		}
	}
	b.chunk, err = b.unpacker.DecodeAll(b.packed, b.chunk[:0])
	if err != nil || len(b.chunk) != int(unpacked) {
		return false, b.damaged("a chunk cannot be decompressed")
	}
	return true, nil
}

// record cuts the next record out of a chunk.
func (b *Reader) record(chunk []byte) (r kv.Record, rest []byte, err error) {
	rest = chunk
	text := func(sizeMax uint64) []byte {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > sizeMax || size > uint64(len(rest)-n) {
			rest = nil
			return nil
		}
		taken := rest[n : n+int(size) : n+int(size)]
		rest = rest[n+int(size):]
		return taken
	}
	r.Key = text(kv.KeySizeMax)
	r.Value = text(kv.ValueSizeMax)
	expiresAt, n := binary.Uvarint(rest)
	if n <= 0 || expiresAt > math.MaxInt64 || len(rest)-n < crc32.Size {
		return kv.Record{}, nil, b.damagedRecord("it has an impossible length")
	}
	r.ExpiresAt, rest = int64(expiresAt), rest[n:]
	sum := crc32.Checksum(chunk[:len(chunk)-len(rest)], castagnoli)
	switch {
	case binary.BigEndian.Uint32(rest) != sum:
		return kv.Record{}, nil, b.damagedRecord("its checksum does not match")
	case len(r.Key) == 0 || r.Key[0] == kv.ReservedPrefix:
		return kv.Record{}, nil, b.damagedRecord("no store can hold its key")
	case b.last != nil && bytes.Compare(b.last, r.Key) >= 0:
		return kv.Record{}, nil, b.damagedRecord("its key does not follow the one before it")
	}
	b.last = append(b.last[:0], r.Key...)
	b.totals.count(r)
	return r, rest[crc32.Size:], nil
}

// end reads what follows the last chunk.
func (b *Reader) end() error {
	var counted Totals
	if err := b.note("trailer", &counted); err != nil {
		return err
	}
	if counted.Records != b.totals.Records || counted.Bytes != b.totals.Bytes || !maps.Equal(counted.Kinds, b.totals.Kinds) {
		return b.damaged(fmt.Sprintf("its trailer counts %d records, but the file has %d", counted.Records, b.totals.Records))
	}
	sum := b.digest.Sum(nil)
	digest := make([]byte, len(sum))
	n, err := io.ReadFull(b.r, digest)
	b.offset += int64(n)
	if err != nil {
		return b.broken(err)
	}
	if !bytes.Equal(sum, digest) {
		return b.damaged("its digest does not match")
	}
	switch n, err := io.ReadFull(b.r, make([]byte, 1)); {
	case n > 0:
		return b.damaged("data follows its end")
	case !errors.Is(err, io.EOF):
		return err
	}
	b.whole = true
	return nil
}

// note reads a header or trailer.
func (b *Reader) note(what string, to any) error {
	size, err := b.number()
	if err != nil {
		return err
	}
	sum, err := b.number()
	if err != nil {
		return err
	}
	if size > noteSizeMax {
		return b.damaged("its " + what + " has an impossible length")
	}
	text, err := b.read(nil, int(size))
	if err != nil {
		return err
	}
	if crc32.Checksum(text, castagnoli) != sum {
		return b.damaged("the checksum of its " + what + " does not match")
	}
	if err := json.Unmarshal(text, to); err != nil {
		return b.damaged("its " + what + " cannot be read")
	}
	return nil
}

func (b *Reader) number() (uint32, error) {
	var raw [4]byte
	_, err := b.read(raw[:0], len(raw))
	return binary.BigEndian.Uint32(raw[:]), err
}

// read reads size bytes into the memory of into.
func (b *Reader) read(into []byte, size int) ([]byte, error) {
	if cap(into) < size {
		into = make([]byte, size)
	}
	into = into[:size]
	n, err := io.ReadFull(b.r, into)
	b.took(into[:n])
	if err != nil {
		return nil, b.broken(err)
	}
	return into, nil
}

func (b *Reader) took(p []byte) {
	b.digest.Write(p)
	b.offset += int64(len(p))
}

// broken returns the error for a failed read.
func (b *Reader) broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends at byte %d, before its end", ErrTruncated, b.offset)
	}
	return err
}

func (b *Reader) damaged(reason string) error {
	return fmt.Errorf("%w: before byte %d: %s", ErrDamaged, b.offset, reason)
}

// damagedRecord identifies a record by its number, because its key may name a person.
func (b *Reader) damagedRecord(reason string) error {
	return fmt.Errorf("%w: record %d, in the chunk before byte %d: %s", ErrDamaged, b.totals.Records+1, b.offset, reason)
}

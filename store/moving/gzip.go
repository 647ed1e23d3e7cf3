package moving

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// ErrBrokenGzip means that a file is cut off, damaged, or followed by something else.
var ErrBrokenGzip = errors.New("the gzip file is cut off or damaged")

// GzipReader unpacks a file and tells damage in it, [ErrBrokenGzip], from an error in
// reading it.
type GzipReader struct {
	unpacked *gzip.Reader
	file     *endReader
}

// NewGzipReader reads the header of a file. Errors: ErrBrokenGzip.
func NewGzipReader(file io.Reader) (*GzipReader, error) {
	g := &GzipReader{file: &endReader{r: file}}
	var err error
	g.unpacked, err = gzip.NewReader(g.file)
	return g, g.sorted(err)
}

func (g *GzipReader) Read(b []byte) (int, error) {
	n, err := g.unpacked.Read(b)
	return n, g.sorted(err)
}

func (g *GzipReader) sorted(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) || errors.Is(err, io.ErrUnexpectedEOF) && g.file.ended {
		return fmt.Errorf("%w: %w", ErrBrokenGzip, err)
	}
	return err
}

// endReader notes that all of r was read.
type endReader struct {
	r     io.Reader
	ended bool
}

func (e *endReader) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	e.ended = e.ended || errors.Is(err, io.EOF)
	return n, err
}

// fileFormats are formats in which people keep such files, by their first bytes.
var fileFormats = []struct{ begins, says string }{
	{"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first, for example with zstd -dc"},
	{"BZh", "compressed with bzip2; unpack it first, for example with bzip2 -dc"},
	{"\xfd7zXZ\x00", "compressed with xz; unpack it first, for example with xz -dc"},
	{"\x04\x22\x4d\x18", "compressed with lz4; unpack it first, for example with lz4 -dc"},
	{gzipMagic, "compressed with gzip; send it with Content-Encoding: gzip, or unpack it first"},
	{"PK\x03\x04", "a zip archive; unpack it first, for example with unzip -p"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"},
	{"PAR1", "a Parquet file; write it as one JSON object per line first"},
	{"\xff\xfe\x00\x00", utf32}, {"\x00\x00\xfe\xff", utf32}, {"{\x00\x00\x00", utf32}, {"\x00\x00\x00{", utf32},
	{"\xff\xfe", utf16Text}, {"\xfe\xff", utf16Text}, {"{\x00", utf16Text}, {"\x00{", utf16Text},
}

const (
	gzipMagic = "\x1f\x8b"

	utf16Text  = "text in UTF-16; convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8"
	utf32      = "text in UTF-32; convert it to UTF-8 first, for example with iconv -f UTF-32 -t UTF-8"
	formatHead = 8 // bytes that are enough to know the format
)

// formatOf names the format of a file that is not JSON in UTF-8, with the way out of it,
// or returns "".
func formatOf(head []byte) string {
	for _, f := range fileFormats {
		if bytes.HasPrefix(head, []byte(f.begins)) {
			return f.says
		}
	}
	return ""
}

package moving

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrLongLine means that a line is longer than the reader takes. It was skipped.
var ErrLongLine = errors.New("the line is too long")

// Reader splits a file into lines and counts its bytes. Its memory does not grow with the file
// or with a line.
type Reader struct {
	r      *bufio.Reader
	offset int64 // of the next line
}

// NewReader returns a Reader for lines of at most sizeMax bytes.
func NewReader(r io.Reader, sizeMax int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, sizeMax+len("\r\n"))}
}

// Open returns a Reader for the lines of [Parse] in a file, plain or compressed with gzip. Errors:
// [ErrBrokenGzip], those of r.
func Open(r io.Reader) (*Reader, error) {
	packed := bufio.NewReader(r)
	if magic, _ := packed.Peek(len(gzipMagic)); string(magic) != gzipMagic {
		return NewReader(packed, LineSizeMax), nil
	}
	unpacked, err := NewGzipReader(packed)
	if err != nil {
		return nil, err
	}
	return NewReader(unpacked, LineSizeMax), nil
}

// Format names the format of a file that is not text in UTF-8, with the way out of it, or
// returns "". Call it before the first Next.
func (l *Reader) Format() string {
	head, _ := l.r.Peek(formatHead)
	return formatOf(head)
}

// Offset returns where the next line begins in the unpacked file, in bytes.
func (l *Reader) Offset() int64 { return l.offset }

// Next returns the next line without its line end, valid until the next call, and its offset. It
// returns ErrLongLine for a line that is too long; io.EOF at the end; and any other error for a
// file that is cut off, without its incomplete last line.
func (l *Reader) Next() (line []byte, offset int64, err error) {
	offset = l.offset
	line, err = l.r.ReadSlice('\n')
	l.offset += int64(len(line))
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, offset, l.passOver()
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, offset, nil
	case err != nil:
		return nil, offset, err
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), offset, nil
}

func (l *Reader) passOver() error {
	for {
		rest, err := l.r.ReadSlice('\n')
		l.offset += int64(len(rest))
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return ErrLongLine
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

package term

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
)

// OpenInput opens a file for reading, and refuses a directory.
func OpenInput(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ByteOrderMark is U+FEFF in UTF-8. Editors on Windows write it at the start of a file.
const ByteOrderMark = "\ufeff"

// ErrUTF16 says that a text file is not in UTF-8.
var ErrUTF16 = errors.New("the file is UTF-16; save it as UTF-8")

// ReadText reads a text of at most sizeMax bytes. It skips a byte order mark, and returns
// [ErrUTF16] for UTF-16.
func ReadText(in io.Reader, sizeMax int64) ([]byte, error) {
	r := bufio.NewReader(in)
	if err := SkipByteOrderMark(r); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, sizeMax))
}

// SkipByteOrderMark is ReadText's look at the beginning of a text. It leaves an error of
// reading to the next read.
func SkipByteOrderMark(r *bufio.Reader) error {
	head, _ := r.Peek(len(ByteOrderMark))
	if isUTF16(head) {
		return ErrUTF16
	}
	if string(head) == ByteOrderMark {
		_, _ = r.Discard(len(head))
	}
	return nil
}

// isUTF16 recognizes the byte order marks, and ASCII characters without one.
func isUTF16(head []byte) bool {
	if len(head) < 2 {
		return false
	}
	return bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) || (head[0] == 0) != (head[1] == 0)
}

package encryption

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"tollhouse/store/backup"
)

// Form is what a file begins as. Names say nothing about it.
type Form int

// The forms of a file.
const (
	Plain   Form = iota
	Binary       // encrypted, as we write it
	Armored      // encrypted, as text
)

const (
	binaryMagic = "age-encryption.org/"
	// headSize is how much of a file tells its form.
	headSize = len(armor.Header)
	// headerSizeMax bounds the memory that the header of a hostile file takes. That of
	// RecipientsMax large keys has some 40 KB.
	headerSizeMax = 256 << 10
)

// FormOf returns the form of a file that begins with head. One that is cut off within its
// first bytes is what it began as.
func FormOf(head []byte) Form {
	begins := func(magic string) bool {
		return len(head) > 0 && strings.HasPrefix(magic, string(head[:min(len(head), len(magic))]))
	}
	switch {
	case begins(binaryMagic):
		return Binary
	case begins(armor.Header):
		return Armored
	}
	return Plain
}

var (
	// ErrNoIdentity means that none of the identities can decrypt a file.
	ErrNoIdentity = errors.New("none of the identities can decrypt it")
	// ErrPassphrase means that a file is encrypted with a passphrase.
	ErrPassphrase = errors.New("it is encrypted with a passphrase, which tollhouse does not support")
)

// NewWriter encrypts what is written to it. Only Close completes the file; it does not close w.
func NewWriter(w io.Writer, to *Recipients) (io.WriteCloser, error) {
	return age.Encrypt(w, to.keys...)
}

// Peek returns the form of what r has next, and a reader of it.
func Peek(r io.Reader) (Form, *bufio.Reader) {
	in := bufio.NewReaderSize(r, readSize)
	head, _ := in.Peek(headSize) // an error of reading is there at the next read
	return FormOf(head), in
}

const readSize = 64 << 10 // bytes per read

// NewReader decrypts a file of that form. Each chunk is authenticated before it is read, and
// only io.EOF says that the file is whole. Errors: ErrNoIdentity, ErrPassphrase,
// backup.ErrDamaged, and those of r.
func NewReader(r io.Reader, form Form, with Identities) (io.Reader, error) {
	in := &reader{source: &source{r: r, left: headerSizeMax}}
	plain, err := age.Decrypt(unarmored(in.source, form), with...)
	if err != nil {
		return nil, in.reason(err)
	}
	in.plain, in.source.left = plain, -1
	return in, nil
}

func unarmored(r io.Reader, form Form) io.Reader {
	if form == Armored {
		return armor.NewReader(r)
	}
	return r
}

// CountRecipients reads the header of a file of that form, and possibly more, and returns for
// how many recipients the file is encrypted. Errors: backup.ErrDamaged, and those of r.
func CountRecipients(r io.Reader, form Form) (int, error) {
	in := &reader{source: &source{r: r, left: headerSizeMax}}
	header, err := age.ExtractHeader(unarmored(in.source, form))
	if err != nil {
		return 0, in.reason(err)
	}
	n := 0
	for line := range bytes.Lines(header) {
		stanza, is := bytes.CutPrefix(line, []byte("-> "))
		kind, _, _ := bytes.Cut(bytes.TrimSpace(stanza), []byte(" "))
		if is && !bytes.HasSuffix(kind, []byte("-grease")) { // nobody's, so that readers expect such
			n++
		}
	}
	return n, nil
}

// reader is a decrypted file. It separates errors of reading from those of the file.
type reader struct {
	plain  io.Reader
	source *source
}

func (r *reader) Read(b []byte) (int, error) {
	n, err := r.plain.Read(b)
	if err != nil && err != io.EOF {
		err = r.reason(err)
	}
	return n, err
}

// reason returns why a file cannot be decrypted. Errors of age may show what it has.
func (r *reader) reason(err error) error {
	var none *age.NoIdentityMatchError
	switch {
	case r.source.err != nil:
		return r.source.err
	case errors.As(err, &none) && slices.Contains(none.StanzaTypes, "scrypt"):
		return ErrPassphrase
	case errors.As(err, &none):
		return ErrNoIdentity
	case r.plain == nil:
		return fmt.Errorf("%w: its encrypted header is cut off or changed", backup.ErrDamaged)
	}
	return fmt.Errorf("%w: its encrypted contents are cut off or changed", backup.ErrDamaged)
}

// source remembers a failure to read.
type source struct {
	r    io.Reader
	left int // bytes that may still be read; negative for any number
	err  error
}

func (s *source) Read(b []byte) (int, error) {
	if s.left >= 0 {
		b = b[:min(len(b), s.left)]
		if len(b) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n, err := s.r.Read(b)
	if s.left >= 0 {
		s.left -= n
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

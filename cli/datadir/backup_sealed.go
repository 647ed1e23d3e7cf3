package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"tollhouse/cli/term"
	"tollhouse/store/backup"
	"tollhouse/store/backup/encryption"
)

// The server has no key that decrypts a backup. So an encrypted one is checked on its way
// into the file, and the file is then read back and compared with what was written.

// EncryptBackup encrypts what write writes, and checks the same bytes. Only a good backup is
// completed.
func EncryptBackup(ctx context.Context, w io.Writer, to *encryption.Recipients, name string, write func(io.Writer) error) (CheckedBackup, error) {
	encrypted, err := encryption.NewWriter(w, to)
	if err != nil {
		return CheckedBackup{}, err
	}
	in, out := io.Pipe()
	var checked CheckedBackup
	var found error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		checked, found = ReadBackup(ctx, in, name, nil)
		in.CloseWithError(found) // for nil, what follows the end is an error too
	}()
	err = write(io.MultiWriter(encrypted, out))
	out.CloseWithError(err)
	<-ended
	switch {
	case found != nil && (err == nil || errors.Is(err, found)):
		return CheckedBackup{}, BrokenBackup(found)
	case err != nil:
		return CheckedBackup{}, err
	}
	checked.Encrypted = true
	return checked, encrypted.Close()
}

// SealedBackup is an encrypted backup that was checked without decrypting it, as --json shows
// it.
type SealedBackup struct {
	File       string `json:"file"`
	Encrypted  bool   `json:"encrypted"`
	Sealed     bool   `json:"sealed"`
	Recipients int    `json:"recipients"`
	Bytes      int64  `json:"bytes"` // size of the file
}

// CheckSealed reads an encrypted backup and compares it with the note that was written when it
// was made. It needs no identity, and says nothing about who can decrypt it.
func CheckSealed(ctx context.Context, in io.Reader, name string) (SealedBackup, error) {
	sum, note := newSum(ctx), ReadNote(name)
	form, all := encryption.Peek(io.TeeReader(in, sum))
	if form == encryption.Plain && note.Encrypted {
		return SealedBackup{}, BadBackup(name, fmt.Errorf("%w: its note says that it is encrypted, but it is not", backup.ErrDamaged))
	}
	if form == encryption.Plain {
		return SealedBackup{}, term.Usage("leave --sealed out", "%s is not an encrypted backup", name)
	}
	recipients, err := encryption.CountRecipients(all, form)
	if err == nil {
		_, err = io.Copy(io.Discard, all)
	}
	if err != nil {
		return SealedBackup{}, BadBackup(name, err)
	}
	switch {
	case note.SHA256 == "":
		return SealedBackup{}, term.Fail(term.ExitFailed, "check it with --identity FILE, or copy "+name+CheckedSuffix+" from where it was made", "%s has no note of its checksum, so it cannot be checked", name)
	case note.SHA256 != sum.text():
		return SealedBackup{}, BadBackup(name, fmt.Errorf("%w: its checksum differs from its note", backup.ErrDamaged))
	}
	return SealedBackup{File: name, Encrypted: true, Sealed: true, Recipients: recipients, Bytes: sum.bytes}, nil
}

// fileSum is the checksum and the size of a file, of which it takes no more once ctx is done.
type fileSum struct {
	hash.Hash
	ctx   context.Context
	bytes int64
}

func newSum(ctx context.Context) *fileSum { return &fileSum{Hash: sha256.New(), ctx: ctx} }

func (s *fileSum) Write(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	s.bytes += int64(len(b))
	return s.Hash.Write(b)
}

func (s *fileSum) text() string { return hex.EncodeToString(s.Sum(nil)) }

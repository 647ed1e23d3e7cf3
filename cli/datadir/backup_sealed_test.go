package datadir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/backup/encryption"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// sealedFixture is an encrypted backup at its name, with its note.
type sealedFixture struct {
	path string
	file []byte
	with encryption.Identities
	made CheckedBackup
}

func sealBackup(t *testing.T, events int) sealedFixture {
	t.Helper()
	f := storetest.New(t)
	storetest.Fill(t, f.Store, events)
	key := must.Get(age.GenerateX25519Identity())(t)
	to := must.Get(encryption.ParseRecipients([]string{key.Recipient().String()}))(t)
	s := sealedFixture{path: filepath.Join(t.TempDir(), "sealed"), with: must.Get(encryption.ParseIdentities(key.String()))(t)}
	file := must.Get(NewBackupFile(s.path))(t)
	defer file.Discard()
	must.Do(t, file.Take(t.Context(), to, func(w io.Writer) error {
		_, err := f.Backup(t.Context(), w, store.BackupNotes{Version: "test"})
		return err
	}))
	s.made = must.Get(file.Check(t.Context(), file))(t)
	must.Do(t, file.Publish())
	s.file = must.Get(os.ReadFile(s.path))(t)
	return s
}

// codes are what ReadBackup and CheckSealed say of a file in the place of the backup.
func (s sealedFixture) codes(t *testing.T, file []byte) (opened, sealed int) {
	t.Helper()
	code := func(err error) int {
		if err == nil {
			return term.ExitOK
		}
		return term.FailureOf(err).Code
	}
	_, err := ReadBackup(t.Context(), bytes.NewReader(file), s.path, s.with)
	_, sealedErr := CheckSealed(t.Context(), bytes.NewReader(file), s.path)
	return code(err), code(sealedErr)
}

// Promise (Guard §12): an encrypted backup with any bit flipped, cut at any byte, appended to, without
// its last chunk or joined to another is refused, with an identity and without
func TestEncryptedBackupDamagedAnywhere(t *testing.T) {
	t.Parallel()
	s := sealBackup(t, 1)
	if opened, sealed := s.codes(t, s.file); opened != term.ExitOK || sealed != term.ExitOK {
		t.Fatalf("whole: %d and %d, want 0", opened, sealed)
	}
	macLine := bytes.Index(s.file, []byte("\n--- "))
	stanza := bytes.Index(s.file, []byte("-> "))
	for at := range s.file {
		flipped := bytes.Clone(s.file)
		flipped[at] ^= 1 << (at % 8)
		opened, sealed := s.codes(t, flipped)
		inStanza := at >= stanza && at < macLine // age cannot tell it from another's
		if opened != term.ExitBadData && (!inStanza || opened != term.ExitNotAllowed) || sealed != term.ExitBadData {
			t.Errorf("bit %d of byte %d flipped: exit %d and sealed %d, want 65", at%8, at, opened, sealed)
		}
		if opened, sealed := s.codes(t, s.file[:at]); opened != term.ExitBadData || sealed != term.ExitBadData {
			t.Errorf("cut at byte %d: exit %d and sealed %d, want 65", at, opened, sealed)
		}
	}
	for name, file := range map[string][]byte{
		"a byte more": append(bytes.Clone(s.file), 0), "joined to itself": append(bytes.Clone(s.file), s.file...),
	} {
		if opened, sealed := s.codes(t, file); opened != term.ExitBadData || sealed != term.ExitBadData {
			t.Errorf("%s: exit %d and sealed %d, want 65", name, opened, sealed)
		}
	}
	large := sealBackup(t, 3000)
	const chunk = 64<<10 + 16
	payload := bytes.Index(large.file, []byte("\n--- ")) + len("\n--- ") + 43 + 1 + 16
	if len(large.file) < payload+2*chunk {
		t.Fatalf("%d bytes are too few", len(large.file))
	}
	whole := (len(large.file) - payload) / chunk
	for i := range whole + 1 {
		flipped := bytes.Clone(large.file)
		flipped[payload+i*chunk] ^= 1
		if opened, sealed := large.codes(t, flipped); opened != term.ExitBadData || sealed != term.ExitBadData {
			t.Errorf("chunk %d changed: exit %d and sealed %d, want 65", i, opened, sealed)
		}
		if opened, sealed := large.codes(t, large.file[:payload+i*chunk]); opened != term.ExitBadData || sealed != term.ExitBadData {
			t.Errorf("chunks from %d on dropped: exit %d and sealed %d, want 65", i, opened, sealed)
		}
	}
	if len(large.file) >= payload+2*chunk {
		swapped := bytes.Clone(large.file)
		copy(swapped[payload:], large.file[payload+chunk:payload+2*chunk])
		copy(swapped[payload+chunk:], large.file[payload:payload+chunk])
		if opened, _ := large.codes(t, swapped); opened != term.ExitBadData {
			t.Errorf("two chunks exchanged: exit %d, want 65", opened)
		}
	}
}

// Promise (Guard §10): --sealed compares an encrypted backup with its note; without the note it cannot
// tell whether the file is complete
func TestSealedCheckNeedsTheNote(t *testing.T) {
	t.Parallel()
	s := sealBackup(t, 1)
	note := ReadNote(s.path)
	want := BackupNote{Encrypted: true, SHA256: note.SHA256, Bytes: int64(len(s.file)), Instance: s.made.Instance, Created: s.made.Created, Records: s.made.Records}
	if note != want || len(note.SHA256) != 64 || !s.made.Encrypted || s.made.Records == 0 {
		t.Errorf("note = %+v of %+v", note, s.made)
	}
	checked := must.Get(CheckSealed(t.Context(), bytes.NewReader(s.file), s.path))(t)
	if want := (SealedBackup{File: s.path, Encrypted: true, Sealed: true, Recipients: 1, Bytes: int64(len(s.file))}); checked != want {
		t.Errorf("CheckSealed() = %+v, want %+v", checked, want)
	}
	must.Do(t, os.Remove(s.path+CheckedSuffix))
	_, err := CheckSealed(t.Context(), bytes.NewReader(s.file), s.path)
	if term.FailureOf(err).Code != term.ExitFailed || !strings.Contains(err.Error(), "so it cannot be checked") {
		t.Errorf("without its note: %v, want exit 1", err)
	}
}

// Promise (Guard §10): an encrypted backup is read back, and a disk that keeps something else is found
func TestEncryptedBackupIsReadBack(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	to := must.Get(encryption.ParseRecipients([]string{must.Get(age.GenerateX25519Identity())(t).Recipient().String()}))(t)
	file := must.Get(NewBackupFile(filepath.Join(t.TempDir(), "sealed")))(t)
	defer file.Discard()
	must.Do(t, file.Take(t.Context(), to, func(w io.Writer) error {
		_, err := f.Backup(t.Context(), w, store.BackupNotes{})
		return err
	}))
	size := must.Get(file.Size())(t)
	must.Get(file.WriteAt([]byte{0}, size-1))(t)
	if _, err := file.Check(t.Context(), file); err == nil || term.FailureOf(err).Code != term.ExitIO || !strings.Contains(err.Error(), "differs") {
		t.Errorf("a byte differs on the disk: %v, want exit 74", err)
	}
}

// Promise (Guard §10): each record is checked on its way into the encrypted file; a bad backup is never
// completed
func TestEncryptedBackupIsCheckedOnItsWay(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	var plain bytes.Buffer
	must.Get(f.Backup(t.Context(), &plain, store.BackupNotes{}))(t)
	key := must.Get(age.GenerateX25519Identity())(t)
	to := must.Get(encryption.ParseRecipients([]string{key.Recipient().String()}))(t)
	flipped := bytes.Clone(plain.Bytes())
	flipped[len(flipped)/2] ^= 1
	broken := errors.New("the source broke")
	for name, c := range map[string]struct {
		from io.Reader
		code int
		want error
	}{
		"flipped":   {bytes.NewReader(flipped), term.ExitIO, nil},
		"cut":       {bytes.NewReader(plain.Bytes()[:plain.Len()-1]), term.ExitIO, nil},
		"more":      {io.MultiReader(bytes.NewReader(plain.Bytes()), strings.NewReader("x")), term.ExitIO, nil},
		"broken":    {io.MultiReader(bytes.NewReader(plain.Bytes()[:50]), brokenReader{broken}), term.ExitFailed, broken},
		"cancelled": {io.MultiReader(bytes.NewReader(plain.Bytes()[:50]), brokenReader{context.Canceled}), term.ExitInterrupted, context.Canceled},
	} {
		var file bytes.Buffer
		_, err := EncryptBackup(t.Context(), &file, to, "it", func(w io.Writer) error { _, err := io.Copy(w, c.from); return err })
		if err == nil || term.FailureOf(err).Code != c.code || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want exit %d", name, err, c.code)
		}
		if _, err := ReadBackup(t.Context(), &file, "it", must.Get(encryption.ParseIdentities(key.String()))(t)); err == nil {
			t.Errorf("%s: the file is complete", name)
		}
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

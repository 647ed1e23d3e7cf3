package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// written returns a backup of the records, split into as many Adds.
func written(t testing.TB, records ...kv.Record) []byte {
	t.Helper()
	var file bytes.Buffer
	w := must.Get(NewWriter(&file, Header{Schema: 1, Instance: "i", Created: time.Unix(1_773_070_200, 0)}))(t)
	for _, r := range records {
		must.Do(t, w.Add([]kv.Record{r}))
	}
	must.Get(w.Close())(t)
	return file.Bytes()
}

// read returns the records of a backup, one per line.
func read(r io.Reader) (lines []string, err error) {
	b, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for r, err := range b.Records() {
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%q %q %d", r.Key, r.Value, r.ExpiresAt))
	}
	if _, whole := b.Totals(); !whole {
		return lines, errors.New("Records ended without an error, and the backup is not whole")
	}
	return lines, nil
}

// Promise (Backup): a backup is one file; verify checks every record and every index of it
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	var records []kv.Record
	var want []string
	for i := range 300 { // several chunks, of values that pack and of the largest
		r := kv.Record{Key: fmt.Appendf(nil, "k%04d", i), Value: bytes.Repeat([]byte{byte(i)}, i*220), ExpiresAt: int64(i)}
		records = append(records, r)
		want = append(want, fmt.Sprintf("%q %q %d", r.Key, r.Value, r.ExpiresAt))
	}
	got, err := read(bytes.NewReader(written(t, records...)))
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("read back %d records, %v, want %d", len(got), err, len(want))
	}
	if got, err := read(bytes.NewReader(written(t))); err != nil || len(got) != 0 {
		t.Errorf("an empty backup = %q, %v, want none", got, err)
	}
}

func TestWriterRefusesDisorder(t *testing.T) {
	t.Parallel()
	w := must.Get(NewWriter(io.Discard, Header{}))(t)
	if err := w.Add([]kv.Record{{Key: []byte("b")}, {Key: []byte("a")}}); err == nil {
		t.Error("Add(b, a) = nil, want a refusal")
	}
}

// note frames a header or trailer as the writer does.
func note(text string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	return append(binary.BigEndian.AppendUint32(b, crc32.Checksum([]byte(text), castagnoli)), text...)
}

// Promise (Backup): a backup is one file; verify checks every record and every index of it
func TestReaderRefusals(t *testing.T) {
	t.Parallel()
	whole := string(written(t, kv.Record{Key: []byte("k"), Value: []byte("v")}))
	frame := func(packed, unpacked uint32, rest string) string {
		b := []byte(magic + string(note(`{"format":1}`)))
		b = binary.BigEndian.AppendUint32(b, packed)
		b = binary.BigEndian.AppendUint32(b, unpacked)
		return string(binary.BigEndian.AppendUint32(b, crc32.Checksum([]byte(rest), castagnoli))) + rest
	}
	forged := func(records ...kv.Record) string { // in an order that the writer would refuse
		w := must.Get(NewWriter(io.Discard, Header{}))(t)
		var chunk []byte
		for _, r := range records {
			chunk = appendRecord(chunk, r)
		}
		packed := w.packer.EncodeAll(chunk, nil)
		return frame(uint32(len(packed)), uint32(len(chunk)), string(packed))
	}
	for _, c := range []struct {
		name, file string
		want       error
		text       string
	}{
		{"empty", "", ErrTruncated, "it is empty"},
		{"foreign", "PK\x03\x04", ErrForeign, ""},
		{"magic_alone", magic, ErrTruncated, "ends at byte 8"},
		{"header_too_long", magic + "\xff\xff\xff\xff\x00\x00\x00\x00", ErrDamaged, "impossible length"},
		{"header_that_is_no_json", magic + string(note("{")), ErrDamaged, "cannot be read"},
		{"header_without_a_format", magic + string(note("{}")), ErrDamaged, "has no format"},
		{"chunk_too_long", frame(1<<31, 5, "x"), ErrDamaged, "impossible length"},
		{"chunk_that_would_unpack_to_too_much", frame(1, 1<<31, "x"), ErrDamaged, "impossible length"},
		{"chunk_that_is_not_packed", frame(1, 5, "x"), ErrDamaged, "cannot be decompressed"},
		{"key_of_the_engine", forged(kv.Record{Key: []byte("!v")}), ErrDamaged, "no store can hold its key"},
		{"key_that_is_empty", forged(kv.Record{}), ErrDamaged, "no store can hold its key"},
		{"key_that_comes_twice", forged(kv.Record{Key: []byte("a")}, kv.Record{Key: []byte("a")}), ErrDamaged, "record 2"},
		{"key_too_long", forged(kv.Record{Key: make([]byte, kv.KeySizeMax+1)}), ErrDamaged, "impossible length"},
		{"trailing_bytes", whole + "x", ErrDamaged, "follows its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(strings.NewReader(c.file)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("read() = %v, want %v that says %q", err, c.want, c.text)
			}
		})
	}
	t.Run("newer_format_names_both", func(t *testing.T) {
		t.Parallel()
		var form *FormatError
		_, err := read(strings.NewReader(magic + string(note(`{"format":2}`))))
		if !errors.As(err, &form) || form.Found != 2 || !strings.Contains(err.Error(), "format 2, and this tollhouse knows up to 1") {
			t.Errorf("read(format 2) = %v, want a FormatError", err)
		}
	})
	t.Run("a_reader_that_fails_is_not_the_end", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("input/output error")
		if _, err := read(io.MultiReader(strings.NewReader(whole[:40]), failing{broken})); !errors.Is(err, broken) {
			t.Errorf("read() = %v, want %v", err, broken)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzReader: any input ends, takes no more memory than a chunk, and a file reported as
// whole can be written again to the same records.
func FuzzReader(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(written(f))
	f.Add(written(f, kv.Record{Key: []byte("a"), Value: []byte("1"), ExpiresAt: 7}, kv.Record{Key: []byte("b")}))
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		defer b.Close()
		var again bytes.Buffer
		w := must.Get(NewWriter(&again, b.Header))(t)
		for r, err := range b.Records() {
			if err != nil {
				return
			}
			must.Do(t, w.Add([]kv.Record{r}))
		}
		totals, whole := b.Totals()
		if !whole {
			t.Fatal("Records ended without an error, and the backup is not whole")
		}
		if got, err := w.Close(); err != nil || got.Records != totals.Records {
			t.Errorf("written again: %d records, %v, want %d", got.Records, err, totals.Records)
		}
		if _, err := read(&again); err != nil {
			t.Errorf("what was written again: %v", err)
		}
	})
}

package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Bytes that no Encoder writes are damage. A reader that accepted them would return a record
// that was never written.
func TestDecoderRefusesWhatNoEncoderWrites(t *testing.T) {
	t.Parallel()
	const version = 1
	number := func(d *record.Decoder) { d.Uint() }
	for name, c := range map[string]struct {
		read  func(*record.Decoder)
		value []byte
		sound bool
	}{
		"a_number":                      {number, []byte{0x81, 0x01}, true},
		"a_number_in_a_longer_form":     {number, []byte{0x81, 0x80, 0x00}, false},
		"a_zero_in_a_longer_form":       {number, []byte{0x80, 0x00}, false},
		"a_number_without_an_end":       {number, []byte{0x80}, false},
		"a_number_past_64_bits":         {number, bytes.Repeat([]byte{0xff}, 11), false},
		"yes":                           {func(d *record.Decoder) { d.Bool() }, []byte{1}, true},
		"neither_yes_nor_no":            {func(d *record.Decoder) { d.Bool() }, []byte{2}, false},
		"a_time":                        {func(d *record.Decoder) { d.Time() }, binary.AppendUvarint(nil, 1_773_070_200_000), true},
		"a_time_past_all_times":         {func(d *record.Decoder) { d.Time() }, binary.AppendUvarint(nil, math.MaxInt64), false},
		"a_text":                        {func(d *record.Decoder) { d.Str() }, []byte("\x02ab"), true},
		"a_text_that_ends_too_early":    {func(d *record.Decoder) { d.Str() }, []byte("\x03ab"), false},
		"more_texts_than_bytes":         {func(d *record.Decoder) { d.Strs() }, []byte("\x09\x01a"), false},
		"an_id_that_ends_too_early":     {func(d *record.Decoder) { d.ID() }, make([]byte, 15), false},
		"bytes_after_the_last_field":    {number, []byte{1, 0}, false},
		"nothing_where_a_value_belongs": {number, nil, false},
	} {
		d := record.NewDecoder("sample", version, append([]byte{version}, c.value...))
		c.read(&d)
		if err := d.Done(); errors.Is(err, kv.ErrCorrupt) == c.sound || (err == nil) != c.sound {
			t.Errorf("%s: %v, want it sound: %t", name, err, c.sound)
		}
	}
	d := record.NewDecoder("sample", version, []byte{version, 2})
	if d.Bool(); d.Uint() != 0 || d.Str() != "" || !d.Time().Equal(time.Time{}) || d.Byte() != 0 {
		t.Error("a field after a damaged one has a value")
	}
}

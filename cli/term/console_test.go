package term

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// TestMessagesAreOneLine: a line break in a message is somebody else's, and escaped. Ours
// separate errors that were joined.
//
// Promise (RFC 9110, RFC 9112): a line break in a backup, an import, a seed or another file is
// escaped in every message
func TestMessagesAreOneLine(t *testing.T) {
	t.Parallel()
	name := "x\ntollhouse: hint: y\r\x1b[2K\u202e\x9b"
	const shown = `x\ntollhouse: hint: y\r\u001b[2K\u202e\x9b`
	plain := errors.New("disk full")
	for _, c := range []struct {
		name string
		say  func(c *Console)
		want string
	}{
		{"error", func(c *Console) { c.Report(Fail(1, "see "+name, "%s is wrong", name)) }, "tollhouse: error: " + shown + " is wrong\ntollhouse: hint: see " + shown + "\n"},
		{"wrapped_error", func(c *Console) { c.Report(fmt.Errorf("read: %w", errors.New(name))) }, "tollhouse: error: read: " + shown + "\n"},
		{"joined_errors", func(c *Console) { c.Report(errors.Join(plain, errors.Join(errors.New(name), plain))) }, "tollhouse: error: disk full; " + shown + "; disk full\n"},
		{"errors_of_one_format", func(c *Console) { c.Report(fmt.Errorf("%w and %w", plain, plain)) }, "tollhouse: error: disk full and disk full\n"},
		{"note", func(c *Console) { c.Note("%s has %d\nlines: %v", name, 2, errors.New(name)) }, "tollhouse: " + shown + " has 2\nlines: " + shown + "\n"},
		{"result", func(c *Console) { _ = c.Done(nil, "%s is done in %d ms", name, 3) }, shown + " is done in 3 ms\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c.say(&Console{Out: &out, Err: &out})
			if out.String() != c.want {
				t.Errorf("printed %q, want %q", out.String(), c.want)
			}
		})
	}
}

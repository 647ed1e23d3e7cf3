package term

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is a terminal to write on. Everything passes Visible: results, errors,
// notes and the log. Our own control sequences go to the file directly.
type screen struct {
	file *os.File
	mu   sync.Mutex
	part []byte // the beginning of a character whose rest was not written yet
}

// Escaped returns w, or for a terminal a writer that escapes control characters.
func Escaped(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && IsTerminal(f) {
		return &screen{file: f}
	}
	return w
}

func (t *screen) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := append(t.part, b...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if begins := text[len(text)-back:]; utf8.RuneStart(begins[0]) && !utf8.FullRune(begins) {
			whole -= back
			break
		}
	}
	t.part = bytes.Clone(text[whole:])
	if _, err := t.file.Write(appendVisible(nil, string(text[:whole]), "\n\t")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// fileOf returns the file behind a stream.
func fileOf(stream any) (*os.File, bool) {
	if t, ok := stream.(*screen); ok {
		return t.file, true
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Visible makes text from others safe to show on one line of a terminal. Control
// characters (C0, DEL, C1), bidirectional marks and invisible characters become JSON
// escapes, so that JSON keeps its meaning.
func Visible(text string) string { return string(appendVisible(nil, text, "")) }

// appendVisible is Visible, except that the controls in kept stay.
func appendVisible(b []byte, text, kept string) []byte {
	for i, r := range text {
		switch {
		case unicode.IsGraphic(r) && !isUnseen(r):
			if r == utf8.RuneError && text[i] != "\ufffd"[0] { // no UTF-8, and a C1 control to some terminals
				b = append(append(b, `\x`...), strconv.FormatUint(uint64(text[i]), 16)...)
				continue
			}
			b = utf8.AppendRune(b, r)
		case r < utf8.RuneSelf && strings.IndexByte(kept, byte(r)) >= 0:
			b = append(b, byte(r))
		default:
			b = appendEscape(b, r)
		}
	}
	return b
}

// isUnseen reports whether r is a letter or a mark that shows nothing. Variation
// selectors are not among them: they choose how an emoji looks.
func isUnseen(r rune) bool { return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) }

// appendEscape appends r as JSON escapes it (RFC 8259 §7).
func appendEscape(b []byte, r rune) []byte {
	if at := strings.IndexRune("\b\f\n\r\t", r); at >= 0 {
		return append(b, '\\', "bfnrt"[at])
	}
	units := []uint16{uint16(r)}
	if r > 0xffff {
		units = utf16.Encode([]rune{r})
	}
	for _, u := range units {
		b = append(b, `\u`...)
		b = append(b, strconv.FormatUint(1<<16|uint64(u), 16)[1:]...)
	}
	return b
}

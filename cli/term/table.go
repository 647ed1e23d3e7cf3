package term

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// A table fits the terminal. Columns that do not fit move to an indented line
// below, in the head and in every row; a text longer than a line wraps. Nothing is
// cut off, because ids are copied. A file or pipe gets each row on one line.

const (
	columnGap  = 2 // spaces between two columns
	bandIndent = 2 // spaces before the columns that continue below
)

// Table prints a list for people. Its head appears with the first row.
type Table struct {
	w      io.Writer
	head   []string
	rows   [][]string
	headed bool

	Widths []int // of the columns, in cells; they only grow
	Breaks int   // the column whose texts may wrap to make room, counted from 1; 0 for none
}

// NewTable returns a table that prints to c.Out.
func (c *Console) NewTable(head ...string) *Table {
	return &Table{w: c.Out, head: head, Widths: make([]int, len(head))}
}

// Add adds a row. Its cells may hold text from others: it is made visible.
func (t *Table) Add(cells ...string) {
	for i, cell := range cells {
		cells[i] = Visible(cell)
	}
	t.rows = append(t.rows, cells)
}

// Flush prints the rows added since the last Flush.
func (t *Table) Flush() error {
	rows := t.rows
	if len(rows) == 0 {
		return nil
	}
	if !t.headed {
		rows = append([][]string{t.head}, rows...)
	}
	t.headed, t.rows = true, nil
	for _, cells := range rows {
		for i, cell := range cells {
			t.Widths[i] = max(t.Widths[i], Cells(cell))
		}
	}
	limit := widthOf(t.w)
	_, err := t.w.Write(layOut(rows, t.narrowed(limit), limit))
	return err
}

const brokenMin = 16 // cells that a text must keep next to the others to be read

// narrowed returns the widths with the Breaks column narrowed to fit.
func (t *Table) narrowed(limit int) []int {
	widths := slices.Clone(t.Widths)
	if t.Breaks == 0 || limit == 0 {
		return widths
	}
	room, at := limit, t.Breaks-1
	for i, w := range widths {
		if i != at {
			room -= w + columnGap
		}
	}
	if room >= brokenMin {
		widths[at] = min(widths[at], room)
	}
	return widths
}

// Row is a name and its value.
type Row [2]string

// PrintRows prints the properties of one thing.
func (c *Console) PrintRows(rows ...Row) error {
	widths, lines := make([]int, 2), make([][]string, len(rows))
	for i, r := range rows {
		lines[i] = []string{Visible(r[0]), Visible(r[1])}
		for j, cell := range lines[i] {
			widths[j] = max(widths[j], Cells(cell))
		}
	}
	if room := widthOf(c.Out) - widths[0] - columnGap; room > widths[0] { // next to its name, unless that is too narrow to read
		widths[1] = min(widths[1], room)
	}
	_, err := c.Out.Write(layOut(lines, widths, widthOf(c.Out)))
	return err
}

// widthOf returns the width of the terminal w, or 0 when w is not one.
func widthOf(w io.Writer) int {
	f, ok := fileOf(w)
	if !ok || !IsTerminal(f) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// layOut arranges rows in columns, on lines no wider than limit.
func layOut(rows [][]string, widths []int, limit int) []byte {
	var b bytes.Buffer
	bands := bandsOf(widths, limit)
	for _, cells := range rows {
		for i, columns := range bands {
			indent := 0
			if i > 0 {
				indent = bandIndent
			}
			layBand(&b, cells[columns.from:columns.to], widths[columns.from:columns.to], indent, limit)
		}
	}
	return b.Bytes()
}

// band is a range of adjacent columns: [from, to).
type band struct{ from, to int }

func bandsOf(widths []int, limit int) (bands []band) {
	current, used := band{}, 0
	for i, w := range widths {
		if limit > 0 && i > current.from && used+columnGap+w > limit {
			bands = append(bands, current)
			current, used = band{from: i}, bandIndent
		}
		if i > current.from {
			used += columnGap
		}
		used += w
		current.to = i + 1
	}
	return append(bands, current)
}

// layBand writes the cells of one band, on as many lines as the longest needs.
func layBand(b *bytes.Buffer, cells []string, widths []int, indent, limit int) {
	texts, lines := make([][]string, len(cells)), 1
	for i, cell := range cells {
		room := widths[i]
		if limit > 0 {
			room = max(min(room, limit-indent), 1)
		}
		texts[i] = wrap(cell, room)
		lines = max(lines, len(texts[i]))
	}
	for line := range lines {
		text := strings.Repeat(" ", indent)
		for i := range cells {
			cell := ""
			if line < len(texts[i]) {
				cell = texts[i][line]
			}
			text += cell + strings.Repeat(" ", max(widths[i]-Cells(cell), 0)+columnGap)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// wrap breaks text into lines of at most room cells, at spaces if possible.
func wrap(text string, room int) (lines []string) {
	for Cells(text) > room {
		used, end, space := 0, 0, -1
		for at, r := range text {
			if r == ' ' && at > 0 {
				space = at
			}
			if used += cellsOfRune(r); used > room && at > 0 {
				break
			}
			end = at + len(string(r))
		}
		if space > 0 {
			lines, text = append(lines, text[:space]), text[space+1:]
			continue
		}
		lines, text = append(lines, text[:end]), text[end:]
	}
	return append(lines, text)
}

// Cells returns the number of terminal cells that text takes.
func Cells(text string) (n int) {
	for _, r := range text {
		n += cellsOfRune(r)
	}
	return n
}

func cellsOfRune(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

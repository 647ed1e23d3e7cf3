package cli

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// A table fits the terminal. Columns that have no room beside the others go on
// a line of their own below, set in, head and rows alike; a text that is longer
// than a line goes on in the next. Nothing is cut off: an id is there to be
// copied. What is no terminal gets each row on one line, however long.

const (
	columnGap  = 2 // spaces between two columns
	bandIndent = 2 // spaces before the columns that go on below
)

// table shows a list to a person; its head appears with the first line.
type table struct {
	w      io.Writer
	head   []string
	widths []int // of the columns, in cells of the terminal; they only grow
	rows   [][]string
	headed bool
	breaks int // the column whose texts may be broken to make room, counted from 1; 0 for none
}

func (p *program) newTable(head ...string) *table {
	return &table{w: p.stdout, head: head, widths: make([]int, len(head))}
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// flush prints what was added since the last time.
func (t *table) flush() error {
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
			t.widths[i] = max(t.widths[i], cellsOf(cell))
		}
	}
	limit := widthOf(t.w)
	_, err := t.w.Write(layOut(rows, t.narrowed(limit), limit))
	return err
}

const brokenMin = 16 // cells that a text must keep beside the others to be read

// narrowed are the widths when one column gives way for the others.
func (t *table) narrowed(limit int) []int {
	widths := slices.Clone(t.widths)
	if t.breaks == 0 || limit == 0 {
		return widths
	}
	room, at := limit, t.breaks-1
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

// row is a name and its value in what is shown of one thing.
type row struct{ name, value string }

// printRows shows one thing to a person.
func (p *program) printRows(rows ...row) error {
	widths, lines := make([]int, 2), make([][]string, len(rows))
	for i, r := range rows {
		lines[i] = []string{r.name, r.value}
		widths[0] = max(widths[0], cellsOf(r.name))
		widths[1] = max(widths[1], cellsOf(r.value))
	}
	if room := widthOf(p.stdout) - widths[0] - columnGap; room > widths[0] { // beside its name, if that is not too narrow to be read
		widths[1] = min(widths[1], room)
	}
	_, err := p.stdout.Write(layOut(lines, widths, widthOf(p.stdout)))
	return err
}

// widthOf is the width of the terminal that w is, or 0 for no bound.
func widthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// layOut sets rows into columns of those widths, on lines no wider than limit.
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

// band is columns that stand beside each other: [from, to).
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
			text += cell + strings.Repeat(" ", max(widths[i]-cellsOf(cell), 0)+columnGap)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// wrap breaks a text into lines of at most that many cells, at spaces where
// there are some.
func wrap(text string, room int) (lines []string) {
	for cellsOf(text) > room {
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

// cellsOf is how many cells of a terminal a text takes.
func cellsOf(text string) (n int) {
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

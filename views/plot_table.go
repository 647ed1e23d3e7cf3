package views

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/a-h/templ"
)

// A drawnRow has the values of a bucket.
type drawnRow struct {
	At    int64
	Label string
	Href  string // the events of that time; may be empty
	Cells []drawnCell
}

// A drawnCell is a value: a count as text, anything else with its base unit.
type drawnCell struct{ Text, Data string }

// addColumns adds the values of series to the table.
func (p *drawing) addColumns(plots Plots, series []Series) {
	if p.Rows == nil {
		for i, start := range plots.Starts {
			p.Rows = append(p.Rows, drawnRow{At: start.Unix(), Label: plots.rowName(i)})
		}
	}
	for _, s := range series {
		for i, value := range s.Values {
			p.Rows[i].Cells = append(p.Rows[i].Cells, s.cell(value))
		}
		total := drawnCell{Text: "–"}
		if s.Unit == unitCount {
			total.Text = grouped(s.Total)
		}
		p.Totals = append(p.Totals, total)
	}
}

func (s Series) cell(value Value) drawnCell {
	switch {
	case !value.Known:
		return drawnCell{Text: "–"}
	case s.Unit == unitCount:
		return drawnCell{Text: grouped(value.Number)}
	}
	data := strings.Replace(strconv.FormatFloat(value.Number, 'g', 3, 64), "e+0", "e", 1)
	return drawnCell{Text: s.show(value.Number), Data: strings.TrimPrefix(data, "0")}
}

// link leads from each bucket to its events.
func (p *drawing) link(plots Plots, eventsURL string) {
	for i := range p.Rows {
		if eventsURL == "" {
			return
		}
		end := p.To
		if i+1 < len(p.Rows) {
			end = p.Rows[i+1].At
		}
		p.Rows[i].Href = fmt.Sprintf("%s&from=%d&to=%d", eventsURL, p.Rows[i].At, end-1)
	}
}

// hits says of each bucket how many there were, and how many in the range before.
func (d *plotDrawing) hits(counts, before []float64) {
	for i, count := range counts {
		now := grouped(count)
		if count == 0 && d.plots.isMissed(i) {
			now = "–"
		}
		d.Hits = append(d.Hits, fmt.Sprintf("%s %s, was %s", d.plots.rowName(i), now, grouped(before[i])))
	}
}

// plotRows writes the rows of the table without the end tags that HTML does not need, and
// attributes without the quotes: a page of all plots is 6 KB smaller.
func plotRows(page Page, p drawing) templ.Component {
	return written(func(b *strings.Builder) {
		b.WriteString("<tbody>")
		for _, row := range p.Rows {
			label := row.Label
			if row.Href != "" {
				label = `<a href="` + templ.EscapeString(page.at(row.Href)) + `">` + label + "</a>"
			}
			fmt.Fprintf(b, "<tr data-at=%d><th>%s", row.At, label)
			writeCells(b, row.Cells)
		}
		b.WriteString("<tfoot><tr data-total><th>Total")
		writeCells(b, p.Totals)
	})
}

func writeCells(b *strings.Builder, cells []drawnCell) {
	for _, c := range cells {
		if b.WriteString("<td>"); c.Data != "" {
			fmt.Fprintf(b, "<data value=%s>%s</data>", c.Data, c.Text)
		} else {
			b.WriteString(c.Text)
		}
	}
}

// plotPaths writes what is drawn, as short. All of it is ours.
func plotPaths(p drawnPart) templ.Component {
	return written(func(b *strings.Builder) {
		for _, path := range p.Paths {
			fmt.Fprintf(b, `<path class="%s" d="%s"/>`, path.Class, path.D)
		}
		for i, text := range p.Hits {
			fmt.Fprintf(b, `<rect x="%d"><title>%s</title></rect>`, bucketWide*i, text)
		}
	})
}

func written(write func(b *strings.Builder)) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		var b strings.Builder
		write(&b)
		_, err := io.WriteString(w, b.String())
		return err
	})
}

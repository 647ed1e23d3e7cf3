package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

//go:embed page.md
var pageText string

// page is docs/internals/reliability.md.
func page(rows []row, runs []run) string {
	var described strings.Builder
	for _, r := range rows {
		r.describe(&described, runs)
	}
	return strings.NewReplacer(
		"{{overview}}", glance(rows, runs),
		"{{machines}}", machines(runs),
		"{{missed}}", missedGoals(rows, runs),
		"{{unexplained}}", unexplained(runs),
		"{{rows}}\n", described.String(),
		"{{failed}}", failures(runs),
		"{{left out}}\n", timesLeftOut(rows, runs),
	).Replace(pageText)
}

// glance is a table of the rows, with how many goals each has met.
func glance(rows []row, runs []run) string {
	text := newTable("", "promise", "goals met", "not yet", "missed", "runs", "failed runs")
	for _, r := range rows {
		of, all, failed := map[string]int{}, 0, 0
		for _, p := range r.parts {
			figures := p.total(runs)
			for _, f := range p.figures {
				of[f.verdict(figures)]++
			}
			for _, done := range ofPart(runs, p.name) {
				if all++; done.Failed != "" {
					failed++
				}
			}
		}
		text.row(r.id, r.promise, fmt.Sprint(of[met]), fmt.Sprint(of[notYet]+of[notRun]), bold(of[missed]), fmt.Sprint(all), fmt.Sprint(failed))
	}
	return text.String()
}

// machines says where all runs were made.
func machines(runs []run) string {
	var all []string
	for _, r := range runs {
		if !slices.Contains(all, r.Machine) {
			all = append(all, r.Machine)
		}
	}
	return "Machine: " + strings.Join(all, " and ") + "."
}

// missedGoals lists them with the reasons that the rows give.
func missedGoals(rows []row, runs []run) string {
	text := newTable("", "figure", "measured", "goal", "why")
	for _, r := range rows {
		for _, p := range r.parts {
			figures := p.total(runs)
			for _, f := range p.figures {
				if f.verdict(figures) == missed {
					text.row(r.id, p.name+": "+f.label, number(figures[f.name]), string(f.goal), cmp.Or(p.why[f.name], "Not known yet."))
				}
			}
		}
	}
	return text.or("None.\n")
}

// unexplained lists the failed runs whose cause is not known.
func unexplained(runs []run) string {
	var text strings.Builder
	for _, r := range runs {
		if r.Failed != "" && !r.explained() {
			fmt.Fprintf(&text, "- %s, %s on `%s`. %s\n", r.Part, r.Date.Format(time.DateTime), r.Commit, cmp.Or(r.Because, "Nothing was found yet."))
		}
	}
	return cmp.Or(text.String(), "Nothing.\n")
}

func (r row) describe(text *strings.Builder, runs []run) {
	fmt.Fprintf(text, "## %s: %s\n", r.id, r.promise)
	if r.note != "" {
		fmt.Fprintf(text, "\n%s\n", r.note)
	}
	for _, p := range r.parts {
		own, figures := ofPart(runs, p.name), p.total(runs)
		fmt.Fprintf(text, "\n**%s**: %s\n\n`%s`\n\n", p.name, sources(own), p.shown())
		table := newTable("figure", "measured", "goal", "")
		for _, f := range p.figures {
			measured := "–"
			if value, has := figures[f.name]; has {
				measured = number(value)
			}
			table.row(f.label+f.lastOf(own), measured+p.besides(f, own), string(f.goal), f.verdict(figures))
		}
		text.WriteString(table.String())
	}
	text.WriteString("\n")
}

// besides names what failed runs measured beyond a goal, which the total leaves out.
func (p part) besides(f figure, own []run) string {
	var values []string
	for _, r := range own {
		if value, has := r.Figures[f.name]; has && r.Failed != "" && f.verdict(r.Figures) == missed {
			values = append(values, number(value))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "; in failed runs " + strings.Join(values, ", ")
}

// lastOf marks a figure that is not of all runs.
func (f figure) lastOf(own []run) string {
	if f.over == latest && len(own) > 1 {
		return " (last run)"
	}
	return ""
}

const (
	met    = "met"
	notYet = "not yet" // more runs add to it
	notRun = "not run"
	missed = "**missed**"
)

// verdict says whether the goal is met, or nothing if there is no goal.
func (f figure) verdict(figures map[string]float64) string {
	value, has := figures[f.name]
	switch {
	case f.goal == "":
		return ""
	case !has:
		return notRun
	case f.goal.met(value):
		return met
	case f.over == sum && strings.HasPrefix(string(f.goal), "≥"):
		return notYet
	}
	return missed
}

// sources says how often, how long and on which commits the runs were made.
func sources(runs []run) string {
	if len(runs) == 0 {
		return "not run"
	}
	seconds, failed, rest := 0, 0, ""
	var commits []string
	for _, r := range runs {
		seconds += r.Seconds
		if r.Skipped != "" {
			rest = "; skipped here: " + r.Skipped
		}
		if r.Failed != "" {
			failed++
		}
		if name := "`" + r.Commit + "`"; len(commits) == 0 || commits[len(commits)-1] != name {
			commits = append(commits, name)
		}
	}
	if failed > 0 {
		rest += fmt.Sprintf("; **%d failed**", failed)
	}
	dates := runs[0].Date.Format(time.DateOnly)
	if last := runs[len(runs)-1].Date.Format(time.DateOnly); last != dates {
		dates += " to " + last
	}
	return fmt.Sprintf("%s in %s, %s, %s%s", count(len(runs), "run"), span(seconds), dates, strings.Join(commits, " "), rest)
}

// failures lists what was wrong when a run failed, and what changed.
func failures(runs []run) string {
	text := newTable("date (UTC)", "commit", "part", "at fault", "what was wrong, and what changed")
	for _, r := range runs {
		if r.Failed != "" {
			text.row(r.Date.Format(time.DateTime), "`"+r.Commit+"`", r.Part, cmp.Or(r.Fault, "not known"), cmp.Or(r.Because, "Nothing was found yet."))
		}
	}
	return text.or("None.\n")
}

// timesLeftOut shows the figures with goals of runs whose times and sizes are not in the
// tables.
func timesLeftOut(rows []row, runs []run) string {
	text := newTable("date (UTC)", "commit", "part", "why", "measured")
	for _, r := range rows {
		for _, p := range r.parts {
			for _, done := range ofPart(runs, p.name) {
				if done.LeftOut == "" {
					continue
				}
				var measured []string
				for _, f := range p.figures {
					if value, has := done.Figures[f.name]; has && f.over != sum && f.goal != "" {
						measured = append(measured, f.label+" "+number(value))
					}
				}
				text.row(done.Date.Format(time.DateTime), "`"+done.Commit+"`", p.name, done.LeftOut, strings.Join(measured, "; "))
			}
		}
	}
	return text.or("None.\n")
}

// overview is what --list prints.
func overview(rows []row, runs []run) string {
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&text, "%-4s %s\n", r.id, r.promise)
		for _, p := range r.parts {
			figures := p.total(runs)
			fmt.Fprintf(&text, "     %s\n", p.name)
			for _, f := range p.figures {
				measured := "–"
				if value, has := figures[f.name]; has {
					measured = number(value)
				}
				fmt.Fprintf(&text, "       %-45s %12s  %-10s %s\n", f.label, measured, f.goal, strings.Trim(f.verdict(figures), "*"))
			}
		}
	}
	return text.String()
}

// mdTable is a table in Markdown.
type mdTable struct {
	strings.Builder
	rows int
}

func newTable(heads ...string) *mdTable {
	t := &mdTable{rows: -2}
	t.row(heads...)
	t.row(slices.Repeat([]string{"---"}, len(heads))...)
	return t
}

func (t *mdTable) row(cells ...string) {
	t.rows++
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// or returns the table, or none when it has no rows.
func (t *mdTable) or(none string) string {
	if t.rows == 0 {
		return none
	}
	return t.String()
}

func bold(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("**%d**", n)
}

func span(seconds int) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%d s", seconds)
	case seconds < 120*60:
		return fmt.Sprintf("%d min", (seconds+30)/60)
	}
	return fmt.Sprintf("%.1f h", float64(seconds)/3600)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

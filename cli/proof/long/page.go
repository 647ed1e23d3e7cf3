package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed page.md
var pageHead string

// page is docs/reliability.md.
func page(rows []row, runs []run) string {
	var text strings.Builder
	text.WriteString(pageHead)
	text.WriteString(glance(rows, runs))
	for _, r := range rows {
		fmt.Fprintf(&text, "\n## %s: %s\n", r.id, r.promise)
		if r.note != "" {
			fmt.Fprintf(&text, "\n%s\n", r.note)
		}
		for _, p := range r.parts {
			p.describe(&text, runs)
		}
	}
	text.WriteString("\n## Every run\n\nA plus sign says that files differed from the commit.\n\n| date (UTC) | commit | part | time | result |\n|---|---|---|---|---|\n")
	for _, r := range runs {
		fmt.Fprintf(&text, "| %s | `%s` | %s | %s | %s |\n", r.Date.Format(time.DateTime), r.Commit, r.Part, span(r.Seconds), r.result())
	}
	text.WriteString(failures(rows, runs))
	text.WriteString(mended(rows, runs))
	return text.String()
}

// glance is a table of the rows, with how many goals each has met.
func glance(rows []row, runs []run) string {
	var text strings.Builder
	text.WriteString("\n| | promise | goals met | not yet | missed | runs | of them failed |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		of, all, failed := map[string]int{}, 0, 0
		for _, p := range r.parts {
			figures := p.total(runs)
			for _, f := range p.figures {
				value, has := figures[f.name]
				if f.goal != "" && !has {
					of[notYet]++
				} else {
					of[f.verdict(value)]++
				}
			}
			for _, done := range ofPart(runs, p.name) {
				if all++; done.Failed != "" {
					failed++
				}
			}
		}
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %d | %d | %d |\n", r.id, r.promise, of[met], of[notYet], of[missed], all, failed)
	}
	return text.String()
}

// describe writes the table of a part.
func (p part) describe(text *strings.Builder, runs []run) {
	own, figures := ofPart(runs, p.name), p.total(runs)
	fmt.Fprintf(text, "\n**%s**: %s\n\n`%s`\n\n| figure | measured | goal | |\n|---|---|---|---|\n", p.name, sources(own), p.shown())
	for _, f := range p.figures {
		value, has := figures[f.name]
		measured, verdict := "–", "not run"
		if has {
			measured, verdict = number(value), f.verdict(value)
		}
		fmt.Fprintf(text, "| %s | %s | %s | %s |\n", f.label, measured, f.goal, verdict)
	}
}

const (
	met    = "met"
	notYet = "not yet" // more runs add to it
	missed = "**missed**"
)

func (f figure) verdict(value float64) string {
	switch {
	case f.goal == "":
		return ""
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
	var commits, machines []string
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
		if !slices.Contains(machines, r.Machine) {
			machines = append(machines, r.Machine)
		}
	}
	if failed > 0 {
		rest += fmt.Sprintf("; **%d failed**, see the end", failed)
	}
	return fmt.Sprintf("%s in %s, %s to %s, %s, %s%s", count(len(runs), "run"), span(seconds), runs[0].Date.Format(time.DateOnly), runs[len(runs)-1].Date.Format(time.DateOnly),
		strings.Join(commits, " "), strings.Join(machines, " and "), rest)
}

func (r run) result() string {
	switch {
	case r.Failed != "":
		return "**failed**"
	case r.Skipped != "":
		return "skipped"
	case r.Mended != "":
		return "passed; times left out"
	}
	return "passed"
}

// failures shows what failed runs printed, what they missed, and what came of it.
func failures(rows []row, runs []run) string {
	var text strings.Builder
	for _, r := range runs {
		if r.Failed == "" {
			continue
		}
		fmt.Fprintf(&text, "\n**%s**, %s on `%s`. %s\n\n```\n%s\n```\n", r.Part, r.Date.Format(time.DateTime), r.Commit,
			cmp.Or(r.Because, "Not explained yet."), strings.TrimSpace(emptyHeading.ReplaceAllString(r.Failed, "")))
		for _, f := range figuresOf(rows, r.Part) {
			if value, has := r.Figures[f.name]; has && f.verdict(value) == missed {
				fmt.Fprintf(&text, "\nIt measured %s: %s, goal %s.\n", f.label, number(value), f.goal)
			}
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "\n## What failed\n" + text.String()
}

func figuresOf(rows []row, part string) []figure {
	for _, r := range rows {
		for _, p := range r.parts {
			if p.name == part {
				return p.figures
			}
		}
	}
	return nil
}

// mended shows the figures of runs whose times and sizes are not in the tables.
func mended(rows []row, runs []run) string {
	var text strings.Builder
	for _, r := range rows {
		for _, p := range r.parts {
			for _, done := range ofPart(runs, p.name) {
				if done.Mended == "" {
					continue
				}
				fmt.Fprintf(&text, "\n**%s**, %s on `%s`. %s\n\n", p.name, done.Date.Format(time.DateTime), done.Commit, done.Mended)
				for _, f := range p.figures {
					if value, has := done.Figures[f.name]; has {
						fmt.Fprintf(&text, "- %s: %s\n", f.label, number(value))
					}
				}
			}
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "\n## Times left out\n\nThe counts of these runs are in the tables above, their times and sizes are not: what slowed them has been fixed since, or the machine had other work.\n" + text.String()
}

// emptyHeading is a heading of the logs of a test's servers, with nothing below it.
var emptyHeading = regexp.MustCompile(`(?m)^ *harness_test\.go:\d+: the server's last words:\n`)

// overview is what --list prints.
func overview(rows []row, runs []run) string {
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&text, "%-4s %s\n", r.id, r.promise)
		for _, p := range r.parts {
			figures := p.total(runs)
			fmt.Fprintf(&text, "     %s\n", p.name)
			for _, f := range p.figures {
				if value, has := figures[f.name]; has {
					fmt.Fprintf(&text, "       %-45s %12s  %-10s %s\n", f.label, number(value), f.goal, strings.Trim(f.verdict(value), "*"))
				} else {
					fmt.Fprintf(&text, "       %-45s %12s  %-10s not run\n", f.label, "–", f.goal)
				}
			}
		}
	}
	return text.String()
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

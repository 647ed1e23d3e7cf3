package main

import (
	"strconv"
	"strings"
)

// row is one promise and the parts that prove it.
type row struct {
	id, promise string
	parts       []part
	note        string // what a reader has to know about the figures
}

// part is one command, whose figures add up over its runs.
type part struct {
	name    string   // unique
	test    []string // arguments of go test
	argv    []string // another command, in dir
	dir     string
	env     []string
	fuzz    bool   // every fuzz target in turn
	section string // of docs/internals/conformance.md, whose tests are run
	whole   bool   // one long run in place of many slices
	figures []figure
	why     map[string]string // a figure misses its goal
}

// figure is what a part measures. The zero goal has none.
type figure struct {
	name, label string
	over        kind
	goal        goal
}

// kind is how the figures of several runs become one.
type kind int

const (
	sum kind = iota
	most
	least
	latest
)

// join returns the figure of all runs before and this one.
func (f figure) join(before, value float64, has bool) float64 {
	switch {
	case !has || f.over == latest:
		return value
	case f.over == most:
		return max(before, value)
	case f.over == least:
		return min(before, value)
	}
	return before + value
}

// goal is a bound on a figure: "≥ 1000", "≤ 2", "= 0".
type goal string

// met reports whether value is within the goal.
func (g goal) met(value float64) bool {
	if g == "" {
		return true
	}
	sign, text, _ := strings.Cut(string(g), " ")
	bound, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("a goal without a number: " + string(g))
	}
	switch sign {
	case "≥":
		return value >= bound
	case "≤":
		return value <= bound
	}
	return value == bound
}

// figure returns what the part knows of a figure; the figure of an unknown name is a sum.
func (p part) figure(name string) figure {
	for _, f := range p.figures {
		if f.name == name {
			return f
		}
	}
	return figure{name: name}
}

// total returns the figures of all runs together. Runs that failed or were skipped are not
// counted, and of those whose times do not count only the sums.
func (p part) total(runs []run) map[string]float64 {
	figures := map[string]float64{}
	for _, r := range ofPart(runs, p.name) {
		if r.Failed != "" {
			continue
		}
		for name, value := range r.Figures {
			f := p.figure(name)
			if before, has := figures[name]; r.LeftOut == "" || f.over == sum {
				figures[name] = f.join(before, value, has)
			}
		}
	}
	return figures
}

// wants reports whether another run is worth its time: the last one failed, a figure is
// missing, or another run may change it. The worst of all runs stays what it is.
func (p part) wants(runs []run) bool {
	own, figures := ofPart(runs, p.name), p.total(runs)
	if len(own) == 0 || own[len(own)-1].Failed != "" {
		return true
	}
	for _, f := range p.figures {
		_, has := figures[f.name]
		if verdict := f.verdict(figures); !has || verdict == notYet || verdict == missed && f.over == latest {
			return true
		}
	}
	return false
}

// lacks names the first figure that a run did not give.
func (p part) lacks(figures map[string]float64) string {
	for _, f := range p.figures {
		if _, has := figures[f.name]; !has {
			return f.name
		}
	}
	return ""
}

// number writes a figure as people read it: 1,234,567 or 0.93.
func number(value float64) string {
	text := strconv.FormatFloat(value, 'f', 3, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	if value >= 100 || value <= -100 {
		whole, fraction = strconv.FormatFloat(value, 'f', 0, 64), ""
	}
	var grouped strings.Builder
	for i, digit := range whole {
		if left := len(whole) - i; i > 0 && left%3 == 0 && whole[i-1] != '-' {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(digit)
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		return grouped.String() + "." + fraction
	}
	return grouped.String()
}

package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// proof is a test that shows a row.
type proof struct {
	test
	by string // what joins it to the row: "oauth_row_36_37" in its name, or its name in rows.txt
}

// match finds the tests of every row, by the row's name ("oauth_row_36"), and
// reports the rows and the names with which something is wrong.
func match(lists []list, tests []test) (proofs map[string][]proof, wrong []string) {
	carried, wrong := carriers(lists, tests)
	proofs = map[string][]proof{}
	for _, l := range lists {
		for r := range l.rows() {
			name := l.marker + "_" + r.number
			own, others := carried[name], []proof(nil) // others are judged with their own row
			for _, by := range r.shownBy {
				named := called(by, tests)
				if len(named)+len(carried[by]) == 0 {
					wrong = append(wrong, fmt.Sprintf("%s is said to be shown by %s, which no test is or carries", name, by))
				}
				own, others = append(slices.Clip(own), named...), append(others, carried[by]...)
			}
			proofs[name] = slices.Concat(own, others)
			if len(proofs[name]) == 0 {
				wrong = append(wrong, fmt.Sprintf("no test carries %s: %s", name, r.promise))
			}
			wrong = append(wrong, judge(name, own)...)
		}
	}
	return proofs, wrong
}

// carriers are the tests whose names carry a row, by the row's name.
func carriers(lists []list, tests []test) (carried map[string][]proof, wrong []string) {
	carried = map[string][]proof{}
	chapters := map[string]bool{}
	var markers []string
	for _, l := range lists {
		markers = append(markers, regexp.QuoteMeta(l.marker))
		for r := range l.rows() {
			carried[l.marker+"_"+r.number] = nil
			chapters[l.marker+"_"+r.chapter()] = true
		}
	}
	all := map[[2]string]bool{}
	for _, t := range tests {
		all[[2]string{t.pkg, t.name}] = true
	}
	carries := regexp.MustCompile(`(?:^|[_/])(` + strings.Join(markers, "|") + `)((?:_[0-9][0-9.]*)+)(?:[_/]|$)`)
	for _, t := range tests {
		rows := rowsOf(carries, t, all)
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			switch _, known := carried[name]; {
			case known:
				carried[name] = append(carried[name], proof{t, rows[name]})
			case chapters[name]: // the rows say which of them it shows
			default:
				wrong = append(wrong, fmt.Sprintf("%s %s names a row that rows.txt does not have: %s", short(t.pkg), t.name, name))
			}
		}
	}
	return carried, wrong
}

// called are the tests of that name, or with … behind it those that begin so.
func called(name string, tests []test) (found []proof) {
	beginning, several := strings.CutSuffix(name, "…")
	for _, t := range tests {
		if t.name == name || several && strings.HasPrefix(t.name, beginning) {
			found = append(found, proof{t, name})
		}
	}
	return found
}

// rows are those of all sections.
func (l list) rows() func(func(row) bool) {
	return func(yield func(row) bool) {
		for _, s := range l.sections {
			for _, r := range s.rows {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// rowsOf are the rows that a test's name carries, and the words with which it
// does so, without those that a test above it carries: a parent stands for its
// subtests, since it fails with them.
func rowsOf(carries *regexp.Regexp, t test, all map[[2]string]bool) map[string]string {
	rows := map[string]string{}
	for rest := t.name; ; {
		at := carries.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		marker, numbers := rest[at[2]:at[3]], rest[at[4]:at[5]]
		for number := range strings.SplitSeq(numbers[1:], "_") {
			rows[marker+"_"+number] = marker + numbers
		}
		rest = rest[at[5]:] // two names may share the "_" between them
	}
	for i := range len(t.name) {
		above := test{pkg: t.pkg, name: t.name[:i]}
		if t.name[i] == '/' && len(rows) > 0 && all[[2]string{above.pkg, above.name}] {
			for row := range rowsOf(carries, above, all) {
				delete(rows, row)
			}
		}
	}
	return rows
}

// judge reports the tests of a row that do not hold it.
func judge(name string, tests []proof) (wrong []string) {
	for _, t := range tests {
		if t.result != "pass" {
			wrong = append(wrong, fmt.Sprintf("%s is not shown: %s %s: %s", name, short(t.pkg), t.name, ended(t.test)))
		}
	}
	return wrong
}

func ended(t test) string { return cmp.Or(t.result, "did not end") }

func short(pkg string) string { return strings.TrimPrefix(pkg, "tollhouse/") }

const preface = `<!-- Generated from a test run by cli/proof/conformance; its rows.txt has the left half. -->
# Conformance

What tollhouse is held to, and by which tests. A test says so by its name, which carries the numbers of its rows: ` + "`oauth_row_36_37_…`" + ` holds rows 36 and 37; or the left half names it.
The last step of ` + "`.ci/run`" + ` draws this page from its test run and fails when the page says anything else, when a row has no test, or when a test of
a row failed or was skipped. A name that ends in … stands for several subtests that begin so.

To write it again: ` + "`go test -json ./... | go run ./cli/proof/conformance -write docs/conformance.md`" + `. The left half is ` + "`cli/proof/conformance/rows.txt`" + `.

`

// draw writes the table down, the same for the same rows, tests and results.
func draw(lists []list, proofs map[string][]proof) string {
	var b strings.Builder
	b.WriteString(preface)
	for _, l := range lists {
		fmt.Fprintf(&b, "- [%s](#%s): %d rows, `%s_…`\n", l.title, anchor(l.title), count(l), l.marker)
	}
	for _, l := range lists {
		fmt.Fprintf(&b, "\n## %s\n", l.title)
		for _, s := range l.sections {
			fmt.Fprintf(&b, "\n### %s\n\n| row | what it promises | test | result |\n|---|---|---|---|\n", s.title)
			for _, r := range s.rows {
				tests, result := cells(proofs[l.marker+"_"+r.number])
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.number, strings.ReplaceAll(r.promise, "|", `\|`), tests, result)
			}
		}
	}
	return b.String()
}

func count(l list) (n int) {
	for range l.rows() {
		n++
	}
	return n
}

// anchor is the name by which a page knows a heading.
func anchor(title string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(title))
	return kept
}

// cells are the tests of a row, those together that belong to one function and
// say it in the same words, and their common result.
func cells(proofs []proof) (names, result string) {
	if len(proofs) == 0 {
		return "none", "no test"
	}
	groups := map[string][]string{}
	result = "pass"
	for _, p := range proofs {
		function, _, _ := strings.Cut(p.name, "/")
		group := short(p.pkg) + " " + function + "/" + p.by
		groups[group] = append(groups[group], short(p.pkg)+" "+p.name)
		if p.result != "pass" {
			result = ended(p.test)
		}
	}
	var shown []string
	for _, group := range groups {
		shown = append(shown, "`"+strings.NewReplacer("|", `\|`, "`", "'").Replace(gather(group))+"`")
	}
	slices.Sort(shown)
	return strings.Join(slices.Compact(shown), "<br>"), result
}

// gather shortens several names to what they have in common, whole words of it.
// Names that begin with one of them are that one and more.
func gather(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	first, last := names[0], names[len(names)-1]
	if first == last {
		return first
	}
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	if n == len(first) && strings.ContainsRune("_/", rune(last[n])) {
		return first + "…"
	}
	return first[:strings.LastIndexAny(first[:n], "_/")+1] + "…"
}

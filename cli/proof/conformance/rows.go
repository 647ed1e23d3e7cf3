package main

import (
	"fmt"
	"strings"
)

// list is a catalogue of rules that tests name by its marker.
type list struct {
	marker, title string
	sections      []section
}

// section is a chapter of a specification.
type section struct {
	title string
	rows  []row
}

// row is one rule.
type row struct {
	number  string
	promise string
	// shownBy are the rows of any list and the tests that show this one, beside
	// those that carry its number. A row is written "marker_number"; a test whose
	// name ends in … stands for all that begin so.
	shownBy []string
}

// chapter is what a number with dots begins with: "2.2" of "2.2.14".
func (r row) chapter() string {
	return r.number[:max(0, strings.LastIndexByte(r.number, '.'))]
}

// parseRows reads the lists. Its lines are
//
//	list MARKER TITLE
//	section TITLE
//	NUMBER PROMISE
//	NUMBER PROMISE = MARKER_NUMBER TestName/subtest TestName/sub… …
//
// and comments behind a "#" at the start of a line.
func parseRows(text string) ([]list, error) {
	var lists []list
	known := map[string]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case word == "list":
			marker, title, _ := strings.Cut(rest, " ")
			lists = append(lists, list{marker: marker, title: title})
		case len(lists) == 0:
			return nil, fmt.Errorf("rows.txt:%d: stands in no list", number)
		case word == "section":
			l := &lists[len(lists)-1]
			l.sections = append(l.sections, section{title: rest})
		default:
			l := &lists[len(lists)-1]
			r, name := parseRow(word, rest), l.marker+"_"+word
			if len(l.sections) == 0 || r.promise == "" || known[name] {
				return nil, fmt.Errorf("rows.txt:%d: %s stands in no section, promises nothing, or stands there twice", number, name)
			}
			known[name] = true
			s := &l.sections[len(l.sections)-1]
			s.rows = append(s.rows, r)
		}
	}
	return lists, nil
}

func parseRow(number, rest string) row {
	promise, shownBy, _ := strings.Cut(rest, " = ")
	return row{number: number, promise: strings.TrimSpace(promise), shownBy: strings.Fields(shownBy)}
}

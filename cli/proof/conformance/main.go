// Command conformance draws docs/conformance.md: for every rule that tollhouse
// is held to, the tests that hold it and how they ended.
//
// The rules stand in rows.txt, one a line, in our own words and in the order of
// the specifications. A test says which of them it holds by its name:
//
//	oauth_row_36_37_attack_10_second_use_kills_the_tokens_of_the_first
//
// holds rows 36 and 37 of the list oauth_row and row 10 of the list attack. A
// name that carries a chapter alone, events_2.2 where the rows are 2.2.1 and on,
// holds those that rows.txt says.
//
// The command reads what a test run says, joins the two, and is not content before
// every row has a test and every such test has passed: a failed or skipped one,
// a row without any, and a name with a row that no list has are all reported.
//
//	go test -json ./... | go run ./cli/proof/conformance -write docs/conformance.md
//	go test -json ./... | go run ./cli/proof/conformance -check docs/conformance.md
//
// Between the lines of the packages it prints what failed tests had to say, so
// that a run through it reads like one without it.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed rows.txt
var rowsText string

func main() {
	check := flag.String("check", "", "`file` that must say what this run shows")
	write := flag.String("write", "", "`file` to write")
	flag.Parse()
	if flag.NArg() > 0 || (*check == "") == (*write == "") {
		fmt.Fprintln(os.Stderr, "usage: go test -json ./... | conformance -check|-write FILE")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout, *check, *write); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
}

// run reads a test run, draws its table, and returns everything that is wrong.
func run(in io.Reader, out io.Writer, check, write string) error {
	lists, err := parseRows(rowsText)
	if err != nil {
		return err
	}
	tests, failed := readRun(in, out)
	proofs, wrong := match(lists, tests)
	if failed {
		wrong = append(wrong, "the test run failed")
	}
	table := draw(lists, proofs)
	if write != "" {
		if err := os.WriteFile(write, []byte(table), 0o644); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if check != "" {
		wrong = append(wrong, compare(check, table)...)
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\nconformance: "))
	}
	fmt.Fprintf(out, "%d rows, each with a test that passed\n", len(proofs))
	return nil
}

// compare reports the first line at which the file differs from the table.
func compare(file, table string) []string {
	kept, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	have, want := strings.Split(string(kept), "\n"), strings.Split(table, "\n")
	for i, line := range want {
		if i >= len(have) || have[i] != line {
			return []string{fmt.Sprintf("%s: line %d does not say what this run shows: %s\n"+
				"  write it again: go test -json ./... | go run ./cli/proof/conformance -write %s", file, i+1, line, file)}
		}
	}
	if len(have) > len(want) {
		return []string{fmt.Sprintf("%s: %d lines too many; write it again with -write", file, len(have)-len(want))}
	}
	return nil
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one rule taken out of the code.
type mutant struct {
	name   string
	breaks string // the rule, and where it stands
	file   string // from the top of the module
	old    string // stands in the file exactly once
	new    string
	in     string   // the package whose tests have to notice
	tests  []string // the names of those that have to
}

// table lists all mutants.
func table() []mutant {
	return slices.Concat(secretMutants, codeMutants, refreshMutants, tokenMutants, clientMutants, keyMutants,
		pageMutants, redirectMutants, browserMutants, wireMutants, throttleMutants, keepMutants, countMutants, databaseMutants, consentMutants, webhookMutants)
}

// weaken returns the mutant's file without the rule.
func (m mutant) weaken(root string) ([]byte, error) {
	sound, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if n := bytes.Count(sound, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s: the mutant no longer fits: its text stands %d times in %s, not once; rewrite it in the table", m.name, n, m.file)
	}
	return bytes.Replace(sound, []byte(m.old), []byte(m.new), 1), nil
}

// dir is the package of the mutant's file.
func (m mutant) dir() string { return "./" + path.Dir(m.file) }

func (m mutant) pattern() string { return patternOf(m.tests) }

// patternOf is the -run pattern of exactly these tests.
func patternOf(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

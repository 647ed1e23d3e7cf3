package main

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// shown are the figures without flags.
func shown(t *testing.T, args ...string) figures {
	t.Helper()
	var f figures
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.flagsOf(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPage holds the table of docs/scale.md to what the command prints.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	shown(t).print(&table)
	if !strings.Contains(string(page), "\n\n"+table.String()+"\n") {
		t.Errorf("docs/scale.md lacks the table that go run ./scale prints:\n%s", &table)
	}
	if len(page) > 8<<10 {
		t.Errorf("docs/scale.md has %d bytes, more than two pages", len(page))
	}
}

func TestArithmetic(t *testing.T) {
	t.Parallel()
	f := shown(t, "-events-per-merchant", "864", "-event-bytes", "1000", "-peak", "10", "-share", "0.5", "-months", "10", "-disk", "1e12", "-directory-rate", "5000", "-database-rate", "4000", "-directory-bytes", "0.5", "-database-bytes", "2")
	r := f.row(10_000) // 8.64 million events a day: 100 a second, 1,000 in the busiest one
	want := row{merchants: 10_000, eventsADay: 8.64e6, peak: 1000, directoryMonth: 1.296e11, databaseMonth: 5.184e11, directory: false, cells: 6, first: "disk"}
	if r != want {
		t.Errorf("row = %+v, want %+v", r, want)
	}
	f.disk = 1e14
	if r = f.row(10_000); !r.directory || r.cells != 1 || r.first != "writes" {
		t.Errorf("row with enough disk = %+v, want one directory, and writes to give out first", r)
	}
	if r = f.row(100_000); r.cells != 5 || r.directory {
		t.Errorf("row = %+v, want 5 cells for 10,000 events a second", r)
	}
	for n, text := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if count(n) != text {
			t.Errorf("count(%v) = %q, want %q", n, count(n), text)
		}
	}
	for n, text := range map[float64]string{12: "12 B", 1500: "1.5 KB", 2e12: "2 TB"} {
		if size(n) != text {
			t.Errorf("size(%v) = %q, want %q", n, size(n), text)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const listed = `
# a comment
list rule Rules of the house
section RFC 1 §2: doors
1 a door shuts
2 a door | opens
section RFC 1 §3: windows
3.1 a window shuts
list choice Choices
section Made
1 doors are red = rule_1 TestPaint/red
2 doors are bright = TestPaint/…
`

// said is what go test -json says of tests: "pass TestX/y" a line.
func said(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		action, name, _ := strings.Cut(line, " ")
		b.WriteString(`{"Action":"run","Package":"tollhouse/house","Test":"` + name + `"}` + "\n")
		b.WriteString(`{"Action":"output","Package":"tollhouse/house","Test":"` + name + `","Output":"words of ` + name + `\n"}` + "\n")
		if action != "run" {
			b.WriteString(`{"Action":"` + action + `","Package":"tollhouse/house","Test":"` + name + `"}` + "\n")
		}
	}
	return b.String()
}

// sound is a run that shows every row.
var sound = []string{
	"pass TestDoor/rule_1_shuts/by_hand", "pass TestDoor/rule_1_shuts", "pass TestDoor/rule_2_opens", "pass TestDoor/rule_2_opens_wide", "pass TestDoor/choice_1_rule_1_2_is_red",
	"pass TestDoor", "pass TestWindow/in_winter_rule_3.1_shuts", "pass TestWindow/rule_3_of_windows", "pass TestWindow", "pass TestPaint/red", "pass TestPaint",
}

// tableOf joins a run with the rows.
func tableOf(t *testing.T, lines []string) (table, printed string, wrong []string) {
	t.Helper()
	lists, err := parseRows(listed)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	tests, failed := readRun(strings.NewReader(said(lines...)), &out)
	proofs, wrong := match(lists, tests)
	if failed {
		wrong = append(wrong, "failed")
	}
	return draw(lists, proofs), out.String(), wrong
}

func TestTable(t *testing.T) {
	t.Parallel()
	table, printed, wrong := tableOf(t, sound)
	if len(wrong) > 0 || printed != "" {
		t.Errorf("a sound run is said to be wrong: %q, and prints %q", wrong, printed)
	}
	for _, want := range []string{
		"- [Rules of the house](#rules-of-the-house): 3 rows, `rule_…`",
		"## Rules of the house\n\n### RFC 1 §2: doors\n",
		"| 1 | a door shuts | `house TestDoor/choice_1_rule_1_2_is_red`<br>`house TestDoor/rule_1_shuts` | pass |",
		"| 2 | a door \\| opens | `house TestDoor/choice_1_rule_1_2_is_red`<br>`house TestDoor/rule_2_opens…` | pass |",
		"| 3.1 | a window shuts | `house TestWindow/in_winter_rule_3.1_shuts` | pass |",
		"| 1 | doors are red | `house TestDoor/choice_1_rule_1_2_is_red`<br>`house TestDoor/rule_1_shuts`<br>`house TestPaint/red` | pass |",
		"| 2 | doors are bright | `house TestPaint/red` | pass |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	again := slices.Clone(sound)
	slices.Reverse(again)
	if other, _, _ := tableOf(t, again); other != table {
		t.Error("the order of the tests shows in the table, want it the same always")
	}
}

func TestWhatIsWrong(t *testing.T) {
	t.Parallel()
	replaced := func(old, new string) []string {
		return append(slices.DeleteFunc(slices.Clone(sound), func(line string) bool { return line == old }), new)
	}
	cases := []struct {
		name      string
		run       []string
		want      string
		wantPrint string
	}{
		{"failed", replaced("pass TestDoor/rule_1_shuts", "fail TestDoor/rule_1_shuts"), "rule_1 is not shown: house TestDoor/rule_1_shuts: fail", "words of TestDoor/rule_1_shuts\n"},
		{"failed_without_a_row", append(slices.Clone(sound), "fail TestGarden"), "failed", "words of TestGarden\n"},
		{"skipped", replaced("pass TestDoor/rule_1_shuts", "skip TestDoor/rule_1_shuts"), "rule_1 is not shown: house TestDoor/rule_1_shuts: skip", ""},
		{"cut_short", replaced("pass TestDoor/rule_1_shuts", "run TestDoor/rule_1_shuts"), "rule_1 is not shown: house TestDoor/rule_1_shuts: did not end", ""},
		{"no_test", replaced("pass TestWindow/in_winter_rule_3.1_shuts", "pass TestWindow/rule_3"), "no test carries rule_3.1: a window shuts", ""},
		{"no_such_row", append(slices.Clone(sound), "pass TestDoor/rule_1_7_slams"), "house TestDoor/rule_1_7_slams names a row that rows.txt does not have: rule_7", ""},
		{"shown_by_nobody", replaced("pass TestPaint/red", "pass TestPaint/blue"), "choice_1 is said to be shown by TestPaint/red, which no test is or carries", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, printed, wrong := tableOf(t, c.run)
			if !slices.Contains(wrong, c.want) {
				t.Errorf("wrong = %q, want %q in it", wrong, c.want)
			}
			if printed != c.wantPrint {
				t.Errorf("printed %q, want %q", printed, c.wantPrint)
			}
		})
	}
}

func TestWhatIsPrinted(t *testing.T) {
	t.Parallel()
	run := said("pass TestA", "run TestCrash") + `{"Action":"output","Package":"tollhouse/house","Output":"panic: oh\n"}
{"Action":"output","Package":"tollhouse/house","Output":"FAIL\ttollhouse/house\t0.1s\n"}
{"Action":"fail","Package":"tollhouse/house"}
{"ImportPath":"tollhouse/shed","Action":"build-output","Output":"shed.go:1: oh\n"}
{"ImportPath":"tollhouse/shed","Action":"build-fail"}
{"Action":"output","Package":"tollhouse/barn","Output":"noise\n"}
{"Action":"output","Package":"tollhouse/barn","Output":"ok  \ttollhouse/barn\t0.1s\n"}
{"Action":"pass","Package":"tollhouse/barn"}
`
	var out strings.Builder
	if _, failed := readRun(strings.NewReader(run), &out); !failed {
		t.Error("a crash and a build that fails are not told")
	}
	if got, want := out.String(), "FAIL\ttollhouse/house\t0.1s\nwords of TestCrash\npanic: oh\nshed.go:1: oh\nok  \ttollhouse/barn\t0.1s\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "table.md")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]string{"a\nb\n": "", "a\nc\n": "line 2", "a\nb\nc\n": "line 3", "a": "lines too many"} {
		wrong := strings.Join(compare(file, table), " ")
		if want == "" && wrong != "" || !strings.Contains(wrong, want) {
			t.Errorf("compare(%q) = %q, want %q in it", table, wrong, want)
		}
	}
	if wrong := compare(file+"x", "a"); len(wrong) == 0 {
		t.Error("a file that is not there passes")
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	lists, err := parseRows(rowsText)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		if l.marker == "oauth_row" && count(l) != 126 {
			t.Errorf("the list %s has %d rows, want 126", l.marker, count(l))
		}
	}
	for _, bad := range []string{"1 a row in no list", "list l L\n1 a row in no section", "list l L\nsection s\n1 a\n1 b", "list l L\nsection s\n1"} {
		if _, err := parseRows(bad); err == nil {
			t.Errorf("parseRows(%q) = nil, want an error", bad)
		}
	}
}

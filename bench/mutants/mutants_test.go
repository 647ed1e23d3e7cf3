package main

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const moduleTop = "../.."

// asked are the mutants that the programme must never lose, by what is removed.
var asked = map[string]string{
	"a constant-time compare":        "constant_time_text",
	"the client check before reuse":  "refresh_client_before_reuse",
	"the revocation on replay":       "refresh_replay_revokes",
	"the CSRF check":                 "csrf_origin",
	"the form-action":                "form_action",
	"the redirect exactness":         "redirect_exactness",
	"the throttle":                   "throttle",
	"the owner in a key":             "owner_in_log_key",
	"the session rotation":           "session_rotation",
	"the PKCE downgrade check":       "pkce_downgrade",
	"the clock comparison":           "clock_comparison",
	"the hashing of secrets at rest": "secret_hashing",
}

// TestMutantsFit keeps the table in step with the code: it runs no mutant.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range table() {
		if names[m.name] {
			t.Errorf("two mutants have the name %s", m.name)
		}
		names[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			file, weakened, err := m.weaken(moduleTop)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.ParseFile(token.NewFileSet(), file, weakened, parser.SkipObjectResolution); err != nil {
				t.Errorf("the weakened file cannot be read: %v", err)
			}
			if m.old == m.new || m.breaks == "" || len(m.tests) == 0 {
				t.Error("the mutant changes nothing, or does not say what it breaks and who has to notice")
			}
			if _, err := m.packages(moduleTop); err != nil {
				t.Error(err)
			}
		})
	}
	for what, name := range asked {
		if !names[name] {
			t.Errorf("no mutant removes %s: %s is gone", what, name)
		}
	}
}

func TestWeaken(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"kv/a.go":        "package kv\n\nfunc a() { one()\n\ttwo() }\nfunc (T) b() { two() }\n",
		"kv/deep/c.go":   "package deep\n\nfunc a() { three() }\n",
		"kv/kv_test.go":  "package kv\n\nfunc TestOne() { one() }\n",
		"other/other.go": "package other\n\nfunc a() { one() }\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	for _, tt := range []struct{ name, fn, old, wantFile, want string }{
		{"finds_the_file_of_a_text", "", "three()", "kv/deep/c.go", "func a() { new }"},
		{"takes_any_white_space", "", "one() two()", "kv/a.go", "func a() { new }"},
		{"reads_no_tests_and_no_other_directory", "", "one()", "kv/a.go", "func a() { new\n"},
		{"refuses_a_text_that_is_not_unique", "", "two()", "", ""},
		{"takes_the_one_in_a_function", "b", "two()", "kv/a.go", "func (T) b() { new }"},
		{"refuses_a_text_of_another_function", "b", "one()", "", ""},
		{"refuses_a_text_that_does_not_exist", "", "four()", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, weakened, err := mutant{name: "m", under: "kv", fn: tt.fn, old: tt.old, new: "new"}.weaken(root)
			if file != tt.wantFile || !strings.Contains(string(weakened), tt.want) || (err == nil) != (tt.want != "") {
				t.Errorf("weaken = %s, %q, %v, want %s with %q", file, weakened, err, tt.wantFile, tt.want)
			}
		})
	}
	packages, err := mutant{name: "m", under: "other", in: "kv", tests: []string{"TestOne"}}.packages(root)
	if err != nil || !slices.Equal(packages, []string{"./kv"}) {
		t.Errorf("packages = %q, %v, want ./kv", packages, err)
	}
	if _, err := (mutant{name: "m", under: "kv", tests: []string{"TestOne", "TestO"}}).packages(root); err == nil {
		t.Error("a test that does not exist is found")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const run = `{"Action":"run","Package":"tollhouse/store","Test":"TestA"}` + "\n"
	for _, tt := range []struct {
		name, lines, wantBy, wantErr string
	}{
		{"a_test_that_fails_kills_and_is_named_to_the_subtest", run +
			`{"Action":"fail","Package":"tollhouse/store","Test":"TestA/row_1"}` + "\n" + `{"Action":"fail","Package":"tollhouse/store","Test":"TestA"}` + "\n" +
			`{"Action":"fail","Package":"tollhouse/store"}`, "store TestA/row_1", ""},
		{"tests_that_pass_let_it_live", run + `{"Action":"pass","Package":"tollhouse/store","Test":"TestA"}`, "", ""},
		{"a_package_that_fails_without_a_test_is_no_kill", run + `{"Action":"fail","Package":"tollhouse/store"}`, "", ""},
		{"what_does_not_compile_is_no_kill", `{"Action":"build-output","Output":"undefined: x"}` + "\n" + `{"Action":"build-fail"}`, "", "undefined: x"},
		{"no_test_at_all_is_no_answer", `{"Action":"pass","Package":"tollhouse/store"}`, "", "no test ran"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := judge(strings.NewReader(tt.lines))
			if v.by != tt.wantBy || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("judge = %q, %v, want %q and %q", v.by, err, tt.wantBy, tt.wantErr)
			}
		})
	}
}

// TestExperiment really runs three mutants, in the long form: one that a test of
// behaviour kills, one that only the reader of sources can see, and one that
// breaks no rule, which has to survive.
func TestExperiment(t *testing.T) {
	if os.Getenv("TOLLHOUSE_LONG") == "" {
		t.Skip("builds and tests three mutants, which takes minutes; set TOLLHOUSE_LONG=1")
	}
	l, err := openLab(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	one := options{jobs: 1}
	var chosen []mutant
	for _, m := range table() {
		if m.name == "token_kinds" || m.name == "constant_time_text" {
			chosen = append(chosen, m)
		}
	}
	if err := l.experiment(context.Background(), chosen, one); err != nil {
		t.Error(err)
	}
	harmless := mutant{
		name: "harmless", breaks: "nothing", under: "store/secret", old: "redacted = \"[redacted]\"", new: "redacted = \"[\" + \"redacted]\"",
		tests: []string{"TestToken"},
	}
	var lived survivors
	if err := l.experiment(context.Background(), []mutant{harmless}, one); !errors.As(err, &lived) || !slices.Equal(lived, survivors{"harmless"}) {
		t.Errorf("experiment = %v, want the harmless mutant among the survivors", err)
	}
	broken := mutant{name: "broken", under: harmless.under, old: harmless.old, new: "redacted = 1 +", tests: harmless.tests}
	if err := l.experiment(context.Background(), []mutant{broken}, one); err == nil || errors.As(err, &lived) {
		t.Errorf("experiment = %v, want the mutant refused because it does not compile", err)
	}
}

func TestPartsAreTheWholeTable(t *testing.T) {
	t.Parallel()
	all, seen := table(), map[string]int{}
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		chosen, err := partOf(all, part)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range chosen {
			seen[m.name]++
		}
	}
	for _, m := range all {
		if seen[m.name] != 1 {
			t.Errorf("%s is in %d of three parts, want 1", m.name, seen[m.name])
		}
	}
	for _, part := range []string{"", "0/3", "4/3", "one"} {
		if _, err := partOf(all, part); err == nil {
			t.Errorf("part %q is taken", part)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := writeTable(&b, []mutant{{name: "a", breaks: "rule"}, {name: "longer", breaks: "r"}}, []verdict{{by: "store TestA"}, {}})
	const want = "mutant  it breaks  killed by\na       rule       store TestA\nlonger  r          SURVIVED\n"
	if err != nil || b.String() != want {
		t.Errorf("writeTable = %q, %v, want %q", b.String(), err, want)
	}
}

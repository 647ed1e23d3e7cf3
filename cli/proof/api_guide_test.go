package proof

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

var updateGuide = flag.Bool("update-guide", false, "write the answers of docs/api.md and docs/testing.md anew")

// TestAPIGuide runs the requests of docs/api.md.
func TestAPIGuide(t *testing.T) {
	t.Parallel()
	runGuide(t, "api.md")
}

// TestTestingGuide runs the requests of docs/testing.md.
func TestTestingGuide(t *testing.T) {
	t.Parallel()
	runGuide(t, "testing.md")
}

// runGuide runs the requests of a document in one shell, as a reader who pastes
// them does, and compares the answers with those in the document.
func runGuide(t *testing.T, name string) {
	bash := needTool(t, "bash")
	needTool(t, "curl")
	path := filepath.Join("..", "..", "docs", name)
	text := must.Get(os.ReadFile(path))(t)
	flags := regexp.MustCompile(`(?m)^tollhouse dev --listen 127\.0\.0\.1:8655 (.*)$`).FindSubmatch(text)
	if flags == nil {
		t.Fatalf("docs/%s does not say how to start the instance", name)
	}
	s := start(t, append([]string{"dev", "--public-url", readmeURL, "--listen", "127.0.0.1:0"}, strings.Fields(string(flags[1]))...)...)
	const between = "=== answer ==="
	guide := guideSteps(string(text))
	var script strings.Builder
	for _, step := range guide {
		script.WriteString(strings.Replace(step.request, "URL="+readmeURL, "URL=http://"+s.ready.Listen[0], 1) + "\necho; echo '" + between + "'\n")
	}
	answers := strings.Split(shell(t, bash, t.TempDir(), script.String()), between)
	answered := 0
	for i, step := range guide {
		if step.kind == "" {
			continue
		}
		answered++
		got := strings.TrimSpace(answers[i])
		if step.kind == "json" {
			got = indented(t, got)
		}
		if *updateGuide {
			text = bytes.Replace(text, []byte(step.whole), []byte(strings.Replace(step.whole, "```"+step.kind+"\n"+step.answer, "```"+step.kind+"\n"+got+"\n", 1)), 1)
			continue
		}
		if want := strings.TrimSpace(step.answer); got != want {
			t.Errorf("%s\nanswers\n%s\nand docs/%s says\n%s", step.request, got, name, want)
		}
	}
	if answered < 8 {
		t.Errorf("docs/%s shows %d answers, want one for each kind of request", name, answered)
	}
	if *updateGuide {
		must.Do(t, os.WriteFile(path, text, 0o644))
	}
}

// guideStep is a request of the guide with the answer below it.
type guideStep struct {
	request, kind, answer string // kind is json, text, or "" when no answer is shown
	whole                 string // both blocks as they are in the document
}

func guideSteps(text string) (steps []guideStep) {
	for _, found := range regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```(json|text)\n(.*?)```\n)?").FindAllStringSubmatch(text, -1) {
		steps = append(steps, guideStep{whole: found[0], request: found[1], kind: found[2], answer: found[3]})
	}
	return steps
}

func indented(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return b.String()
}

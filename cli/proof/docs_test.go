package proof

import (
	"html"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestDocsExamples runs the examples of the API reference as they stand on its pages,
// in their order, against the instance that shows them. A form of a page is sent by the
// browser that the example of the sign-in stands for.
func TestDocsExamples(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	needTool(t, "curl")
	s := startDev(t)
	section := regexp.MustCompile(`(?s)<section class="operation" id="(\w+)" data-operation="([^"]+)">.*?<pre data-curl><code>(.*?)</code>`)
	run, signIn, dir := 0, "", t.TempDir()
	try := func(line string) (status int, err error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line+` -o /dev/null -w '%{http_code}'`)
		cmd.Dir = dir
		out, err := cmd.Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		status, _ = strconv.Atoi(lines[len(lines)-1])
		return status, err
	}
	for _, tag := range []string{"oauth", "events", "resources", "service", "pages"} {
		page := string(fetchDocument(t, s.ready.URL+"/docs/"+tag))
		for _, found := range section.FindAllStringSubmatch(page, -1) {
			run++
			name, line := found[2], html.UnescapeString(found[3])
			if name == "POST /login" {
				signIn = line
			} else if isForm := strings.HasPrefix(line, "hidden="); isForm {
				if status, err := try(signIn); err != nil || status != 303 {
					t.Fatalf("the sign-in answers %d, %v", status, err)
				}
			}
			if status, err := try(line); err != nil || status < 200 || status >= 400 {
				t.Errorf("%s: %s\nanswers %d, %v", name, line, status, err)
			}
		}
	}
	if run < 20 {
		t.Errorf("only %d examples were found", run)
	}
	start := string(fetchDocument(t, s.ready.URL+"/docs"))
	steps := regexp.MustCompile(`(?s)<pre data-curl><code>(curl .*?)</code>`).FindAllStringSubmatch(start, -1)
	if len(steps) != 3 {
		t.Fatalf("the start has %d steps", len(steps))
	}
	for _, step := range steps {
		line := html.UnescapeString(step[1])
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", line+" --fail-with-body").Output(); err != nil || strings.Contains(string(out), `"active":false`) {
			t.Errorf("%s\nanswers %s, %v", line, out, err)
		}
	}
}

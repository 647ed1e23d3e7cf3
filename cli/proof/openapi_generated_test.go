package proof

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// generatedDir is a module of its own: go.mod pins the generator for Go, and
// main.go.txt uses what it generates. The programs for TypeScript are beside the
// packages from npm.
var generatedDir = filepath.Join("testdata", "generated")

// TestGeneratedClients generates clients from the description that the binary
// serves, compiles them strictly, and runs a program made with each.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startDev(t)
	served := fetchDocument(t, s.ready.URL+"/openapi.json")
	t.Run("oapi-codegen", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		must.Do(t, os.CopyFS(dir, os.DirFS(generatedDir)))
		must.Do(t, os.Rename(filepath.Join(dir, "main.go.txt"), filepath.Join(dir, "main.go")))
		downloadModules(t, dir)
		must.Do(t, os.Mkdir(filepath.Join(dir, "api"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, "openapi.json"), served, 0o644))
		wantSilence(t, goIn(t, dir, "tool", "oapi-codegen", "-config", "oapi-codegen.yaml", "openapi.json"))
		wantSilence(t, goIn(t, dir, "vet", "./..."))
		wantCalls(t, s, "by_go", goIn(t, dir, "run", "."))
	})
	t.Run("typescript", func(t *testing.T) {
		t.Parallel()
		root := nodeDir(t)
		dir := filepath.Join(root, "generated")
		must.Do(t, os.WriteFile(filepath.Join(dir, "openapi.json"), served, 0o644))
		wantNoWarning(t, nodeIn(t, dir, "../node_modules/.bin/openapi-typescript", "openapi.json", "-o", "schema.d.ts"))
		wantNoWarning(t, nodeIn(t, dir, "../node_modules/.bin/openapi-ts", "-i", "openapi.json", "-o", "hey-api"))
		wantSilence(t, nodeIn(t, dir, "../node_modules/.bin/tsc", "-p", "."))
		for name, resource := range map[string]string{"fetch": "by_fetch", "heyapi": "by_heyapi"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				source := must.Get(os.ReadFile(filepath.Join(dir, name+".ts")))(t)
				if found := regexp.MustCompile(`\bas\b|\bany\b|@ts-`).Find(source); found != nil {
					t.Errorf("the program needs %q", found)
				}
				wantCalls(t, s, resource, nodeIn(t, dir, filepath.Join("out", name+".js")))
			})
		}
	})
}

func goIn(t *testing.T, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(environ(), "GOWORK=off", "GOFLAGS=")
	return cmd
}

// downloadModules gets what go.sum names. Without a network the test is skipped.
func downloadModules(t *testing.T, dir string) {
	t.Helper()
	out, err := goIn(t, dir, "mod", "download").CombinedOutput()
	if err != nil && strings.Contains(string(out), "SECURITY ERROR") {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	must.Have(t, err == nil, "the modules cannot be downloaded: "+firstLines(string(out)))
}

// wantSilence fails the test unless a command ends well and says nothing.
func wantSilence(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = nil
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// wantNoWarning fails the test unless a command ends well and warns of nothing.
func wantNoWarning(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	if err != nil || regexp.MustCompile(`(?i)warn|⚠|error`).Match(out) {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// wantCalls runs a program, which must find by the generated client what the API
// answers, create and patch a resource, and read a refusal.
func wantCalls(t *testing.T, s *server, resource string, cmd *exec.Cmd) {
	t.Helper()
	c := s.asClient(credentials{ID: s.ready.ClientID, Secret: s.ready.ClientSecret})
	pair, _, err := c.grant(t.Context(), "password", "username", s.ready.Username, "password", s.ready.Password)
	must.Do(t, err)
	list := must.Get(c.call(t.Context(), pair.Access, "GET", "/api/events?type=customer.created&type=customer.updated&order=asc&limit=3", ""))(t)
	var page struct{ Data []event }
	decode(t, list.body, &page)
	type calls struct {
		IDs, Kinds     []string
		Put, Patch     int
		Resource, Code string
	}
	want := calls{Kinds: []string{"customer", "customer", "customer"}, Put: 201, Patch: 200, Resource: resource, Code: "invalid_parameter"}
	for _, e := range page.Data {
		want.IDs = append(want.IDs, e.ID)
	}
	cmd.Env = append(cmd.Env, "DEMO="+jsonOf(s.ready))
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	var got calls
	decode(t, out, &got)
	if len(want.IDs) != 3 || !reflect.DeepEqual(got, want) {
		t.Errorf("the program says %+v, want %+v", got, want)
	}
}

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// goCommand returns a command of the Go that go.mod names. What this machine or its user has
// set does not change the binaries. -buildvcs=false: Go's own stamp depends on the tags that
// a clone has.
func (r *release) goCommand(ctx context.Context, p platform, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.source
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "CGO_") || slices.Contains([]string{"GO386", "GOARM", "GOEXPERIMENT", "GODEBUG", "GOFLAGS"}, name)
	})
	cmd.Env = append(cmd.Env, "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOEXPERIMENT=", "GODEBUG=",
		"GOFLAGS=-buildvcs=false", "GOWORK=off", "GOFIPS140=off", "GOTOOLCHAIN="+r.toolchain)
	return cmd
}

// build compiles the program for a platform and returns the path of the binary.
func (r *release) build(ctx context.Context, p platform) (string, error) {
	name := "tollhouse"
	if p.os == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(r.work, p.String(), name)
	given := fmt.Sprintf("-X %[1]s/cli.built=%[2]s -X %[1]s/cli.builtFrom=%[3]s -X %[1]s/cli.builtAt=%[4]s", r.project.module, r.version, r.commit, r.date.Format(time.RFC3339))
	_, err := outputOf(r.goCommand(ctx, p, "build", "-trimpath", "-ldflags", "-s -w -buildid= "+given, "-o", binary, "."))
	return binary, err
}

// documents are what the program prints about itself, by the arguments of the command.
type documents map[string][]byte

const (
	unit = "print systemd --binary /usr/bin/tollhouse"
	man  = "print man"
)

// printDocuments asks the program, built for this machine.
func (r *release) printDocuments(ctx context.Context) (documents, error) {
	binary, err := r.build(ctx, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	all := documents{}
	for _, args := range []string{unit, man, "completion bash", "completion zsh", "completion fish"} {
		text, err := outputOf(exec.CommandContext(ctx, binary, strings.Fields(args)...))
		if err != nil {
			return nil, err
		}
		all[args] = []byte(text + "\n")
	}
	return all, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([.-].*)?$`)

// thirdPartyLicences returns the licences of all that is compiled in, which ask to be passed on.
func (r *release) thirdPartyLicences(ctx context.Context) ([]byte, error) {
	modules := map[string]string{} // their directories, by path and version
	for _, p := range platforms {
		out, err := outputOf(r.goCommand(ctx, p, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "."))
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(out, "\n") {
			if name, dir, found := strings.Cut(line, "\t"); found {
				modules[name] = dir
			}
		}
	}
	root, err := outputOf(r.goCommand(ctx, platforms[0], "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	modules["Go "+strings.TrimPrefix(r.toolchain, "go")] = root
	var text strings.Builder
	text.WriteString("The program contains the Go modules below and Go's standard library, under these licences.\n")
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		entries, err := os.ReadDir(modules[name])
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(modules[name], e.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&text, "\n%s\n%s: %s\n%[1]s\n\n%[4]s\n", strings.Repeat("-", 80), name, e.Name(), strings.TrimSpace(string(content)))
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence: it must not be given away", name)
		}
	}
	return []byte(text.String()), nil
}

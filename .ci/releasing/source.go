package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// versionForm matches what semantic versions, tags of images, file names and the versions of
// deb and rpm have in common: no build metadata, and no hyphen within a pre-release.
var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(-[0-9A-Za-z]{1,20}(\.[0-9A-Za-z]{1,20}){0,4})?$`)

var leadingZero = regexp.MustCompile(`[-.]0[0-9]+(\.|$)`)

func checkVersion(version string) error {
	if strings.HasPrefix(version, "v") {
		return fmt.Errorf("%q: give the version without the v: the tag has it", version)
	}
	if !versionForm.MatchString(version) || leadingZero.MatchString(version) {
		return fmt.Errorf("%q is not a version such as 1.2.3 or 1.2.3-rc.1", version)
	}
	return nil
}

// newRelease checks that the directory source is what a release can be made from: a clone
// without changes, whose commit has the tag of the version, if there is such a tag.
func newRelease(ctx context.Context, project settings, source, version string) (*release, error) {
	if err := checkVersion(version); err != nil {
		return nil, err
	}
	r := &release{project: project, source: source, version: version}
	top, err := r.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("a release is made from a clone: %w", err)
	}
	if real, err := filepath.EvalSymlinks(source); err != nil || top != real {
		return nil, fmt.Errorf("a release is made from a clone, and %s is not one: its repository is %s", source, top)
	}
	if r.commit, err = r.git(ctx, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return nil, err
	}
	// What this user has set hides no file: the compiler takes files that git ignores.
	changes, err := r.git(ctx, "-c", "core.excludesFile=", "status", "--porcelain", "--untracked-files=normal")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		return nil, fmt.Errorf("commit or remove these changes first:\n%s", changes)
	}
	tagged, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/tags/v"+version+"^{commit}")
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil: // no such tag
		fmt.Printf("release: there is no tag v%s yet; after the release: git tag v%s %s\n", version, version, r.commit)
	case tagged != r.commit:
		return nil, fmt.Errorf("the tag v%s is of commit %s, and this is %s", version, tagged, r.commit)
	}
	if r.date, err = r.dateOf(ctx); err != nil {
		return nil, err
	}
	if err = r.readModule(); err != nil {
		return nil, err
	}
	return r, r.checkExperiments(ctx)
}

// checkExperiments refuses what go env -w has set, which an empty variable does not hide.
func (r *release) checkExperiments(ctx context.Context) error {
	set, err := outputOf(r.goCommand(ctx, platforms[0], "env", "GOEXPERIMENT"))
	if err == nil && set != "" {
		err = fmt.Errorf("Go is set to GOEXPERIMENT=%s, which changes the binaries: go env -u GOEXPERIMENT", set)
	}
	return err
}

// dateOf returns the date of the commit, or what a distributor sets for all files:
// https://reproducible-builds.org/specs/source-date-epoch/
func (r *release) dateOf(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<32-1 { // what rpm and gzip can hold
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

var (
	moduleLine    = regexp.MustCompile(`(?m)^module (\S+)$`)
	toolchainLine = regexp.MustCompile(`(?m)^toolchain (go\S+)$`)
)

func (r *release) readModule() error {
	text, err := os.ReadFile(filepath.Join(r.source, "go.mod"))
	if err != nil {
		return err
	}
	module, toolchain := moduleLine.FindSubmatch(text), toolchainLine.FindSubmatch(text)
	if module == nil || toolchain == nil {
		return errors.New("go.mod names no module or no toolchain")
	}
	if string(module[1]) != r.project.module {
		return fmt.Errorf("go.mod has the module %s, and .ci/release %s", module[1], r.project.module)
	}
	r.toolchain = string(toolchain[1])
	return nil
}

// homepage returns the address of the project, or "" while its module has no host.
func (s settings) homepage() string {
	if host, _, _ := strings.Cut(s.module, "/"); strings.Contains(host, ".") {
		return "https://" + s.module
	}
	return ""
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	return outputOf(exec.CommandContext(ctx, "git", append([]string{"-C", r.source}, args...)...))
}

// outputOf runs a command; its error has what the command wrote to standard error.
func outputOf(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Args[0]), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

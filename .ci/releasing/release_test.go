package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var project = settings{module: "tollhouse", image: "tollhouse", maintainer: "tollhouse <tollhouse@localhost>"}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := outputOf(exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// made is a release for this machine's architecture, from a clone of its own.
func made(t *testing.T, clone string) *release {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	git(t, root, "clone", "--quiet", root, clone)
	r, err := newRelease(t.Context(), project, clone, "1.0.0-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	r.work = t.TempDir()
	r.staged = filepath.Join(r.work, "dist")
	if err := r.make(t.Context(), []platform{{"linux", runtime.GOARCH}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRelease makes the files of one platform twice, in two clones, and looks into them.
//
// Promise (Releases): the same commit gives the same bytes in two directories: binary, packages,
// images and bill of materials
//
// Promise (Releases): a package has the unit, the user's settings file for root and the service, the
// man page and completions; an image runs as user 65532 and has a health check
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		if os.Getenv("CI") != "" {
			t.Fatal("packages and images are for Linux: run this on Linux")
		}
		t.Skip("packages and images are for Linux")
	}
	r := made(t, filepath.Join(t.TempDir(), "one"))
	sums := read(t, r.staged, "SHA256SUMS")
	t.Run("another_clone_gives_the_same_bytes", func(t *testing.T) {
		again := read(t, made(t, filepath.Join(t.TempDir(), "elsewhere", "two")).staged, "SHA256SUMS")
		if !bytes.Equal(sums, again) {
			t.Errorf("the sums are\n%s\nand\n%s", sums, again)
		}
	})
	t.Run("the_names_are_those_of_the_issue_and_the_sums_are_right", func(t *testing.T) {
		arch, rpm := runtime.GOARCH, rpmArchs[runtime.GOARCH]
		want := []string{
			"tollhouse-1.0.0~rc.1-1." + rpm + ".rpm", "tollhouse_1.0.0-rc.1_docker_" + arch + ".tar", "tollhouse_1.0.0-rc.1_linux_" + arch + ".cdx.json",
			"tollhouse_1.0.0-rc.1_linux_" + arch + ".tar.gz", "tollhouse_1.0.0-rc.1_oci.tar", "tollhouse_1.0.0~rc.1_" + arch + ".deb",
		}
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(string(sums)), "\n") {
			sum, name, _ := strings.Cut(line, "  ")
			got = append(got, name)
			if is, err := sumOf(filepath.Join(r.staged, name)); err != nil || fmt.Sprintf("%x", is) != sum {
				t.Errorf("%s has the sum %x, %v; SHA256SUMS says %s", name, is, err, sum)
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the files are %q, want %q", got, want)
		}
	})
	t.Run("the_archive_has_the_program_and_its_licences", func(t *testing.T) { checkArchive(t, r) })
	t.Run("the_deb", func(t *testing.T) { checkDeb(t, r) })
	t.Run("the_image", func(t *testing.T) { checkImage(t, r) })
	t.Run("the_bill_of_materials", func(t *testing.T) { checkSBOM(t, r) })
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// entry is one of a tar, with its content if that is short.
type entry struct {
	tar.Header
	text string
}

func untar(t *testing.T, packed []byte) map[string]entry {
	t.Helper()
	var from io.Reader = bytes.NewReader(packed)
	if unpacked, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
		from = unpacked
	}
	all := map[string]entry{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(h.Name, "./")] = entry{*h, string(text)}
	}
}

func checkArchive(t *testing.T, r *release) {
	name := "tollhouse_1.0.0-rc.1_linux_" + runtime.GOARCH
	files := untar(t, read(t, r.staged, name+".tar.gz"))
	for path, mode := range map[string]int64{"tollhouse": 0o755, "LICENSE": 0o644, "LICENSE-THIRD-PARTY": 0o644, "README.md": 0o644} {
		if f := files[name+"/"+path]; f.Mode != mode || f.Size == 0 || f.Uid != 0 || !f.ModTime.Equal(r.date) {
			t.Errorf("%s is %+v", path, f.Header)
		}
	}
	if len(files) != 4 {
		t.Errorf("the archive has %d files", len(files))
	}
	binary := filepath.Join(t.TempDir(), "tollhouse")
	if err := os.WriteFile(binary, []byte(files[name+"/tollhouse"].text), 0o755); err != nil {
		t.Fatal(err)
	}
	said, err := outputOf(exec.Command(binary, "version"))
	if want := "tollhouse 1.0.0-rc.1, revision " + r.commit + " of " + r.date.Format("2006-01-02T15:04:05Z"); err != nil || !strings.HasPrefix(said, want) {
		t.Errorf("version says %q, %v; want %q", said, err, want)
	}
	if licences := files[name+"/LICENSE-THIRD-PARTY"].text; !strings.Contains(licences, "github.com/dgraph-io/badger/v4 ") || !strings.Contains(licences, "Go 1.") {
		t.Error("LICENSE-THIRD-PARTY lacks Badger or Go")
	}
}

// members returns the members of an ar archive: https://manpages.debian.org/deb.5
func members(t *testing.T, deb []byte) map[string][]byte {
	t.Helper()
	rest, isAr := bytes.CutPrefix(deb, []byte("!<arch>\n"))
	if !isAr {
		t.Fatal("it is no ar archive")
	}
	all := map[string][]byte{}
	for len(rest) >= 60 {
		var size int
		if _, err := fmt.Sscan(string(rest[48:58]), &size); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimRight(string(rest[:16]), "/ ")] = rest[60 : 60+size]
		rest = rest[min(60+size+size%2, len(rest)):]
	}
	return all
}

func checkDeb(t *testing.T, r *release) {
	parts := members(t, read(t, r.staged, "tollhouse_1.0.0~rc.1_"+runtime.GOARCH+".deb"))
	files, control := untar(t, parts["data.tar.gz"]), untar(t, parts["control.tar.gz"])
	for path, want := range map[string]string{
		"usr/bin/tollhouse": "755 root root", "etc/tollhouse/env": "640 root tollhouse", "usr/lib/systemd/system/tollhouse.service": "644 root root",
		"usr/share/man/man1/tollhouse.1.gz": "644 root root", "usr/share/bash-completion/completions/tollhouse": "644 root root",
		"usr/share/zsh/vendor-completions/_tollhouse": "644 root root", "usr/share/fish/vendor_completions.d/tollhouse.fish": "644 root root",
		"usr/share/doc/tollhouse/copyright": "644 root root",
	} {
		f := files[path]
		if got := fmt.Sprintf("%o %s %s", f.Mode, f.Uname, f.Gname); got != want || f.Size == 0 || !f.ModTime.Equal(r.date) {
			t.Errorf("%s is %s of %d bytes, want %s", path, got, f.Size, want)
		}
	}
	for path, f := range files {
		if !f.ModTime.Equal(r.date) {
			t.Errorf("%s is of %v, want the date of the commit", path, f.ModTime)
		}
		if strings.HasPrefix(path, "var/") {
			t.Errorf("the package has %s: its removal would touch the data", path)
		}
	}
	if unit := files["usr/lib/systemd/system/tollhouse.service"].text; !strings.Contains(unit, "\nExecStart=/usr/bin/tollhouse serve --data /var/lib/tollhouse\n") {
		t.Errorf("the unit is\n%s", unit)
	}
	if manual, err := gzip.NewReader(strings.NewReader(files["usr/share/man/man1/tollhouse.1.gz"].text)); err != nil {
		t.Errorf("the man page: %v", err)
	} else if text, err := io.ReadAll(manual); err != nil || !bytes.HasPrefix(text, []byte(`.TH "TOLLHOUSE" "1" `)) {
		t.Errorf("the man page begins with %.80q, %v", text, err)
	}
	if got := control["conffiles"].text; strings.TrimSpace(got) != "/etc/tollhouse/env" {
		t.Errorf("conffiles are %q", got)
	}
	if got := control["control"].text; !strings.Contains(got, "\nVersion: 1.0.0~rc.1\n") || !strings.Contains(got, "\nPre-Depends: passwd\n") {
		t.Errorf("control is\n%s", got)
	}
	for _, script := range []string{"preinst", "postinst", "prerm", "postrm"} {
		if control[script].Mode&0o111 == 0 || !strings.HasPrefix(control[script].text, "#!/bin/sh\n") {
			t.Errorf("%s is %+v", script, control[script].Header)
		}
	}
}

func checkImage(t *testing.T, r *release) {
	layout := untar(t, read(t, r.staged, "tollhouse_1.0.0-rc.1_oci.tar"))
	type descriptor struct {
		Digest      string
		Platform    struct{ OS, Architecture string }
		Annotations map[string]string
	}
	blob := func(d descriptor, to any) {
		t.Helper()
		if err := json.Unmarshal([]byte(layout["blobs/"+strings.Replace(d.Digest, ":", "/", 1)].text), to); err != nil {
			t.Fatal(err)
		}
	}
	var top, index struct{ Manifests []descriptor }
	if err := json.Unmarshal([]byte(layout["index.json"].text), &top); err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.0.0-rc.1" {
		t.Fatalf("index.json is %+v, %v", top, err)
	}
	if got := top.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/library/tollhouse:1.0.0-rc.1" {
		t.Errorf("containerd names the image %s", got)
	}
	blob(top.Manifests[0], &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Platform.OS != "linux" || index.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("the images are %+v", index)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	blob(index.Manifests[0], &manifest)
	var config struct {
		Created string
		Config  struct {
			User                 string
			Entrypoint, Cmd, Env []string
			Labels               map[string]string
			Healthcheck          struct{ Test []string }
		}
	}
	blob(manifest.Config, &config)
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/tollhouse"}) || !slices.Equal(c.Cmd, []string{"serve"}) || !slices.Contains(c.Env, "TOLLHOUSE_DATA=/data") ||
		c.Labels["org.opencontainers.image.version"] != "1.0.0-rc.1" || c.Labels["org.opencontainers.image.revision"] != r.commit || !slices.Equal(c.Healthcheck.Test, []string{"CMD", "/tollhouse", "health"}) {
		t.Errorf("the configuration is %+v", config)
	}
	files := untar(t, []byte(layout["blobs/"+strings.Replace(manifest.Layers[0].Digest, ":", "/", 1)].text))
	if data := files["data/"]; len(manifest.Layers) != 1 || data.Uid != imageUser || data.Gid != imageUser || data.Mode != 0o700 {
		t.Errorf("/data is %+v of %d layers", data.Header, len(manifest.Layers))
	}
	for path, f := range files {
		if path != "data/" && (f.Uid != 0 || f.Mode&0o022 != 0) {
			t.Errorf("%s is %+v", path, f.Header)
		}
	}
	if roots := strings.Count(files["etc/ssl/certs/ca-certificates.crt"].text, "BEGIN CERTIFICATE"); roots < 50 {
		t.Errorf("the image trusts %d CAs", roots)
	}
	docker := untar(t, read(t, r.staged, "tollhouse_1.0.0-rc.1_docker_"+runtime.GOARCH+".tar"))
	if !strings.Contains(docker["manifest.json"].text, `"RepoTags":["tollhouse:1.0.0-rc.1"]`) || !strings.Contains(docker["repositories"].text, `"tollhouse":{"1.0.0-rc.1":`) {
		t.Errorf("the file of docker load has %s and %s", docker["manifest.json"].text, docker["repositories"].text)
	}
}

func checkSBOM(t *testing.T, r *release) {
	var bom struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct{ Component struct{ Purl string } }
		Components                           []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(read(t, r.staged, "tollhouse_1.0.0-rc.1_linux_"+runtime.GOARCH+".cdx.json"), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Purl != "pkg:golang/tollhouse@v1.0.0-rc.1" || !regexp.MustCompile(`^urn:uuid:[0-9a-f-]{36}$`).MatchString(bom.SerialNumber) {
		t.Errorf("the bill is %+v", bom)
	}
	listed, err := outputOf(r.goCommand(t.Context(), platform{"linux", runtime.GOARCH}, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}pkg:golang/{{.Path}}@{{.Version}}{{end}}{{end}}", "."))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Compact(slices.Sorted(slices.Values(strings.Fields(strings.ReplaceAll(listed, "+", "%2B")))))
	want = append(want, "pkg:golang/std@"+strings.TrimPrefix(r.toolchain, "go"))
	var got []string
	for _, c := range bom.Components {
		got = append(got, c.Purl)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the bill has %q, want %q", got, want)
	}
}

// Promise (Releases): no release is made of another version than asked for: odd numbers, changes that
// are not committed, a tag of another commit and sources without a repository are refused
func TestRefusals(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, t.TempDir(), "init", "--quiet", clone)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(clone, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module tollhouse\n\ngo 1.26.0\n\ntoolchain go1.26.8\n")
	git(t, clone, "add", ".")
	git(t, clone, "commit", "--quiet", "-m", "one")
	refused := func(want, dir, version string) {
		t.Helper()
		if _, err := newRelease(t.Context(), project, dir, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", version, err, want)
		}
	}
	for _, version := range []string{
		"", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-rc..1", "1.2.3-rc.01", "1.2.3-rc-1", "1.2.3+build", "1.2.3 ", "1.2.3\n", "../1.2.3", "1.2.3-$(id)",
		"1.2.3-rc/1", "1.2.3~rc.1", "-1.2.3", "--help", "1.2.3-é", "9999999999.0.0", "1.2.3 -X main.a=b", "1.2.3'",
	} {
		refused("is not a version", clone, version)
	}
	refused("without the v", clone, "v1.2.3")
	for _, version := range []string{"0.0.0", "1.2.3", "10.20.30", "1.2.3-rc.1", "1.2.3-alpha", "1.2.3-0"} {
		if _, err := newRelease(t.Context(), project, clone, version); err != nil {
			t.Errorf("%q: %v", version, err)
		}
	}
	git(t, clone, "tag", "v1.0.0")
	if _, err := newRelease(t.Context(), project, clone, "1.0.0"); err != nil {
		t.Errorf("with its tag: %v", err)
	}
	write("more", "")
	refused("commit or remove these changes first:\n?? more", clone, "1.2.3")
	excluded := filepath.Join(t.TempDir(), "excluded")
	if err := os.WriteFile(excluded, []byte("more\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, hides := range [][2]string{{"status.showUntrackedFiles", "no"}, {"core.excludesFile", excluded}} {
		git(t, clone, "config", hides[0], hides[1])
		refused("commit or remove these changes first:\n?? more", clone, "1.2.3")
		git(t, clone, "config", "--unset", hides[0])
	}
	git(t, clone, "add", ".")
	refused("commit or remove these changes first:\nA  more", clone, "1.2.3")
	git(t, clone, "commit", "--quiet", "-m", "two")
	refused("the tag v1.0.0 is of commit ", clone, "1.0.0")

	hosted := project
	hosted.module = "host.example/tollhouse"
	if _, err := newRelease(t.Context(), hosted, clone, "1.2.3"); err == nil || !strings.Contains(err.Error(), "go.mod has the module tollhouse, and .ci/release host.example/tollhouse") {
		t.Errorf("another module: %v", err)
	}
	t.Run("a_directory_that_is_no_clone", func(t *testing.T) {
		t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(clone))
		refused("a release is made from a clone", t.TempDir(), "1.2.3")
		below := filepath.Join(clone, "below")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		refused("its repository is "+clone, below, "1.2.3")
	})
	t.Run("a_date_from_outside", func(t *testing.T) {
		t.Setenv("SOURCE_DATE_EPOCH", "1780000000")
		if r, err := newRelease(t.Context(), project, clone, "1.2.3"); err != nil || r.date.Unix() != 1780000000 {
			t.Errorf("the release is of %v, %v", r, err)
		}
		t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
		refused("is not a number of seconds", clone, "1.2.3")
	})
	t.Run("an_experiment_of_the_user", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "env")
		if err := os.WriteFile(file, []byte("GOEXPERIMENT=nogreenteagc\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOENV", file)
		refused("GOEXPERIMENT=nogreenteagc, which changes the binaries", clone, "1.2.3")
	})
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if _, err := newRelease(cancelled, project, clone, "1.2.3"); err == nil {
		t.Error("an interrupted release was continued")
	}
}

// Promise (Releases): a systemd that does not answer keeps no package from being installed, upgraded,
// removed or purged
func TestScriptsWithoutSystemd(t *testing.T) {
	systemd, bin := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\necho \"$@\" >> "+filepath.Join(bin, "asked")+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{
		"deb/postinst configure", "deb/postinst configure 0.9.0", "deb/prerm upgrade 1.0.0", "deb/prerm remove", "deb/postrm remove", "deb/postrm purge",
		"rpm/postinst 1", "rpm/postinst 2", "rpm/prerm 0", "rpm/postrm 0",
	} {
		name, args, _ := strings.Cut(run, " ")
		text := strings.ReplaceAll(string(read(t, "package", name)), "/run/systemd/system", systemd)
		cmd := exec.Command("sh", append([]string{"-c", text, name}, strings.Fields(args)...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if _, err := outputOf(cmd); err != nil {
			t.Errorf("%s: %v", run, err)
		}
	}
	if asked := string(read(t, bin, "asked")); strings.Count(asked, "disable --now") != 2 || strings.Count(asked, "try-restart") != 2 {
		t.Errorf("systemctl was asked to:\n%s", asked)
	}
}

// Promise (Releases): SIGTERM stops a run as Ctrl-C does, so that it removes what it began
func TestStopped(t *testing.T) {
	ctx, stop := untilStopped(t.Context())
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}

func TestHomepage(t *testing.T) {
	for module, want := range map[string]string{"tollhouse": "", "host.example/tollhouse": "https://host.example/tollhouse"} {
		if got := (settings{module: module}).homepage(); got != want {
			t.Errorf("the home page of %s is %q, want %q", module, got, want)
		}
	}
}

// Promise (Releases): the workflows call .ci/run and .ci/release in the image of go.mod's Go, and
// mark the checkout, which another user owns, as safe for git
func TestWorkflows(t *testing.T) {
	r := &release{source: filepath.Join("..", ".."), project: project}
	if err := r.readModule(); err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]string{"check.yml": "- run: .ci/run\n", "release.yml": `- run: .ci/release "${GITHUB_REF_NAME#v}"` + "\n"} {
		text := string(read(t, r.source, ".github", "workflows", name))
		command = `- run: git config --global --add safe.directory "$GITHUB_WORKSPACE"` + "\n      " + command
		image := "container: golang:" + strings.TrimPrefix(r.toolchain, "go") + "-bookworm\n"
		if !strings.Contains(text, command) || !strings.Contains(text, image) || !strings.Contains(text, "permissions:\n  contents: read\n") {
			t.Errorf("%s lacks %q, %q or its permissions", name, command, image)
		}
		// A name that others choose belongs in no script: it comes as a variable.
		if found := regexp.MustCompile(`run:.*\$\{\{`).FindString(text); found != "" {
			t.Errorf("%s runs %q", name, found)
		}
	}
}

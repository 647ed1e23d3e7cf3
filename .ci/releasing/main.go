// Command releasing makes what a release consists of: .ci/release calls it and has the
// settings of the project. It is a module of its own, so that the program does not get the
// modules that make packages and images.
//
// Everything is made from one commit: the binaries of every platform by the compiler that
// go.mod names (build.go), their bills of materials from what they say of themselves
// (sbom.go), and from the binaries the archives, packages and images. Equal commits give
// equal bytes: all times are that of the commit, and nothing names the machine.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// platforms are those of the binaries.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// release is what is made, and from what.
type release struct {
	project    settings
	source     string    // directory of a clone, without changes
	staged     string    // directory of the files of the release
	work       string    // directory of what they are made from
	version    string    // semantic, without a v
	commit     string    // full
	date       time.Time // of the commit, in UTC
	toolchain  string    // of Go, as in go1.26.8
	licences   []byte    // of this program and of what its binaries are made from
	documents  documents
	thirdParty []byte
}

// settings are what .ci/release says of the project.
type settings struct{ module, image, maintainer string }

func main() {
	ctx, stop := untilStopped(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: error: %v\n", err)
		os.Exit(1)
	}
}

// untilStopped returns a context that ends with the signals that stop a run, which then removes
// what it began.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the version, such as 1.2.3 or 1.2.3-rc.1")
	}
	source, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	project := settings{module: os.Getenv("RELEASE_MODULE"), image: os.Getenv("RELEASE_IMAGE"), maintainer: os.Getenv("RELEASE_MAINTAINER")}
	r, err := newRelease(ctx, project, source, args[0])
	if err != nil {
		return err
	}
	// A run that fails leaves the dist of the last one.
	dist := filepath.Join(source, "dist")
	if r.work, err = os.MkdirTemp(source, "dist."); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	r.staged = filepath.Join(r.work, "dist")
	if err := r.make(ctx, platforms); err != nil {
		return err
	}
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	return os.Rename(r.staged, dist)
}

// make writes the files of the release for some platforms.
func (r *release) make(ctx context.Context, platforms []platform) error {
	if err := os.MkdirAll(r.staged, 0o755); err != nil {
		return err
	}
	var err error
	if r.thirdParty, err = r.thirdPartyLicences(ctx); err != nil {
		return err
	}
	if r.documents, err = r.printDocuments(ctx); err != nil {
		return err
	}
	binaries := map[platform]string{}
	for _, p := range platforms {
		r.log("%s: binary, bill of materials and archive", p)
		if binaries[p], err = r.build(ctx, p); err != nil {
			return err
		}
		if err = r.writeSBOM(p, binaries[p]); err != nil {
			return err
		}
		if err = r.writeArchive(p, binaries[p]); err != nil {
			return err
		}
		if p.os != "linux" {
			continue
		}
		r.log("%s: deb and rpm", p)
		if err = r.writePackages(p, binaries[p]); err != nil {
			return err
		}
	}
	r.log("images")
	if err = r.writeImages(binaries); err != nil {
		return err
	}
	return r.writeSums()
}

func (r *release) log(format string, args ...any) { fmt.Printf("release: "+format+"\n", args...) }

// write creates a file of the release.
func (r *release) write(name string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(r.staged, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

// writeSums writes SHA256SUMS as sha256sum reads it.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.staged)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.staged, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum, e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return r.write("SHA256SUMS", func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(lines, ""))
		return err
	})
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}

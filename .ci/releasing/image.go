package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/legacy/tarball"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	layers "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser owns nothing but /data, as in print dockerfile.
const imageUser = 65532

// writeImages writes one OCI layout with the images of all Linux platforms, and for each a
// file that docker load of any age reads.
func (r *release) writeImages(binaries map[platform]string) error {
	tag, err := name.NewTag(r.project.image + ":" + r.version)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		binary, built := binaries[p]
		if !built || p.os != "linux" {
			continue
		}
		image, err := r.image(p, binary)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		err = r.write("tollhouse_"+r.version+"_docker_"+p.arch+".tar", func(w io.Writer) error { return tarball.Write(tag, image, w) })
		if err != nil {
			return err
		}
	}
	dir := filepath.Join(r.work, "layout")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The first is what registries and podman name it by, the second containerd, which has its
	// own name for Docker's registry.
	long := strings.Replace(tag.Name(), name.DefaultRegistry, "docker.io", 1)
	names := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": long}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	files, err := filesBelow(dir)
	if err != nil {
		return err
	}
	return r.write("tollhouse_"+r.version+"_oci.tar", func(w io.Writer) error { return writeTar(w, files, r.date) })
}

// image has one layer: the program, its licences, whom to trust, and an empty /data.
func (r *release) image(p platform, binary string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var tree bytes.Buffer
	err = writeTar(&tree, []file{
		{path: "data/", mode: 0o700, owner: imageUser},
		{path: "etc/", mode: 0o755},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots()},
		{path: "licenses/", mode: 0o755},
		{path: "licenses/LICENSE", mode: 0o644, content: licence},
		{path: "licenses/LICENSE-THIRD-PARTY", mode: 0o644, content: r.thirdParty},
		{path: "tollhouse", mode: 0o755, content: program},
	}, r.date)
	if err != nil {
		return nil, err
	}
	layer, err := layers.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(tree.Bytes())), nil }, layers.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.date}
	config.History = []v1.History{{Created: v1.Time{Time: r.date}, CreatedBy: ".ci/release " + r.version}}
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/tollhouse"}, Cmd: []string{"serve"},
		Env:          []string{"TOLLHOUSE_DATA=/data", "TOLLHOUSE_LISTEN=0.0.0.0:8080"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Volumes: map[string]struct{}{"/data": {}}, StopSignal: "SIGTERM",
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/tollhouse", "health"}, Interval: 30 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute},
		Labels:      r.labels(),
	}
	return mutate.ConfigFile(image, config)
}

func (r *release) labels() map[string]string {
	labels := map[string]string{
		"title": "tollhouse", "description": "OAuth 2.0 tokens and the events of a payments platform", "licenses": "Apache-2.0",
		"version": r.version, "revision": r.commit, "created": r.date.Format(time.RFC3339),
	}
	if home := r.project.homepage(); home != "" {
		labels["source"] = home
	}
	named := map[string]string{}
	for key, value := range labels {
		named["org.opencontainers.image."+key] = value
	}
	return named
}

// roots are the CAs of Mozilla, from the module that Go's authors keep of them, so that they do
// not depend on this machine. A file cannot say under which conditions a CA is trusted: those
// with any are left out.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes all
		}
	}
	return b.Bytes()
}

// filesBelow returns the files of a directory in the order of their names.
func filesBelow(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		below := filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))
		if e.IsDir() {
			files = append(files, file{path: below + "/", mode: 0o755})
			return nil
		}
		content, err := os.ReadFile(path)
		files = append(files, file{path: below, mode: 0o644, content: content})
		return err
	})
	return files, err
}

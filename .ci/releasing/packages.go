package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// rpmArchs are the names of Go's architectures in rpm; deb has those of Go.
var rpmArchs = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// writePackages writes a deb and an rpm. Both sort 1.0.0~rc.1 before 1.0.0.
func (r *release) writePackages(p platform, binary string) error {
	version := strings.Replace(r.version, "-", "~", 1)
	for name, format := range map[string]string{
		"tollhouse_" + version + "_" + p.arch + ".deb":             "deb",
		"tollhouse-" + version + "-1." + rpmArchs[p.arch] + ".rpm": "rpm",
	} {
		info, err := r.packageInfo(p, format, binary)
		if err != nil {
			return err
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		if err := r.write(name, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) packageInfo(p platform, format, binary string) (*nfpm.Info, error) {
	contents, err := r.contents(p, format, binary)
	if err != nil {
		return nil, err
	}
	script := func(name string) string { return filepath.Join(r.source, ".ci", "releasing", "package", format, name) }
	info := &nfpm.Info{
		Name: "tollhouse", Arch: p.arch, Version: r.version, Section: "net", Priority: "optional", MTime: r.date, DisableGlobbing: true,
		Maintainer: r.project.maintainer, Homepage: r.project.homepage(), License: "Apache-2.0",
		Description: "OAuth 2.0 tokens and the events of a payments platform\n" +
			"An OAuth 2.0 issuer with its own sign-in and consent pages, an events\n" +
			"API, webhooks and an embedded store, in one program.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  nfpm.Scripts{PreInstall: script("preinst"), PostInstall: script("postinst"), PreRemove: script("prerm"), PostRemove: script("postrm")},
			RPM:      nfpm.RPM{BuildHost: "localhost", Summary: "OAuth 2.0 tokens and the events of a payments platform"},
			Deb:      nfpm.Deb{Predepends: []string{"passwd"}}, // preinst runs useradd
		},
	}
	if format == "rpm" {
		info.Release, info.Depends = "1", []string{"/usr/sbin/useradd"}
	} else {
		info.Recommends = []string{"ca-certificates"} // to verify the receivers of webhooks
	}
	if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), format); err != nil {
		return nil, err
	}
	return info, nil
}

// contents are the files of a package. Settings may be secret: only root and the service read them.
func (r *release) contents(p platform, format, binary string) (files.Contents, error) {
	zsh := "/usr/share/zsh/site-functions/_tollhouse"
	if format == "deb" {
		zsh = "/usr/share/zsh/vendor-completions/_tollhouse"
	}
	licence, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	manual, err := zipped(r.documents[man])
	if err != nil {
		return nil, err
	}
	all := files.Contents{
		content(binary, "/usr/bin/tollhouse", 0o755),
		content(filepath.Join(r.source, ".ci", "releasing", "package", "env"), "/etc/tollhouse/env", 0o640),
		{Destination: "/etc/tollhouse", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.date}},
	}
	all[1].Type, all[1].FileInfo.Group = files.TypeConfigNoReplace, "tollhouse"
	for destination, text := range map[string][]byte{
		"/usr/lib/systemd/system/tollhouse.service":           r.documents[unit],
		"/usr/share/man/man1/tollhouse.1.gz":                  manual,
		"/usr/share/bash-completion/completions/tollhouse":    r.documents["completion bash"],
		"/usr/share/fish/vendor_completions.d/tollhouse.fish": r.documents["completion fish"],
		zsh:                                  r.documents["completion zsh"],
		"/usr/share/doc/tollhouse/copyright": append(append(licence, "\n\n"...), r.thirdParty...),
	} {
		path := filepath.Join(r.work, p.String(), format, filepath.FromSlash(destination))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
		all = append(all, content(path, destination, 0o644))
	}
	return all, nil
}

func content(source, destination string, mode os.FileMode) *files.Content {
	return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode}}
}

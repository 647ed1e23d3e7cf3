package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeSBOM writes the bill of materials of a binary, from the modules that Go recorded in it.
func (r *release) writeSBOM(p platform, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum, err := sumOf(binary)
	if err != nil {
		return err
	}
	if info.GoVersion != r.toolchain {
		return fmt.Errorf("%s was built by %s, and go.mod names %s", binary, info.GoVersion, r.toolchain)
	}
	program := moduleComponent(cdx.ComponentTypeApplication, r.project.module, "v"+r.version, "")
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	program.Properties = &[]cdx.Property{{Name: "commit", Value: r.commit}, {Name: "GOOS", Value: p.os}, {Name: "GOARCH", Value: p.arch}}
	parts := []cdx.Component{moduleComponent(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, moduleComponent(cdx.ComponentTypeLibrary, m.Path, m.Version, m.Sum))
	}
	var refs []string
	for _, part := range parts {
		refs = append(refs, part.BOMRef)
	}
	slices.Sort(refs)
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewHash(sha256.New(), uuid.NameSpaceOID, sum, 8).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: &program}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return r.write("tollhouse_"+r.version+"_"+p.String()+".cdx.json", func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// moduleComponent describes a Go module by its package URL: https://github.com/package-url/purl-spec
func moduleComponent(kind cdx.ComponentType, path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}

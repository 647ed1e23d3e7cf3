package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// What the builder gives overrides what Go records of the sources:
//
//	go build -ldflags "-X tollhouse/cli.built=1.2.3 -X tollhouse/cli.builtFrom=COMMIT -X tollhouse/cli.builtAt=2026-06-01T12:00:00Z"
var built, builtFrom, builtAt string

// develVersion is the version of a binary that nothing is known about.
const develVersion = "devel"

// build is the build information of the binary.
type build struct {
	Version  string `json:"version"`  // a semantic version, without a v, or a revision
	Revision string `json:"revision"` // "" when it was built outside a repository
	Date     string `json:"date"`     // of the revision, as RFC 3339
	Modified bool   `json:"modified"` // the repository had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(build{Version: built, Revision: builtFrom, Date: builtAt}, info)
}

const revisionShown = 12 // digits, as in Go's pseudo-versions

// buildOf returns what is known of a binary. Its version is the one given, else the tag
// or pseudo-version of its module, else its revision.
func buildOf(given build, info *debug.BuildInfo) build {
	b := given
	b.Go, b.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = cmp.Or(b.Revision, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	switch stamped := info.Main.Version; {
	case b.Version != "":
	case stamped != "" && stamped != "(devel)":
		b.Version = strings.TrimPrefix(stamped, "v")
	case b.Revision != "":
		b.Version = b.Revision[:min(revisionShown, len(b.Revision))]
		if b.Modified {
			b.Version += "+dirty"
		}
	default:
		b.Version = develVersion
	}
	return b
}

// version is the one in ready lines and on pages.
func version() string { return readBuild().Version }

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  operands(),
		RunE:  p.doing(func(context.Context, []string) error { return p.showVersion() }),
	}
}

func (p *program) showVersion() error {
	b := readBuild()
	if p.JSON {
		return p.PrintJSON(b)
	}
	revision := ""
	if b.Revision != "" {
		revision = ", revision " + b.Revision + " of " + b.Date
	}
	if b.Modified {
		revision += " with changes"
	}
	_, err := fmt.Fprintf(p.Out, "tollhouse %s%s (%s, %s)\n", b.Version, revision, b.Go, b.Platform)
	return err
}

package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// built is the version that the builder gives, which overrides all that Go records:
// go build -ldflags "-X tollhouse/cli.built=v1.2.3"
var built string

// develVersion is the version of a binary that nothing is known about.
const develVersion = "devel"

// build is the build information of the binary.
type build struct {
	Version  string `json:"version"`
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
	return buildOf(built, info)
}

const revisionShown = 12 // digits, as in Go's pseudo-versions

// buildOf returns what is known of a binary. Its version is the one given, else the tag
// or pseudo-version of its module, else its revision.
func buildOf(given string, info *debug.BuildInfo) build {
	b := build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	switch stamped := info.Main.Version; {
	case given != "":
		b.Version = given
	case stamped != "" && stamped != "(devel)":
		b.Version = stamped
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

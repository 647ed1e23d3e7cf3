package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

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
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
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
	return b
}

// version is the one in ready lines and on pages.
func version() string { return readBuild().Version }

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  operands(),
		RunE: p.doing(func(context.Context, []string) error {
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
		}),
	}
}

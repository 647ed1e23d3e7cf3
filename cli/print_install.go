package cli

import (
	"context"
	_ "embed"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
)

// The installation files, in printed/ exactly as they are printed.

//go:embed printed/systemd
var systemdUnit string

//go:embed printed/dockerfile
var dockerfile string

//go:embed printed/compose
var composeFile string

const binaryDefault = "/usr/local/bin/tollhouse" // in printed/systemd

// binaryForm matches a path that systemd needs no quotes for.
var binaryForm = regexp.MustCompile(`^/[A-Za-z0-9_./+-]+$`)

func (p *program) printSystemdCommand() *cobra.Command {
	var binary string
	c := &cobra.Command{
		Use:   "systemd",
		Short: "print a systemd unit",
		Long: `Print a systemd unit. Its service keeps the data in /var/lib/tollhouse, reads its
settings from /etc/tollhouse/env, notifies systemd when it is ready, is restarted when
it hangs, and runs in a sandbox.

  tollhouse print systemd > /etc/systemd/system/tollhouse.service
  systemctl daemon-reload && systemctl enable --now tollhouse

The comment at the top of the unit names the user that it needs. With --store-file and
--key-file the service is one of several on that database.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error {
			if !binaryForm.MatchString(binary) {
				return term.Usage("give the path of the binary, such as "+binaryDefault, "--binary %q is not an absolute path of plain characters", binary)
			}
			files, err := p.databaseFiles(true)
			if err != nil {
				return err
			}
			unit := systemdUnit
			if files != nil {
				unit = files.unit()
			}
			return p.printText(strings.Replace(unit, "ExecStart="+binaryDefault, "ExecStart="+binary, 1))
		}),
	}
	c.Flags().StringVar(&binary, "binary", binaryDefault, "`path` of the installed binary")
	nameVariables(c.Flags(), "")
	return c
}

func (p *program) printDockerfileCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dockerfile",
		Short: "print a Dockerfile for an image that contains only tollhouse",
		Long: `Print a Dockerfile that builds the image of a release from the sources. The image
contains only tollhouse, runs as user 65532, needs only /data to be writable, and has a
health check. Its binary has the version of the one that prints this, and so has the name
in the Dockerfile's first lines.

  tollhouse print dockerfile > Dockerfile

With --store-file and --key-file, which name files in the container, the server is one of
several on that database and needs no /data.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error {
			files, err := p.databaseFiles(true)
			if err != nil {
				return err
			}
			text := dockerfileOf(version())
			if files != nil {
				text = files.dockerfile(text)
			}
			return p.printText(text)
		}),
	}
}

// dockerfileOf passes a version on to the binary of the image. Without one, Go records
// what it finds in the sources.
func dockerfileOf(version string) string {
	text := strings.ReplaceAll(dockerfile, imageDefault, imageOf(version))
	if version == develVersion {
		return text
	}
	return strings.Replace(text, `"-s -w -buildid="`, `"-s -w -buildid= -X tollhouse/cli.built=`+version+`"`, 1)
}

func (p *program) printComposeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compose",
		Short: "print a compose.yaml for a server behind a proxy on this machine",
		Long: `Print a compose.yaml for Docker Compose. It names the image of this version: load that
of the release, or build it with print dockerfile. The server listens on port 8080 of
this machine only, for a proxy that terminates TLS, and has a read-only root and no
capabilities.

  tollhouse print compose > compose.yaml
  TOLLHOUSE_PUBLIC_URL=https://pay.example docker compose up -d

With --store-file and --key-file the server is one of several on that database. Both
files are of this machine, and user 65532 must be able to read them.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error {
			files, err := p.databaseFiles(false)
			if err != nil {
				return err
			}
			text := composeFile
			if files != nil {
				text = files.compose()
			}
			return p.printText(withImage(text))
		}),
	}
}

// imageDefault is the name of the image in the files of printed/.
const imageDefault = "tollhouse:" + develVersion

// imageOf returns the name of the image with a version. A tag has no +.
func imageOf(version string) string { return "tollhouse:" + strings.ReplaceAll(version, "+", "-") }

// withImage names the image of this version in a file of printed/.
func withImage(text string) string { return strings.ReplaceAll(text, imageDefault, imageOf(version())) }

func (p *program) printText(text string) error {
	_, err := p.Out.Write([]byte(text))
	return err
}

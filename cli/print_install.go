package cli

import (
	"context"
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// The files with which tollhouse is installed. They lie in printed as they are
// printed, so that they can be read and checked as what they are.

//go:embed printed/systemd
var systemdUnit string

//go:embed printed/dockerfile
var dockerfile string

//go:embed printed/compose
var composeFile string

const binaryDefault = "/usr/local/bin/tollhouse" // in printed/systemd

// binaryForm is a path that means the same to systemd, quoted or not.
var binaryForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z0-9_./+-]+$`) })

func (p *program) printSystemdCommand() *cobra.Command {
	var binary string
	c := &cobra.Command{
		Use:   "systemd",
		Short: "write the unit of a service for systemd",
		Long: `Write the unit of a service for systemd: it keeps the data in /var/lib/tollhouse,
takes its settings from /etc/tollhouse/env, tells systemd when it serves, is started
again when it hangs, and may do nothing on the machine but that.

  tollhouse print systemd > /etc/systemd/system/tollhouse.service
  systemctl daemon-reload && systemctl enable --now tollhouse

The first lines of the unit say which user it needs.`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error {
			if !binaryForm().MatchString(binary) {
				return usage("give where it is installed, such as "+binaryDefault, "--binary %q is not a full path of plain letters", binary)
			}
			return p.printText(strings.Replace(systemdUnit, "ExecStart="+binaryDefault, "ExecStart="+binary, 1))
		}),
	}
	c.Flags().StringVar(&binary, "binary", binaryDefault, "the `path` at which tollhouse is installed")
	nameVariables(c.Flags(), "")
	return c
}

func (p *program) printDockerfileCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dockerfile",
		Short: "write the Dockerfile of an image with nothing in it but tollhouse",
		Long: `Write the Dockerfile of an image with nothing in it but tollhouse, which runs as
user 65532, needs a writable /data only, and is asked for its health by itself.

  tollhouse print dockerfile > Dockerfile
  docker build -t tollhouse .`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error { return p.printText(dockerfile) }),
	}
}

func (p *program) printComposeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compose",
		Short: "write a compose.yaml that serves behind a proxy on this machine",
		Long: `Write a compose.yaml for docker compose, beside the Dockerfile of print dockerfile:
it serves on port 8080 of this machine only, for a proxy that speaks TLS, with a
read-only root and no capabilities.

  tollhouse print compose > compose.yaml
  TOLLHOUSE_PUBLIC_URL=https://pay.example docker compose up -d`,
		Args: operands(),
		RunE: p.doing(func(context.Context, []string) error { return p.printText(composeFile) }),
	}
}

func (p *program) printText(text string) error {
	_, err := p.stdout.Write([]byte(text))
	return err
}

package cli

import (
	"embed"

	"github.com/spf13/cobra"
)

// The helpers, in printed/ exactly as they are printed.
//
//go:embed printed/helper-*
var printedHelpers embed.FS

// helperNames are the operands of print helper.
var helperNames = []string{"go", "pytest", "vitest", "compose"}

// helperVariables are variables that the helpers read, without the prefix TOLLHOUSE_.
var helperVariables = []string{"BIN", "FLAGS"}

func (p *program) printHelperCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "helper NAME",
		Short: "print a test helper: go, pytest, vitest or compose",
		Long: `Print a file that runs tollhouse dev for the tests of your program. It needs only the
language and its test runner; the comment at the top says where to put it.

  tollhouse print helper go > internal/tollhousetest/tollhousetest.go
  tollhouse print helper pytest > tests/conftest.py
  tollhouse print helper vitest > src/tollhouse.ts
  tollhouse print helper compose > compose.yaml

The first three run $TOLLHOUSE_BIN, or else tollhouse from the PATH, with --strict-types,
and stop it when the tests end. The compose file names the image of this
version: that of the release, or of print dockerfile.`,
		Args:      operands("NAME"),
		ValidArgs: helperNames,
		RunE:      p.printingOneOf("helper", helperNames, printedHelpers, "printed/helper-"),
	}
}

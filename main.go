// Tollhouse issues the tokens that let callers through and keeps the record of
// everything that passed. Its commands are in package cli.
package main

import (
	"os"

	"tollhouse/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

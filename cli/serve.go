package cli

import (
	"github.com/spf13/cobra"

	"tollhouse/cli/server"
)

func (p *program) serveCommand() *cobra.Command {
	c := server.ServeCommand(p.forServer)
	c.Args = operands()
	return c
}

func (p *program) devCommand() *cobra.Command {
	c := server.DevCommand(p.forServer)
	c.Args = operands()
	return c
}

// forServer returns what a server uses of the program.
func (p *program) forServer() *server.Program {
	b := readBuild()
	return &server.Program{
		DataGiven: p.dataGiven, Console: &p.Console, Environ: p.environ, Version: b.Version, Revision: b.Revision,
		Data: p.data, Store: p.store, AdminSocket: p.adminSocket, KeyFile: p.keyFile, Settings: p.settings,
	}
}

// Package cli is tollhouse's command line.
//
// Two commands serve: serve keeps its data in a directory, dev in memory. All
// the others manage what a server keeps, and speak the admin API of package
// handlers to do it: over the server's Unix socket when one runs, else to the
// same handler in their own process, over the store that they open themselves
// (connect.go). So a command means the same whether the server is up or down.
//
// Who may open the store is settled by a lock on the data directory (lock.go);
// who may talk to the server, by the socket's file mode and the peer's user id
// (socket.go). Passwords and keys come from files, standard input or a
// terminal, never from the command line, which others can read.
//
// This is the only package that names a storage engine, and the one that says
// which clock decides; elsewhere the machine's own is read for deadlines of
// connections and for figures in the log, and decides nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/store/spelling"
)

// Main runs the command line and returns the exit code of the process. It sets
// the process's umask: nothing that tollhouse writes is for others.
func Main(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	closeToOthers()
	p := &program{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	root := p.rootCommand(args)
	p.teachCompletion(root, args)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return p.report(root.ExecuteContext(context.Background()))
}

// program is one run of the command line: its streams and global settings.
type program struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer

	data        string // the data directory
	dataGiven   bool   // it was named, not assumed
	adminSocket string // of a server that runs elsewhere, or ""
	keyFile     string // of the server key, or ""
	json        bool
	quiet       bool
	yes         bool

	fromVariable map[*pflag.Flag]bool // the flags that a variable set
}

const dataDefault = "tollhouse-data"

// rootCommand returns the command line's tree for args. When they begin with the
// name of a command, that is the only one which is made: to make all of them takes
// longer than most of them run. Nil args make the whole tree.
func (p *program) rootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "tollhouse",
		Short: "issues OAuth 2.0 tokens and keeps the events of a payments platform",
		Long: `Tollhouse issues OAuth 2.0 tokens and keeps the events of a payments platform.

  tollhouse dev                  a throwaway instance to try, in memory
  tollhouse serve --data DIR     the real thing; the other commands manage it

Every flag can be set in the environment too: --public-url is TOLLHOUSE_PUBLIC_URL.
A flag wins over its variable. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found,
4 exists or conflict, 5 not allowed, 65 bad file contents, 69 server unreachable,
73 cannot create the data directory, 74 I/O, 75 busy, 78 bad configuration,
130 interrupted.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: p.settle,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.data, "data", dataDefault, "the data `directory`")
	flags.StringVar(&p.adminSocket, "admin-socket", "", "`path` of the server's admin socket (default: admin.sock in the data directory)")
	flags.StringVar(&p.keyFile, "key-file", "", "`file` of the server key (default: secret.key in the data directory)")
	flags.BoolVar(&p.json, "json", false, "print JSON: one value, or one a line for lists")
	flags.BoolVar(&p.quiet, "quiet", false, "print nothing but results and errors")
	flags.BoolVar(&p.yes, "yes", false, "do not ask before deleting")
	root.SetFlagErrorFunc(flagFault)
	commands := map[string]func() *cobra.Command{
		"dev": p.devCommand, "serve": p.serveCommand, "client": p.clientCommand, "user": p.userCommand,
		"account": p.accountCommand, "session": p.sessionCommand, "token": p.tokenCommand, "event": p.eventCommand,
		"audit": p.auditCommand, "health": p.healthCommand, "status": p.statusCommand, "print": p.printCommand,
		"config": p.configCommand, "completion": p.completionCommand, "version": p.versionCommand,
		"backup": p.backupCommand, "restore": p.restoreCommand, "doctor": p.doctorCommand,
	}
	if len(args) > 0 && commands[args[0]] != nil {
		commands = map[string]func() *cobra.Command{args[0]: commands[args[0]]}
	}
	for _, command := range commands {
		root.AddCommand(command())
	}
	root.SetHelpCommand(helpCommand())
	asGroup(root)
	teachExamples(root)
	return root
}

// asGroup makes a command that only has others below it refuse what is not one
// of them.
func asGroup(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(c.CommandPath()+" --help lists them", "%s needs a command", c.CommandPath())
		}
		if args[0] == "help" {
			return tellAbout(c, args[1:])
		}
		return noCommand(c, args[0])
	}
	return c
}

// noCommand is the fault when c has no command of that name below it.
func noCommand(c *cobra.Command, name string) error {
	if !c.HasSubCommands() {
		return usage(c.CommandPath()+" --help tells what it takes", "%s has no commands, and so no %q", c.CommandPath(), name)
	}
	hint := c.CommandPath() + " --help lists them"
	if near, ok := spelling.Nearest(name, commandNames(c)); ok {
		hint = "did you mean " + c.CommandPath() + " " + near + "?"
	}
	return usage(hint, "there is no command %q", c.CommandPath()+" "+name)
}

func commandNames(c *cobra.Command) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, sub := range c.Commands() {
			if !sub.Hidden && !yield(sub.Name()) {
				return
			}
		}
	}
}

// flagFault tells what is wrong with a flag, and which one was meant.
func flagFault(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var empty *pflag.ValueRequiredError
	hint := c.CommandPath() + " --help lists the flags"
	switch {
	case errors.As(err, &invalid):
		return usage(hint, "--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), valueWanted(invalid.GetFlag(), invalid.Unwrap()))
	case errors.As(err, &empty):
		return usage(hint, "--%s needs a value", empty.GetFlag().Name)
	case !errors.As(err, &unknown):
		return usage(hint, "%v", err)
	}
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return usage(hint, "there is no flag -%s", name)
	}
	if near, ok := spelling.Nearest(name, flagNames(c)); ok {
		hint = "did you mean --" + near + "?"
	}
	return usage(hint, "%s has no flag --%s", c.CommandPath(), name)
}

func flagNames(c *cobra.Command) iter.Seq[string] {
	names := map[string]bool{}
	c.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	return maps.Keys(names)
}

// operands checks the number of a command's arguments and returns a message
// that names the one that is missing.
func operands(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("usage: "+c.UseLine(), "%s needs %s", c.CommandPath(), names[len(args)])
		case len(args) > len(names):
			return usage("usage: "+c.UseLine(), "%s does not take %q", c.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// atMostOne is operands for one that may be left out.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("usage: "+c.UseLine(), "%s takes %s, and not %q too", c.CommandPath(), name, args[1])
		}
		return nil
	}
}

// doing makes the body of a command that an interrupt ends; a second one ends it
// without being asked.
func (p *program) doing(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		err := run(ctx, args)
		if err != nil && ctx.Err() != nil {
			return fail(exitInterrupted, "", "interrupted")
		}
		return err
	}
}

// note tells a person something that is not the result.
func (p *program) note(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintf(p.stderr, "tollhouse: "+format+"\n", args...)
	}
}

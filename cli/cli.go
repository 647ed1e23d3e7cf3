// Package cli is tollhouse's command line.
//
// Two commands run a server (package server): serve keeps its data in a directory,
// dev in memory. All others use the admin API of package handlers: over the server's
// Unix socket if one runs, otherwise in their own process, over the store that they
// open (connect.go). So a command does the same whether the server is up or down.
//
// Package datadir decides who may open the store and who may use the socket;
// package term prints and asks. Passwords and keys come from files, standard input
// or a terminal, never from the command line, which other users can read.
//
// Only this package and those below it name a storage engine and choose the clock that
// decides. Elsewhere the machine's clock is used only for connection deadlines and for
// figures in the log.
package cli

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/spelling"
)

// Main runs the command line and returns the exit code of the process. It sets
// the process's umask: nothing that tollhouse writes is for others.
func Main(args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	datadir.CloseToOthers()
	p := &program{environ: environ, Console: term.Console{In: stdin, Out: term.Escaped(stdout), Err: term.Escaped(term.CrashApart(stderr))}}
	root := p.rootCommand()
	p.addCompletion(root, args)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return p.Report(root.ExecuteContext(context.Background()))
}

// program is one run of the command line: its streams and global settings.
type program struct {
	term.Console
	environ []string

	data        string // the data directory
	dataGiven   bool   // it was named, not assumed
	dataMeant   bool   // it is in the arguments, and adminSocket is not: that may be another server's
	adminSocket string // of a server that runs elsewhere, or ""
	keyFile     string // of the server key, or ""
	store       database.Settings

	webhookAllow []string // for a command that has no server
	openKinds    bool     // likewise

	fromVariable map[*pflag.Flag]bool // the flags that a variable set
}

const dataDefault = "tollhouse-data"

// rootCommand returns the tree of all commands.
func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "tollhouse",
		Short: "issues OAuth 2.0 tokens and keeps the events of a payments platform",
		Long: `Tollhouse issues OAuth 2.0 tokens and keeps the events of a payments platform.

  tollhouse dev                  start a throwaway instance in memory
  tollhouse serve --data DIR     start a server; the other commands manage it
  tollhouse serve --store URL    start one of several servers on a PostgreSQL database

Flags can also be set in the environment: --public-url is TOLLHOUSE_PUBLIC_URL.
A flag overrides its variable. Exit codes: 0 ok, 1 failed, 2 usage, 3 not found,
4 exists or conflict, 5 not allowed, 65 bad file contents, 69 server unreachable,
73 cannot create the data directory or the admin socket, 74 I/O, 75 busy or too
early: try again, 78 bad configuration, 130 interrupted.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: p.settle,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.data, "data", dataDefault, "the data `directory`")
	flags.StringVar(&p.adminSocket, "admin-socket", "", "`path` of the server's admin socket (default: admin.sock in the data directory)")
	flags.StringVar(&p.keyFile, "key-file", "", "`file` of the server key (default: secret.key in the data directory)")
	flags.StringVar(&p.store.URL, "store", "", "use the PostgreSQL database of this postgres:// `URL` instead of a data directory (no password in the URL)")
	flags.StringVar(&p.store.File, "store-file", "", "`file` with the URL of the database, which may contain a password")
	flags.StringVar(&p.store.Schema, "store-schema", pgkv.SchemaDefault, "the `schema` of the database, so that several instances can share it")
	flags.BoolVar(&p.store.Insecure, "insecure-store", false, "allow a connection to the database over the network without a verified certificate")
	flags.BoolVar(&p.JSON, "json", false, "print JSON: one value, or one per line for lists")
	flags.BoolVar(&p.Quiet, "quiet", false, "print only results and errors")
	flags.BoolVar(&p.Yes, "yes", false, "do not ask before deleting or replacing")
	root.SetFlagErrorFunc(flagFault)
	help := helpCommand()
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a server:", []*cobra.Command{p.devCommand(), p.serveCommand(), p.configCommand()}},
		{"Clients, users and their access:", []*cobra.Command{p.clientCommand(), p.userCommand(), p.accountCommand(), p.sessionCommand(), p.tokenCommand()}},
		{"Events:", []*cobra.Command{p.eventCommand(), p.webhookCommand()}},
		{"Watch a server:", []*cobra.Command{p.auditCommand(), p.healthCommand(), p.statusCommand(), p.statsCommand(), p.doctorCommand(), p.alarmCommand()}},
		{"Back up and move data:", []*cobra.Command{p.backupCommand(), p.restoreCommand(), p.moveCommand(), p.importCommand(), p.exportCommand()}},
		{"Other:", []*cobra.Command{p.printCommand(), p.completionCommand(), p.versionCommand(), help}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.SetHelpCommand(help)
	root.SetUsageFunc(usage)
	asGroup(root)
	root.RunE = p.withoutCommand(root)
	addExamples(root)
	return root
}

// withoutCommand returns what the program does when no command is named: it prints its
// version if asked, or else its help. That is an error, because a script whose variable is
// empty must not succeed.
func (p *program) withoutCommand(root *cobra.Command) func(*cobra.Command, []string) error {
	otherwise := root.RunE
	version := root.Flags().Bool("version", false, "print the version")
	nameVariables(root.Flags(), "")
	return func(c *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			return p.showVersion()
		}
		if len(args) == 0 {
			c.SetOut(p.Err)
			if err := showHelp(c, nil); err != nil {
				return err
			}
		}
		return otherwise(c, args)
	}
}

// asGroup makes a command that only groups subcommands refuse anything else.
func asGroup(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return term.Usage(c.CommandPath()+" --help lists the commands", "%s needs a command", c.CommandPath())
		}
		if args[0] == "help" {
			return showHelp(c, args[1:])
		}
		return noCommand(c, args[0])
	}
	return c
}

// noCommand is the error for an unknown subcommand of c.
func noCommand(c *cobra.Command, name string) error {
	if !c.HasSubCommands() {
		return term.Usage(c.CommandPath()+" --help shows its usage", "%s has no subcommands: %q", c.CommandPath(), name)
	}
	hint := c.CommandPath() + " --help lists the commands"
	if near, ok := spelling.Nearest(name, commandNames(c)); ok {
		hint = "did you mean " + c.CommandPath() + " " + near + "?"
	}
	return term.Usage(hint, "unknown command %q", c.CommandPath()+" "+name)
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

// boundFlags maps other words for the bounds of a time to our flags, which include both
// ends. --after and --before take an id, and are not among them.
var boundFlags = map[string]string{"from": "since", "start": "since", "begin": "since", "since": "from", "to": "until", "end": "until", "till": "until", "until": "to"}

// flagFault explains a wrong flag and suggests the nearest.
func flagFault(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var empty *pflag.ValueRequiredError
	hint := c.CommandPath() + " --help lists the flags"
	switch {
	case errors.As(err, &invalid):
		return term.Usage(hint, "--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), valueWanted(invalid.GetFlag(), invalid.Unwrap()))
	case errors.As(err, &empty):
		return term.Usage(hint, "--%s needs a value", empty.GetFlag().Name)
	case !errors.As(err, &unknown):
		return term.Usage(hint, "%v", err)
	}
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return term.Usage(hint, "unknown flag -%s", name)
	}
	near := boundFlags[name]
	if near == "" || c.Flags().Lookup(near) == nil {
		near, _ = spelling.Nearest(name, flagNames(c))
	}
	if near != "" {
		hint = "did you mean --" + near + "?"
	}
	return term.Usage(hint, "%s has no flag --%s", c.CommandPath(), name)
}

func flagNames(c *cobra.Command) iter.Seq[string] {
	names := map[string]bool{}
	c.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	return slices.Values(slices.Sorted(maps.Keys(names))) // on a tie the first wins
}

// operands checks the number of a command's arguments and returns a message
// that names the one that is missing.
func operands(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return term.Usage("usage: "+c.UseLine(), "%s needs %s", c.CommandPath(), names[len(args)])
		case len(args) > len(names):
			return term.Usage("usage: "+c.UseLine(), "%s does not take %q", c.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// atMostOne is operands for one optional operand.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return term.Usage("usage: "+c.UseLine(), "%s takes only %s, not also %q", c.CommandPath(), name, args[1])
		}
		return nil
	}
}

// doing returns the body of a command. The first interrupt cancels it, and so does losing
// its terminal unless nohup runs it; a second one kills the process.
func (p *program) doing(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		interrupts := []os.Signal{os.Interrupt, syscall.SIGTERM}
		if !signal.Ignored(syscall.SIGHUP) {
			interrupts = append(interrupts, syscall.SIGHUP)
		}
		ctx, stop := signal.NotifyContext(c.Context(), interrupts...)
		context.AfterFunc(ctx, func() {
			time.Sleep(term.SameSignal)
			stop()
		})
		defer func() {
			if ctx.Err() == nil {
				stop()
			}
		}()
		err := run(ctx, args)
		if err != nil && ctx.Err() != nil && term.FailureOf(err).Code != term.ExitInterrupted {
			return term.Fail(term.ExitInterrupted, "", "interrupted")
		}
		return err
	}
}

package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"tollhouse/cli/database"
	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// configSetCommand changes what the servers of a database agreed on.
func (p *program) configSetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "set",
		Short: "change settings that the servers of a database share, while they run",
		Long: `Change settings that the servers of a database share, and print the old and the new
values. Running servers apply them within 10 seconds. From then on a server that starts with
another value exits with code 78: in a rolling deployment run this first, and then start
the new servers. Tokens and codes keep the lifetimes with which they were issued.

  tollhouse config set --store-file /etc/tollhouse/store --access-ttl 30m
  tollhouse config set --store-file /etc/tollhouse/store --retain 400d --feed 30d`,
		Args: operands(),
	}
	flags := server.AddAgreedFlags(c.Flags())
	nameVariables(c.Flags(), "") // those of a server must not change what others share
	mayBeEmpty(c.Flags(), "public-url")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if !flags.AnyGiven() {
			return term.Usage("give one or more, such as --access-ttl 30m; "+c.CommandPath()+" --help lists them", "config set needs a setting")
		}
		if !p.store.Given() {
			return term.Usage("give the new value to serve and restart it, or name a database with --store",
				"config set changes what the servers of a database share; a server on a data directory takes its settings when it starts")
		}
		return p.configSet(ctx, flags)
	})
	return c
}

func (p *program) configSet(ctx context.Context, flags *server.AgreedFlags) (err error) {
	a, err := p.connectDatabase(ctx, needsData)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	address, err := p.databaseAddress()
	if err != nil {
		return err
	}
	before, after, err := database.ChangeSettings(ctx, address, flags.Over)
	if err != nil {
		return err
	}
	if err := a.database.Store.RecordSettings(ctx, changedLines(after.ChangesFrom(before, func(string) bool { return false }))); err != nil {
		return err
	}
	changes := after.ChangesFrom(before, flags.Given)
	t := p.NewTable("NAME", "OLD", "NEW")
	var again []string
	for _, change := range changes {
		again = append(again, "--"+change.Name+"="+term.ShellQuote(change.New))
		if !p.JSON {
			t.Add(change.Name, shownValue(change.Old), shownValue(change.New))
		} else if err := p.PrintJSON(change); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	p.Note("running servers apply this within 10 seconds; start others with %s", strings.Join(again, " "))
	return nil
}

func shownValue(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// changedLines are for the audit record.
func changedLines(changes []database.Change) (lines []string) {
	for _, c := range changes {
		lines = append(lines, "setting "+c.Name+" changed from "+shownValue(c.Old)+" to "+shownValue(c.New))
	}
	return lines
}

// overlayAgreed sets in a list of flags what the database has in their place, if config was
// asked for no others.
func (p *program) overlayAgreed(ctx context.Context, c *cobra.Command, list []admin.Setting) error {
	if !p.store.Given() || p.asksForOthers(c) {
		return nil
	}
	address, err := p.databaseAddress()
	if err != nil {
		return err
	}
	agreed, found, err := database.ReadSettings(ctx, address)
	switch {
	case term.FailureOf(err) != nil && term.FailureOf(err).Code == term.ExitUnreachable:
		p.Note("%v: these are the settings that serve would start with", err)
		return nil
	case err != nil:
		return err
	case !found:
		p.Note("no server has run on the database: these are the settings that serve would start with")
		return nil
	}
	p.Note("what the servers of the database share is as they agreed; the rest is what serve would start with")
	server.Overlay(list, agreed.ChangesFrom(database.Agreed{}, func(string) bool { return true }))
	return nil
}

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// deletion is a command that removes one thing for good.
type deletion struct {
	what     string // client, user or account
	operand  string // as the usage line has it
	needs    string // as the message has it that misses it
	member   string // that names the thing in the JSON answer
	short    string
	question string // with a %s for the name
}

func (p *program) deleteCommand(d deletion) *cobra.Command {
	return &cobra.Command{
		Use:   "delete " + d.operand,
		Short: d.short,
		Long: strings.ToUpper(d.short[:1]) + d.short[1:] + `.

On a terminal it asks first, unless --yes is given. Where there is nobody to ask it
does as it is told.`,
		Args: operands(d.needs),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			if err := p.confirm(d.question, args[0]); err != nil {
				return err
			}
			err := p.manage(ctx, d.what+" delete", needsData, func(a *admin) error {
				return p.waiting("deleting", func() error { return a.call(ctx, "DELETE", pathOf(d.what+"s", args[0]), nil, nil) })
			})
			if err != nil {
				return err
			}
			return p.done(map[string]any{d.member: args[0], "deleted": true}, "deleted the %s %s", d.what, args[0])
		}),
	}
}

// confirm asks before something is deleted, when there is a person to ask.
func (p *program) confirm(question, name string) error {
	if p.yes || !isTerminal(p.stdin) {
		return nil
	}
	fmt.Fprintf(p.stderr, question+" [y/N] ", name)
	answer, err := bufio.NewReader(io.LimitReader(p.stdin, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fail(exitFailed, "answer y, or give --yes", "nothing was deleted")
}

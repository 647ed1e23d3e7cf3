package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers"
)

// doctor looks at everything that a server rests on. What concerns the store is
// looked at by whoever has it open: the server, over the admin socket, or this very
// process, by the same code (checkup). What others see of it, the files and the
// public address, is looked at from here.

const (
	nextDamage = "stop the server, keep a copy of the data directory, restore the last complete backup, and test the machine's disk and memory"
)

func allRight(check, format string, args ...any) handlers.Finding {
	return handlers.Finding{Check: check, State: handlers.StateOK, Detail: fmt.Sprintf(format, args...)}
}

func warningOf(check, next, format string, args ...any) handlers.Finding {
	return handlers.Finding{Check: check, State: handlers.StateWarning, Next: next, Detail: fmt.Sprintf(format, args...)}
}

func problemOf(check, next, format string, args ...any) handlers.Finding {
	return handlers.Finding{Check: check, State: handlers.StateProblem, Next: next, Detail: fmt.Sprintf(format, args...)}
}

// problemFrom is the finding of an error that has its own next step, if any.
func problemFrom(check, next string, err error) handlers.Finding {
	f := term.FailureOf(err)
	if f.Hint != "" {
		next = f.Hint
	}
	return problemOf(check, next, "%s", f.Err)
}

func (p *program) doctorCommand() *cobra.Command {
	var deep bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "check the store, disk, clock, TLS, proxy and files for problems",
		Long: `Check everything that a server depends on: its files and their modes, the server key,
the store, the disk, the clock and the last backup. If a server is running, also check
its public address, the proxies in front of it and its certificate. Each check prints
ok, warning or problem, with the next step. --deep also reads every block and every
record of the store, which may take minutes; the server may keep running. doctor changes
nothing.

Exit 1 if a check finds a problem. Warnings do not count.`,
		Args: operands(),
	}
	c.Flags().BoolVar(&deep, "deep", false, "also read every block and every record of the store")
	nameVariables(c.Flags(), "DOCTOR_")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error { return p.doctor(ctx, deep) })
	return c
}

func (p *program) doctor(ctx context.Context, deep bool) error {
	if err := p.somethingTo("check"); err != nil {
		return err
	}
	looked, problems := 0, 0
	show := func(f handlers.Finding) error {
		looked++
		if f.State == handlers.StateProblem {
			problems++
		}
		return p.showFinding(f)
	}
	if err := p.examine(ctx, deep, show); err != nil {
		return err
	}
	if problems > 0 {
		return term.Fail(term.ExitFailed, "the next steps are listed above", "%d of %d checks found a problem", problems, looked)
	}
	return nil
}

func (p *program) showFinding(f handlers.Finding) error {
	if p.JSON {
		return p.PrintJSON(f)
	}
	_, err := fmt.Fprintf(p.Out, "%-8s %-10s %s\n", f.State, f.Check, term.Visible(f.Detail))
	if err == nil && f.Next != "" {
		_, err = fmt.Fprintf(p.Out, "%-8s %-10s next: %s\n", "", "", term.Visible(f.Next))
	}
	return err
}

// examine runs every check. Its error is one of ours, or of the output: what is
// wrong with the server is a finding.
func (p *program) examine(ctx context.Context, deep bool, show func(handlers.Finding) error) error {
	if p.adminSocket == "" || p.dataGiven {
		dir, err := filepath.Abs(p.data)
		if err != nil {
			return err
		}
		for _, f := range []handlers.Finding{checkFiles(dir), p.checkKey(dir)} {
			if err := show(f); err != nil {
				return err
			}
		}
	}
	var broken error
	err := p.manage(ctx, "doctor", needsData, func(a *admin) error {
		if _, alone := a.http.Transport.(*inProcess); !alone {
			if broken = show(checkPublic(ctx, a.info.URL)); broken != nil {
				return nil
			}
		}
		broken = a.examineStore(ctx, deep, show)
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case broken != nil:
		return broken
	case err != nil:
		return show(problemFrom("store", "see the log of the last start", err))
	}
	return nil
}

// examineStore has what concerns the store looked at by who has it open.
func (a *admin) examineStore(ctx context.Context, deep bool, show func(handlers.Finding) error) error {
	path := "/admin/doctor"
	if deep {
		path += "?deep=true"
	}
	answer, err := a.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for d := json.NewDecoder(answer.Body); ; {
		var f handlers.Finding
		err := d.Decode(&f)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return brokenAnswer(err)
		}
		if err := show(f); err != nil {
			return err
		}
	}
}

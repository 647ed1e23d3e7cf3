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
)

// doctor looks at everything that a server rests on. What concerns the store is
// looked at by whoever has it open: the server, over the admin socket, or this very
// process, by the same code (withDoctor). What others see of it, the files and the
// public address, is looked at from here.

// finding is what one check has found.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning or problem
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do, unless it is ok
}

const (
	stateOK      = "ok"
	stateWarning = "warning"
	stateProblem = "problem"

	doctorPath = "/admin/doctor"

	nextDamage = "stop the server, keep a copy of the data directory, restore the last backup that is whole, and test the disk and the memory of the machine"
)

func allRight(check, format string, args ...any) finding {
	return finding{Check: check, State: stateOK, Detail: fmt.Sprintf(format, args...)}
}

func warningOf(check, next, format string, args ...any) finding {
	return finding{Check: check, State: stateWarning, Next: next, Detail: fmt.Sprintf(format, args...)}
}

func problemOf(check, next, format string, args ...any) finding {
	return finding{Check: check, State: stateProblem, Next: next, Detail: fmt.Sprintf(format, args...)}
}

// problemFrom is the finding of an error that has its own next step, if any.
func problemFrom(check, next string, err error) finding {
	f := asFault(err)
	if f.hint != "" {
		next = f.hint
	}
	return problemOf(check, next, "%s", f.err)
}

func (p *program) doctorCommand() *cobra.Command {
	var deep bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "look for what is wrong, or will be: store, disk, clock, TLS, proxy, files",
		Long: `Look at everything that a server rests on: its files and their modes, the server
key, the store, the disk, the clock, the last backup, and, when a server runs, the
address by which others reach it, the proxies before it and its certificate. A line for each: ok,
warning or problem, with the next step. --deep reads every block and every record
of the store too, which may take minutes, and may be done while it serves. It changes
nothing, but for a store of an older schema, which is migrated first, as by every
command that opens one.

Exit 1 if there is a problem; warnings are none.`,
		Args: operands(),
	}
	c.Flags().BoolVar(&deep, "deep", false, "read every block and every record of the store too")
	nameVariables(c.Flags(), "DOCTOR_")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error { return p.doctor(ctx, deep) })
	return c
}

func (p *program) doctor(ctx context.Context, deep bool) error {
	if err := p.somethingTo("look at"); err != nil {
		return err
	}
	looked, problems := 0, 0
	show := func(f finding) error {
		looked++
		if f.State == stateProblem {
			problems++
		}
		return p.showFinding(f)
	}
	if err := p.examine(ctx, deep, show); err != nil {
		return err
	}
	if problems > 0 {
		return fail(exitFailed, "each has its next step above", "%d of %d checks found a problem", problems, looked)
	}
	return nil
}

func (p *program) showFinding(f finding) error {
	if p.json {
		return p.printJSON(f)
	}
	_, err := fmt.Fprintf(p.stdout, "%-8s %-10s %s\n", f.State, f.Check, printable(f.Detail))
	if err == nil && f.Next != "" {
		_, err = fmt.Fprintf(p.stdout, "%-8s %-10s next: %s\n", "", "", printable(f.Next))
	}
	return err
}

// examine runs every check. Its error is one of ours, or of the output: what is
// wrong with the server is a finding.
func (p *program) examine(ctx context.Context, deep bool, show func(finding) error) error {
	if p.adminSocket == "" || p.dataGiven {
		dir, err := filepath.Abs(p.data)
		if err != nil {
			return err
		}
		for _, f := range []finding{checkFiles(dir), p.checkKey(dir)} {
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
		return show(problemFrom("store", "look at the log of the last start", err))
	}
	return nil
}

// examineStore has what concerns the store looked at by who has it open.
func (a *admin) examineStore(ctx context.Context, deep bool, show func(finding) error) error {
	path := doctorPath
	if deep {
		path += "?deep=true"
	}
	answer, err := a.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for d := json.NewDecoder(answer.Body); ; {
		var f finding
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

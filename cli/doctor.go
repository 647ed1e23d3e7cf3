package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// doctor checks everything that a server depends on. What concerns the store is
// checked by the process that has it open: the server, over the admin socket, or this
// one, by the same code of package server. The files and the public address are always
// checked from here.

func (p *program) doctorCommand() *cobra.Command {
	var deep bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "check this installation for problems",
		Long: `Check everything that a server depends on: its files and their modes, the server key,
the store, the disk, the clock and the last backup. If a server is running, also check
its public address, the proxies in front of it and its certificate. Each check prints
ok, warning or problem, with the next step. --deep also reads every block and every
record of the store, which may take minutes; the server may keep running. With --store it
checks the database and the servers on it instead of the disk, and commits a test row that
it removes again. Otherwise doctor changes nothing, except that --deep recounts the events
if the counts for the plots do not match the log.

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
	if !p.store.Given() && (p.adminSocket == "" || p.dataGiven) {
		if err := datadir.CheckOurs(datadir.Locate(p.data)); err != nil { // before all its files are looked at
			return err
		}
	}
	looked, problems := 0, 0
	show := func(f admin.Finding) error {
		looked++
		if f.State == admin.StateProblem {
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

func (p *program) showFinding(f admin.Finding) error {
	f.Next = p.Complete(f.Next)
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
func (p *program) examine(ctx context.Context, deep bool, show func(admin.Finding) error) error {
	if !p.store.Given() && (p.adminSocket == "" || p.dataGiven) {
		dir, err := filepath.Abs(datadir.Locate(p.data))
		if err != nil {
			return err
		}
		for _, f := range []admin.Finding{server.CheckFiles(dir), server.CheckKey(dir, p.keyFile, p.QuietLog())} {
			if err := show(f); err != nil {
				return err
			}
		}
	}
	if p.store.Given() && (p.adminSocket == "" || p.dataGiven) {
		if empty, err := p.examineDatabase(ctx, show); empty || err != nil {
			return err
		}
	}
	var broken error
	err := p.manage(ctx, "doctor", needsData, func(a *adminClient) error {
		if a.database != nil {
			if broken = show(server.CheckSharedKey(p.keyFile, a.database.Key, p.QuietLog())); broken != nil {
				return nil
			}
		}
		_, alone := a.http.Transport.(*inProcess)
		if !alone && a.info.Version != version() {
			if broken = show(server.CheckVersions(a.info.Version, version())); broken != nil {
				return nil
			}
		}
		if !alone || a.database != nil && a.database.Agreed.PublicURL != "" {
			if broken = show(server.CheckAddress(ctx, a.info.URL)); broken != nil {
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
		f := term.FailureOf(err)
		return show(admin.Finding{Check: "store", State: admin.StateProblem, Next: cmp.Or(f.Hint, "see the log of the last start"), Detail: f.Err.Error()})
	}
	return nil
}

// examineDatabase checks the files of a database, and the database itself if it is empty: then there
// is no store to open.
func (p *program) examineDatabase(ctx context.Context, show func(admin.Finding) error) (empty bool, err error) {
	address, err := p.databaseAddress()
	if err != nil {
		return false, err
	}
	if err := show(server.CheckSharedFiles(append(address.SecretFiles(), p.store.File, p.keyFile)...)); err != nil {
		return false, err
	}
	findings := server.CheckEmptyDatabase(ctx, address)
	for _, f := range findings {
		if err := show(f); err != nil {
			return true, err
		}
	}
	return len(findings) > 0, nil
}

// examineStore has the store checked by the process that has it open.
func (a *adminClient) examineStore(ctx context.Context, deep bool, show func(admin.Finding) error) error {
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
		var f admin.Finding
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

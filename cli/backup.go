package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/store/backup"
)

func (p *program) backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "write everything that is kept into one file, beside a running server too",
		Long: `Write everything that is kept into one file (- for standard output): what was
acknowledged when it begins, while the server goes on. The file is checked record
by record before it gets its name; without one it is named after the time.

The server key is not in it. Keep a copy of secret.key elsewhere: without it a
restore loses open consent screens and refreshes in flight, and nothing else.`,
		Args: atMostOne("a file"),
		RunE: p.doing(func(ctx context.Context, args []string) error {
			name := "tollhouse-" + time.Now().UTC().Format("20060102T150405Z") + ".backup"
			if len(args) > 0 {
				name = args[0]
			}
			if err := p.somethingTo("back up"); err != nil {
				return err
			}
			if name == "-" {
				return p.backUpToOutput(ctx)
			}
			return p.backUpToFile(ctx, name)
		}),
	}
	c.AddCommand(p.backupVerify())
	return c
}

// backUpToOutput checks the backup on its way to standard output.
func (p *program) backUpToOutput(ctx context.Context) error {
	if isTerminal(p.stdout) {
		return usage("name a file, or send it on: tollhouse backup - | ssh …", "a backup is nothing to look at on a terminal")
	}
	return p.manage(ctx, "backup", needsData, func(a *admin) error {
		body, err := a.backup(ctx)
		if err != nil {
			return err
		}
		defer body.Close()
		copied := p.newMeter("backing up", body, 0)
		defer copied.clear()
		sent := &counted{w: writeFaults{p.stdout, "standard output"}}
		checked, err := readBackup(ctx, io.TeeReader(copied, sent), "the backup")
		if err != nil {
			return backupBroke(err)
		}
		p.warnUnnoted(a.backedUp(ctx, backupTold{File: "-", Created: checked.Created, Bytes: sent.n, Records: checked.Records}))
		return nil
	})
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// backupTold is a backup as it is told to the store, once it lies whole where it
// belongs.
type backupTold struct {
	File      string    `json:"file"` // an absolute path, or -
	Created   time.Time `json:"created"`
	Bytes     int64     `json:"bytes"` // of the file
	Records   int64     `json:"records"`
	Scheduled bool      `json:"scheduled"`
}

// backedUp has a backup noted.
func (a *admin) backedUp(ctx context.Context, told backupTold) error {
	return a.call(ctx, "POST", "/admin/backup", told, nil)
}

// warnUnnoted tells that a backup could not be noted. It is one all the same:
// where the disk is full, nothing can be noted, and a backup elsewhere is wanted.
func (p *program) warnUnnoted(err error) {
	if err != nil {
		p.note("warning: the backup is whole, but the server does not know of it: %v", err)
	}
}

// backup begins a backup and returns the rest of the answer.
func (a *admin) backup(ctx context.Context) (io.ReadCloser, error) {
	answer, err := a.send(ctx, "GET", "/admin/backup", "", nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// backupBroke is the fault of a backup that did not come to its end.
func backupBroke(err error) error {
	if errors.Is(err, backup.ErrTruncated) || errors.Is(err, backup.ErrDamaged) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(exitIO, "look at the server's log, then back up again", "the backup broke off, and what was written is not one: %w", errors.Unwrap(err))
	}
	return err
}

// backUpToFile writes beside the file's name, and gives the name to what was
// read back from the disk and found whole.
func (p *program) backUpToFile(ctx context.Context, name string) error {
	if err := p.mayOverwrite(name); err != nil {
		return err
	}
	var f *unnamedFile
	var in io.Reader
	err := p.manage(ctx, "backup", needsData, func(a *admin) (err error) {
		if f, err = newUnnamedFile(name); err != nil {
			return err
		}
		body, err := a.backup(ctx)
		if err != nil {
			return err
		}
		defer body.Close()
		copied := p.newMeter("backing up", body, 0)
		defer copied.clear()
		in = f
		if _, alone := a.http.Transport.(*inProcess); !alone {
			in = &gentle{ctx: ctx, r: f, rest: gentleRest}
		}
		return f.fill(copied)
	})
	if f != nil {
		defer f.discard()
	}
	if err != nil {
		return err
	}
	checked, err := p.checkFile(ctx, in, name)
	if err != nil {
		return backupBroke(err)
	}
	told, err := f.tell(checked)
	if err != nil {
		return err
	}
	if err := f.name(); err != nil {
		return err
	}
	// The store was closed for the check, so that a server need not wait for it.
	p.warnUnnoted(p.manage(ctx, "backup", needsData, func(a *admin) error { return a.backedUp(ctx, told) }))
	if p.json {
		return p.printJSON(checked)
	}
	return p.done(nil, "backed up %s to %s", count(checked.Records, "record", "records"), name)
}

// gentle reads with rests, so that a check beside a server leaves it the
// processors: it rests for rest times as long as what it has read was worked on.
type gentle struct {
	ctx  context.Context
	r    io.Reader
	rest int
	last time.Time // when the last Read returned
}

const (
	gentleRest    = 3 // while a person waits: a fourth of a processor
	gentlestRest  = 9 // while nobody does: a tenth, as the engine's own reading takes
	gentleTurnMax = 80 * time.Millisecond
)

func (g *gentle) Read(b []byte) (int, error) {
	if !g.last.IsZero() {
		if err := sleep(g.ctx, time.Duration(g.rest)*min(time.Since(g.last), gentleTurnMax)); err != nil {
			return 0, err
		}
	}
	n, err := g.r.Read(b)
	g.last = time.Now()
	return n, err
}

// mayOverwrite asks before a backup takes the place of another file. Where there
// is nobody to ask, only --yes says that it may.
func (p *program) mayOverwrite(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return notAllowedOr(exitIO, name, err)
	case !info.Mode().IsRegular():
		return usage("name a file, or give - and send the output there", "%s is there and not a file", name)
	case !p.yes && !isTerminal(p.stdin):
		return fail(exitConflict, "give another name, or --yes to replace it", "%s is there already", name)
	}
	return p.confirm("Replace the file %s?", name)
}

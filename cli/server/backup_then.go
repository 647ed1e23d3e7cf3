package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
)

// A program of the operator can run after each backup of the server, for example to copy it
// elsewhere. The note beside the backup says that it is due until it has ended, so that a run
// that a kill has cut short begins again at the next start.

const (
	thenTimeoutDefault = time.Hour
	thenTimeoutMin     = time.Second
	thenTimeoutMax     = 24 * time.Hour

	// thenGrace is how long a program may take to end after SIGTERM, and thenBeforeDrain
	// how long before the end of the server's drain it is killed.
	thenGrace       = 10 * time.Second
	thenBeforeDrain = 5 * time.Second
)

// thenFlags are the settings of the program.
type thenFlags struct {
	program string
	timeout term.Duration
}

func (f *thenFlags) add(flags *pflag.FlagSet) {
	f.timeout = term.Duration(thenTimeoutDefault)
	flags.StringVar(&f.program, "backup-then", "", "absolute path of a `program` to run after each backup of the server, with the path of the backup as its argument")
	flags.Var(&f.timeout, "backup-then-timeout", "how long that program may run, 1s to 24h")
}

func (f *thenFlags) check(flags *pflag.FlagSet, every time.Duration) error {
	timeout := time.Duration(f.timeout)
	switch {
	case f.program == "" && flags.Changed("backup-then-timeout"):
		return term.Usage("add --backup-then PROGRAM", "--backup-then-timeout needs --backup-then")
	case f.program == "":
		return nil
	case every == 0:
		return term.Usage("add --backup-every 24h", "--backup-then needs --backup-every")
	case timeout < thenTimeoutMin || timeout > thenTimeoutMax:
		return term.Usage("give 1s to 24h", "--backup-then-timeout %s is out of range", &f.timeout)
	case !filepath.IsAbs(f.program):
		return term.Usage("give the whole path of one program, without arguments; a script can call another with arguments", "--backup-then %q is not an absolute path", f.program)
	}
	return othersMayWrite(f.program)
}

// othersMayWrite refuses a program that users other than root and the server's could replace.
// One that does not exist is not refused: it may be on a disk that is mounted later. Each link on
// the way to it is as good as the program.
func othersMayWrite(program string) error {
	path := program
	for range linksMax {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(dir, filepath.Base(path)) // what a link of ".." goes up from
		}
		for _, path := range []string{path, filepath.Dir(path)} {
			if err := writableByOthers(program, path); err != nil {
				return err
			}
		}
		to, err := os.Readlink(path)
		if err != nil {
			return nil // the program itself, or nothing
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return nil // the system follows no more either
}

const linksMax = 40 // as Linux has it (path_resolution(7))

func writableByOthers(program, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	uid, ours := datadir.OwnedByUs(info)
	switch {
	case !ours && uid != 0:
		return term.Fail(term.ExitConfig, "let it belong to root: chown root "+term.ShellQuote(path), "--backup-then %s: %s belongs to %s, who could replace the program", program, path, datadir.UserNamed(uid))
	case info.Mode().Perm()&0o022 != 0:
		return term.Fail(term.ExitConfig, "chmod go-w "+term.ShellQuote(path), "--backup-then %s: other users can write to %s (mode %04o)", program, path, info.Mode().Perm())
	}
	return nil
}

// backupThen runs the program, one at a time.
type backupThen struct {
	program string
	timeout time.Duration
	dir     string // of the backups
	environ []string
	log     *slog.Logger
	ended   func(ctx context.Context, err error) // notes an outcome, and counts a failure
	grace   time.Duration                        // to end after SIGTERM
	drain   time.Duration                        // the same when the server stops

	mu      sync.Mutex
	waiting string        // the backup to run it with next, or ""
	running string        // the backup that it runs with, or ""
	come    chan struct{} // receives when one waits
}

// offer has the program run with a backup. Of those that wait, the newest is left.
func (t *backupThen) offer(path string) {
	t.mu.Lock()
	passed := t.waiting
	t.waiting = path
	t.mu.Unlock()
	t.passOver(passed)
	select {
	case t.come <- struct{}{}:
	default:
	}
}

func (t *backupThen) passOver(path string) {
	if path != "" {
		t.log.Info("backup program passed over a backup", "file", path)
		t.settle(path)
	}
}

// settle notes that no run with a backup is due.
func (t *backupThen) settle(path string) {
	if err := datadir.NoteThen(path, ""); err != nil {
		t.log.Warn("cannot note the end of the backup program", "err", err)
	}
}

// isRunning reports whether the program runs with that backup.
func (t *backupThen) isRunning(path string) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running == path
}

// run runs the program with what is offered, until ctx is done, and begins with the newest of
// the backups whose runs have not ended.
func (t *backupThen) run(ctx context.Context, own []ownBackup) {
	for _, b := range own {
		if datadir.ReadNote(b.path).Then != "" {
			t.offer(b.path)
		}
	}
	for {
		select {
		case <-t.come:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		path := t.waiting
		t.waiting, t.running = "", path
		t.mu.Unlock()
		if path != "" {
			t.runWith(ctx, path)
		}
		t.mu.Lock()
		t.running = ""
		t.mu.Unlock()
	}
}

// runWith runs the program with one backup.
func (t *backupThen) runWith(ctx context.Context, path string) {
	if _, err := os.Lstat(path); err != nil {
		t.passOver(path)
		return
	}
	began := time.Now()
	err := t.once(ctx, path)
	if ctx.Err() != nil && err != nil {
		t.log.Info("backup program was ended with the server and runs again after the next start", "file", path, "err", err)
		return
	}
	t.settle(path)
	if err != nil {
		t.log.Warn("backup program failed", "file", path, "err", err, "took_seconds", time.Since(began).Seconds())
	} else {
		t.log.Info("backup program ended", "file", path, "took_seconds", time.Since(began).Seconds())
	}
	t.ended(ctx, err)
}

// missing returns why the program cannot run now, or nil.
func (t *backupThen) missing() error {
	if err := othersMayWrite(t.program); err != nil {
		return err
	}
	info, err := os.Stat(t.program)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errCannotRun, term.PathReason(err))
	case !info.Mode().IsRegular() || !isExecutable(t.program):
		return fmt.Errorf("%w: it is not executable", errCannotRun)
	}
	return nil
}

var errCannotRun = errors.New("the program cannot be run")

// begin returns the program that runs after each backup, or nil.
func (f *thenFlags) begin(ctx context.Context, r *running, dir string, environ []string) *backupThen {
	check := backupThenFailed.check
	if f.program == "" {
		if failed, err := r.failureOf(ctx, check); err == nil && failed != nil {
			r.noteOutcome(ctx, check, nil) // no run will end it
		}
		return nil
	}
	t := &backupThen{program: f.program, timeout: time.Duration(f.timeout), dir: dir, environ: environ, log: r.log, grace: thenGrace, drain: cmp.Or(r.drainFor, drainMax) - thenBeforeDrain, come: make(chan struct{}, 1)}
	t.ended = func(ctx context.Context, err error) {
		if err != nil {
			r.metrics.thenFailures.Inc()
		}
		r.noteOutcome(ctx, check, err)
	}
	if err := t.missing(); err != nil {
		r.log.Warn("the program of --backup-then cannot be run", "program", f.program, "err", err)
		r.noteOutcome(ctx, check, err)
	}
	return t
}

package server

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/desk"
	"tollhouse/store/backup/encryption"
)

// deskFlags are the settings of the operators' pages. None is stored.
type deskFlags struct {
	on      string
	from    []string
	confirm term.Duration
}

const (
	deskConfirmDefault = 15 * time.Minute
	deskConfirmMin     = time.Minute
	deskConfirmMax     = 12 * time.Hour
)

func (f *deskFlags) add(flags *pflag.FlagSet) {
	f.confirm = term.Duration(deskConfirmDefault)
	flags.StringVar(&f.on, "desk", "on", "the operators' pages at /desk: on or off; others get 404")
	flags.StringArrayVar(&f.from, "desk-from", nil, "`networks` from which operators can open the desk, separated by commas, or loopback (default: any address)")
	flags.Var(&f.confirm, "desk-confirm", "how long before operators must re-enter their password")
}

// parse returns nil if the desk is off. confirmMin is what dev relaxes.
func (f *deskFlags) parse(confirmMin time.Duration) (*desk.Config, error) {
	d := desk.Config{Confirm: time.Duration(f.confirm)}
	on, err := parseOn("desk", f.on)
	if err != nil {
		return nil, err
	}
	if d.Confirm < confirmMin || d.Confirm > deskConfirmMax {
		least := term.Duration(confirmMin)
		return nil, term.Usage("give "+least.String()+" to 12h", "--desk-confirm %s is out of range", &f.confirm)
	}
	if d.From, err = parseFrom("desk-from", f.from); err != nil || !on {
		return nil, err
	}
	return &d, nil
}

// parseOn parses a flag that turns something on or off.
func parseOn(flag, text string) (on bool, err error) {
	if text != "on" && text != "off" {
		return false, term.Usage("give on or off", "--%s %q is not valid", flag, text)
	}
	return text == "on", nil
}

// parseFrom parses networks, or returns nil if none is given.
func parseFrom(flag string, lists []string) (from []netip.Prefix, err error) {
	const hint = "give networks such as 10.0.0.0/8, or loopback"
	for _, text := range term.SplitLists(lists) {
		if text == "loopback" {
			from = append(from, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
			continue
		}
		network, err := parseNetwork(text)
		if err != nil {
			return nil, term.Usage(hint, "--%s %q is not a network", flag, text)
		}
		from = append(from, network)
	}
	if len(lists) > 0 && len(from) == 0 {
		return nil, term.Usage(hint, "--%s has no network", flag)
	}
	return from, nil
}

// desk returns the operators' pages of this server, or nil.
func (r *running) desk() *desk.Config {
	if r.config.desk == nil {
		return nil
	}
	d := *r.config.desk
	d.Check = r.searchNow
	if r.backups != nil {
		d.Backups = r.backups
	}
	return &d
}

// searchNow starts the search for damage, unless one is running.
func (r *running) searchNow() {
	select {
	case r.search <- struct{}{}:
	default:
	}
}

// deskWork is what operators have asked of the scheduled backups.
type deskWork struct {
	asked chan func(context.Context)

	mu    sync.Mutex
	state desk.BackupState
}

func newDeskWork() deskWork { return deskWork{asked: make(chan func(context.Context), 1)} }

// begin hands work to the schedule's goroutine, unless it is busy.
func (d *deskWork) begin(doing desk.BackupState, work func(context.Context) error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.IsBusy() {
		return false
	}
	d.state = doing
	d.asked <- func(ctx context.Context) { // empty: nothing was being done
		failed := ""
		if err := work(ctx); err != nil {
			failed = err.Error()
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.state = desk.BackupState{Failed: failed}
	}
	return true
}

// List returns the backups of this server, newest first.
func (s *backupSchedule) List() ([]desk.BackupFile, error) {
	own, err := s.own()
	if err != nil {
		return nil, err
	}
	var files []desk.BackupFile
	for _, b := range slices.Backward(own) {
		note := datadir.ReadNote(b.path)
		files = append(files, desk.BackupFile{Name: filepath.Base(b.path), Dir: s.dir, Made: b.made, Bytes: b.size, Encrypted: b.encrypted, Checked: note.At, Problem: note.Problem})
	}
	return files, nil
}

// Make starts a backup, like one that is due.
func (s *backupSchedule) Make() bool {
	return s.desk.begin(desk.BackupState{Making: true}, func(ctx context.Context) error {
		err := s.make(ctx, s.now())
		if ctx.Err() == nil {
			s.ended(ctx, err)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("backup failed", "err", err)
		}
		return err
	})
}

// Verify starts checking a backup.
func (s *backupSchedule) Verify(name string) (bool, error) {
	own, err := s.own()
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(own, func(b ownBackup) bool { return filepath.Base(b.path) == name })
	if i < 0 {
		return false, desk.ErrNoBackup
	}
	return s.desk.begin(desk.BackupState{Checking: name}, func(ctx context.Context) error {
		path := own[i].path
		found := verifyBackup(ctx, path)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := datadir.NoteCheck(path, s.now(), found); err != nil {
			return err
		}
		if found != nil && term.FailureOf(found).Code == term.ExitBadData {
			return nil // the list shows it
		}
		return found
	}), nil
}

// State says what is being done.
func (s *backupSchedule) State() desk.BackupState {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	state := s.desk.state
	state.Every, state.Keep = s.every, s.keep
	return state
}

// verifyBackup checks a backup slowly, alongside the work of the server, which can decrypt none.
func verifyBackup(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	form, in := encryption.Peek(&datadir.PacedReader{Ctx: ctx, R: f, Rest: datadir.RestAlone})
	if form == encryption.Plain {
		_, err = datadir.ReadBackup(ctx, in, path, nil)
	} else {
		_, err = datadir.CheckSealed(ctx, in, path)
	}
	return err
}

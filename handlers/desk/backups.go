package desk

import (
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/views"
)

// Backups makes and checks the backups of a server, behind the answer and one at a time.
type Backups interface {
	// List returns the backups of this server, newest first.
	List() ([]BackupFile, error)
	// Make begins a backup. It returns false if the server is at work on one already.
	Make() bool
	// Verify begins to check the backup with that name; see Make. Errors: ErrNoBackup.
	Verify(name string) (bool, error)
	// State says what is being done, and what the last thing came to.
	State() BackupState
}

// ErrNoBackup means that no backup has the name.
var ErrNoBackup = errors.New("no such backup")

// BackupFile is a backup of this server.
type BackupFile struct {
	Name, Dir string
	Made      time.Time
	Bytes     int64
	Encrypted bool
	Checked   time.Time // zero if only when it was made
	Problem   string    // found by the check
}

// BackupState says what is being done.
type BackupState struct {
	Making   bool
	Checking string // the name of a backup; "" for none
	Failed   string // why the last one failed; "" if it did not
	Every    time.Duration
	Keep     int // how many are kept
}

// IsBusy reports whether anything is being done.
func (s BackupState) IsBusy() bool { return s.Making || s.Checking != "" }

// backups is GET /desk/backups.
func (s *Server) backups(v *visit) error {
	p := views.BackupsProps{
		InMemory: s.site.Demo != nil, Scheduled: s.config.Backups != nil, URL: "/desk/backups", Once: onceField(),
		BackupCommand: v.s.oauth.Command("tollhouse backup FILE"),
	}
	if p.Scheduled && !p.InMemory {
		files, err := s.config.Backups.List()
		if err != nil {
			web.Note(v.ctx, slog.Any("backups_err", err))
			p.Unreadable = true
		}
		state := s.config.Backups.State()
		p.Making, p.Checking, p.Failed, p.Every, p.Keep = state.Making, state.Checking, state.Failed, state.Every, state.Keep
		for _, f := range files {
			b := views.Backup{Name: f.Name, Dir: f.Dir, Bytes: f.Bytes, Encrypted: f.Encrypted, Made: web.Moment(f.Made, v.now), Problem: f.Problem, VerifyURL: below("/desk/backups", f.Name) + "/verify"}
			if !f.Checked.IsZero() {
				b.Checked = web.Moment(f.Checked, v.now)
			}
			p.Backups = append(p.Backups, b)
		}
		newest := "FILE"
		if len(files) > 0 {
			newest = web.ShellOperand(filepath.Join(files[0].Dir, files[0].Name))
			if files[0].Encrypted {
				newest += " --identity KEY"
			}
		}
		p.RestoreCommand = v.s.oauth.Command("tollhouse restore " + newest)
	}
	p.Frame = v.frame()
	v.draw(http.StatusOK, views.Backups(p))
	return nil
}

// makeBackup is POST /desk/backups.
func (s *Server) makeBackup(v *posted) error {
	if s.site.Demo != nil {
		return web.NewProblem(http.StatusConflict, "conflict", "Data is in memory; there is nothing to back up.")
	}
	if s.config.Backups == nil {
		return web.NewProblem(http.StatusConflict, "conflict", "No backups are scheduled; start the server with --backup-every 24h.")
	}
	return v.makeOnce(func() (done onceDone, err error) {
		if !s.config.Backups.Make() {
			return done, busyWithBackups()
		}
		v.audit("backup begun")
		return onceDone{views.MadeBackup, "/desk/backups"}, v.finish(views.DoneBackupBegun, "/desk/backups")
	})
}

func busyWithBackups() *web.Problem {
	return web.NewProblem(http.StatusConflict, "conflict", "A backup is being made or checked. Wait until it is done.")
}

// verifyBackup is POST /desk/backups/:name/verify.
func (s *Server) verifyBackup(v *posted) error {
	if s.config.Backups == nil {
		return web.NewProblem(http.StatusNotFound, "not_found", "There is no such backup.")
	}
	begun, err := s.config.Backups.Verify(web.PathParam(v.r, "name"))
	switch {
	case errors.Is(err, ErrNoBackup):
		return web.NewProblem(http.StatusNotFound, "not_found", "There is no such backup.").Because(err)
	case err != nil:
		return web.NewProblem(http.StatusConflict, "conflict", "The backups cannot be read: %v.", err).Because(err)
	case !begun:
		return busyWithBackups()
	}
	v.audit("backup checked")
	return v.finish(views.DoneBackupVerifying, "/desk/backups")
}

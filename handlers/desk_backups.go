package handlers

import (
	"errors"
	"net/http"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store"
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
	Checked   time.Time // zero if only when it was made
	Problem   string    // found by the check
}

// BackupState says what is being done.
type BackupState struct {
	Doing  string // such as "A backup is being made."; "" for nothing
	Failed string // why the last one failed; "" if it did not
	Every  time.Duration
}

// deskBackups is GET /desk/backups.
func (s *Server) deskBackups(v *visit) error {
	p := v.page(v.r)
	page := views.DeskProps{Name: "backups", Title: "Backups"}
	if s.demo != nil {
		v.show(http.StatusOK, page, views.List(p, views.DeskTable{Label: "Backups", List: "backups", Empty: "Nothing is kept that would need one."}), v.backupForm())
		return nil
	}
	t := views.DeskTable{Label: "Backups", List: "backups", Columns: []string{"Made", "Name", "Size", "Checked", ""},
		Empty: "No backups here yet. The first is made when it is due, or by the button."}
	if s.desk.Backups == nil {
		t.Empty = "No backups are scheduled. Start the server with --backup-every 24h, and they are listed here."
		v.show(http.StatusOK, page, v.lastBackup(), views.List(p, t), views.Commands("A backup to a file of your choice:", "tollhouse backup FILE"))
		return nil
	}
	files, err := s.desk.Backups.List()
	if err != nil {
		return err
	}
	state := s.desk.Backups.State()
	for _, f := range files {
		checked := views.DeskCell{Text: "when it was made"}
		switch {
		case f.Problem != "":
			checked = views.DeskCell{Text: f.Problem, State: StateProblem}
		case !f.Checked.IsZero():
			checked = views.DeskCell{When: moment(f.Checked, v.now)}
		}
		t.Rows = append(t.Rows, views.DeskRow{Hook: "backup", ID: f.Name, Cells: []views.DeskCell{
			{When: moment(f.Made, v.now)}, {Text: f.Name, Code: true, Note: f.Dir}, {Text: showSize(float64(f.Bytes))}, checked,
			{Act: &views.DeskAct{Do: "verify", Action: below("/desk/backups", f.Name) + "/verify", Token: v.token(), Label: "Check", Of: f.Name}},
		}})
	}
	parts := []templ.Component{}
	if state.Doing != "" {
		page.Links = []views.Link{{Label: "Look again", Href: "/desk/backups"}}
		parts = append(parts, views.Working(state.Doing))
	}
	if state.Failed != "" {
		page.Alert = "The last one failed: " + state.Failed
	}
	parts = append(parts, v.lastBackup(), v.backupForm(), views.List(p, t), views.Commands("Backups are restored on the machine, while the server is stopped:", "tollhouse restore FILE"))
	page.Lead = "every " + ago(state.Every)[:len(ago(state.Every))-len(" ago")]
	v.show(http.StatusOK, page, parts...)
	return nil
}

// lastBackup draws the finding about the age of the newest backup.
func (v *visit) lastBackup() templ.Component {
	facts := []views.DeskFact{}
	for _, f := range v.quickFindings() {
		if f.Check == "backup" {
			facts = append(facts, views.DeskFact{Label: "Newest", DeskCell: views.DeskCell{Text: f.Detail, State: f.State, Note: f.Next}})
		}
	}
	if len(facts) == 0 {
		return templ.NopComponent
	}
	return views.Facts(v.page(v.r), "", facts)
}

func (v *visit) backupForm() templ.Component {
	return views.Form(v.page(v.r), views.DeskForm{Do: "backup", Action: "/desk/backups", Token: v.token(), Once: v.onceField(), Button: "Back up now"})
}

// deskMakeBackup is POST /desk/backups.
func (s *Server) deskMakeBackup(v *visit) error {
	if s.demo != nil {
		return newProblem(http.StatusConflict, "conflict", "Nothing is kept that would need one.")
	}
	if s.desk.Backups == nil {
		return newProblem(http.StatusConflict, "conflict", "No backups are scheduled; start the server with --backup-every 24h.")
	}
	return v.makeOnce(func() (done onceDone, err error) {
		if !s.desk.Backups.Make() {
			return done, busyWithBackups()
		}
		v.audit("backup begun", store.AuditLine{})
		return onceDone{"Backups", "/desk/backups"}, v.finish(doneBackupBegun, "/desk/backups")
	})
}

func busyWithBackups() *problem {
	return newProblem(http.StatusConflict, "conflict", "A backup is being made or checked. Wait until it is done.")
}

// deskVerifyBackup is POST /desk/backups/:name/verify.
func (s *Server) deskVerifyBackup(v *visit) error {
	if s.desk.Backups == nil {
		return newProblem(http.StatusNotFound, "not_found", "There is no such backup.")
	}
	begun, err := s.desk.Backups.Verify(pathParam(v.r, "name"))
	switch {
	case errors.Is(err, ErrNoBackup):
		return newProblem(http.StatusNotFound, "not_found", "There is no such backup.").because(err)
	case err != nil:
		return err
	case !begun:
		return busyWithBackups()
	}
	v.audit("backup checked", store.AuditLine{})
	return v.finish(doneBackupVerifying, "/desk/backups")
}

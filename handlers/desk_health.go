package handlers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/a-h/templ"

	"tollhouse/store"
	"tollhouse/views"
)

const (
	findingsKept = 10 * time.Second
	findingsMax  = 2 * time.Second // for all quick checks
)

// quickFindings keeps the findings of the quick checks for a short time.
type quickFindings struct {
	mu   sync.Mutex
	at   time.Time
	list []Finding
}

// quickFindings returns what the quick checks of doctor find.
func (v *visit) quickFindings() []Finding {
	if v.doctor == nil {
		return nil
	}
	q := &v.desk.findings
	q.mu.Lock()
	defer q.mu.Unlock()
	if age := v.now.Sub(q.at); q.list != nil && age >= 0 && age < findingsKept {
		return q.list
	}
	ctx, cancel := context.WithTimeout(v.ctx, findingsMax)
	defer cancel()
	var list []Finding
	v.doctor(ctx, false, func(f Finding) { list = append(list, f) })
	if ctx.Err() != nil {
		return list
	}
	q.at, q.list = v.now, list
	return list
}

var worst = []string{StateProblem, StateWarning, StateOK}

func worstFirst(list []Finding) []Finding {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Finding) int { return cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State)) })
	return list
}

// pageOfFinding names the page that a finding belongs to.
func pageOfFinding(f Finding) string {
	switch f.Check {
	case "backup":
		return "backups"
	case "webhooks":
		return "webhooks"
	}
	return "health"
}

// attention are the findings that need it, for the Overview.
func (v *visit) attention() (shown []views.DeskFinding) {
	for _, f := range worstFirst(v.quickFindings()) {
		if f.State == StateOK {
			continue
		}
		d := views.DeskFinding{Check: f.Check, State: f.State, Detail: sentenceOf(f.Detail), Label: "Health", Href: "/desk/health"}
		if f.Next != "" {
			d.Next = "Next: " + f.Next + "."
		}
		switch pageOfFinding(f) {
		case "backups":
			d.Label, d.Href = "Backups", "/desk/backups"
		case "webhooks":
			d.Label, d.Href = "Webhooks", deskWebhooksPath
		}
		shown = append(shown, d)
	}
	return shown
}

// sentenceOf makes a sentence of a finding's detail.
func sentenceOf(text string) string {
	if text == "" {
		return ""
	}
	return string(append([]byte{upperASCII(text[0])}, text[1:]...)) + "."
}

func upperASCII(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// deskHealth is GET /desk/health.
func (s *Server) deskHealth(v *visit) error {
	t := views.DeskTable{Label: "Findings", List: "findings", Columns: []string{"Check", "State", "Finding"}, Empty: "No check runs in this process."}
	for _, f := range worstFirst(v.quickFindings()) {
		finding := views.DeskCell{Text: f.Detail}
		if f.Next != "" {
			finding.Note = "Next: " + f.Next
		}
		t.Rows = append(t.Rows, views.DeskRow{Hook: "check", ID: f.Check, State: f.State, Cells: []views.DeskCell{{Text: f.Check}, {Text: f.State, State: f.State}, finding}})
	}
	p := v.page(v.r)
	parts := []templ.Component{views.List(p, t)}
	if s.desk.Check != nil && s.status != nil {
		last := views.DeskFact{Label: "Last search", DeskCell: views.DeskCell{Text: "not finished yet"}}
		facts := []views.DeskFact{last}
		if c := s.status(v.ctx).Check; c != nil {
			result := views.DeskCell{Text: "no damage", State: StateOK}
			if c.Damage != "" {
				result = views.DeskCell{Text: c.Damage, State: StateProblem}
			}
			facts = []views.DeskFact{
				{Label: "Last search", DeskCell: views.DeskCell{When: moment(time.Unix(c.Ended, 0), time.Now())}},
				{Label: "It took", DeskCell: views.DeskCell{Text: fmt.Sprintf("%.1f s", c.Took)}}, {Label: "Result", DeskCell: result},
			}
		}
		parts = append(parts, views.Facts(p, "Search for damage", facts),
			views.Acts(p, "Search again", []views.DeskAct{v.act("check", "/desk/health/check", "Search for damage", "")}),
			views.Commands("A search of every record, which may take minutes:", "tollhouse doctor --deep"))
	}
	v.show(http.StatusOK, views.DeskProps{Name: "health", Title: "Health"}, parts...)
	return nil
}

// deskCheck is POST /desk/health/check.
func (s *Server) deskCheck(v *visit) error {
	if s.desk.Check == nil {
		return newProblem(http.StatusNotFound, "not_found", "This server does not search for damage.")
	}
	s.desk.Check()
	v.audit("search for damage begun", store.AuditLine{})
	return v.finish(doneCheckBegun, "/desk/health")
}

// deskSettings is GET /desk/settings.
func (s *Server) deskSettings(v *visit) error {
	t := views.DeskTable{Label: "Settings", List: "settings", Columns: []string{"Name", "Value", "From", "Variable"}, Empty: "The settings of this process are not known."}
	for _, setting := range s.desk.Settings {
		t.Rows = append(t.Rows, views.DeskRow{Hook: "setting", ID: setting.Name, Cells: []views.DeskCell{
			{Text: setting.Name}, {Text: cmp.Or(setting.Value, "–")}, {Text: setting.From}, {Text: setting.Variable, Code: true},
		}})
	}
	p := v.page(v.r)
	v.show(http.StatusOK, views.DeskProps{Name: "settings", Title: "Settings", Lead: "Settings change with flags and a restart."}, views.List(p, t))
	return nil
}

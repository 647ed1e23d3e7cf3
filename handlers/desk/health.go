package desk

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
	"tollhouse/views"
)

const (
	findingsKept = 10 * time.Second
	findingsMax  = 2 * time.Second // for all quick checks
)

// quickFindings keeps the findings of the quick checks for a short time, since every page shows them.
type quickFindings struct {
	mu   sync.Mutex
	at   time.Time
	list []views.Finding
}

var worst = []string{admin.StateProblem, admin.StateWarning, admin.StateOK}

// findings are what the quick checks of doctor find, the worst first.
func (v *visit) findings() []views.Finding {
	if v.s.admin.Doctor == nil {
		return nil
	}
	q := &v.s.findings
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.list != nil && v.now.Sub(q.at).Abs() < findingsKept { // negative if the page waited for the lock
		return q.list
	}
	ctx, cancel := context.WithTimeout(v.ctx, findingsMax)
	defer cancel()
	list := []views.Finding{}
	v.s.admin.Doctor(ctx, admin.DepthKept, func(f admin.Finding) { list = append(list, v.finding(ctx, f)) })
	slices.SortStableFunc(list, func(a, b views.Finding) int {
		return cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State))
	})
	if v.ctx.Err() == nil { // also if they took too long: every page would wait as long again
		q.at, q.list = v.now, list
	}
	return list
}

func (v *visit) finding(ctx context.Context, f admin.Finding) views.Finding {
	found := views.Finding{Check: f.Check, State: f.State, Detail: f.Detail, Next: f.Next}
	if f.Check == views.CheckWebhooks {
		found.Failing, found.Since = v.failing(ctx)
	}
	if len(found.Failing) > 0 {
		found.State = admin.StateProblem
	}
	return found
}

// failing are the webhook endpoints whose receivers refuse events, and since when the first one
// does. At the desk that is a problem, since somebody has to look at the answers; a doctor that
// exits with 1 because of a receiver would be of no use.
func (v *visit) failing(ctx context.Context) (list []views.Link, since views.Moment) {
	hooks := v.s.site.Store.Webhooks
	if in, err := hooks.Instance(ctx); err != nil || in.Held {
		return nil, since // as the finding says
	}
	err := hooks.Each(ctx, func(e webhook.Endpoint) error {
		if e.Health() != webhook.HealthFailing {
			return nil
		}
		list = append(list, views.Link{Label: cmp.Or(e.Description, target.Origin(e.URL)), Href: below(deskWebhooksPath, e.ID)})
		if at := e.Trouble.Since; !at.IsZero() && (since.At.IsZero() || at.Before(since.At)) {
			since = web.Moment(at, v.now)
		}
		return nil
	})
	if err != nil {
		web.Note(v.ctx, slog.Any("webhooks_err", err))
	}
	return list, since
}

// health is GET /desk/health.
func (s *Server) health(v *visit) error {
	p := views.HealthProps{Frame: v.frame()}
	if s.config.Check != nil && s.admin.Status != nil {
		p.Search = &views.DamageSearch{CheckURL: "/desk/health/check", Command: v.s.oauth.Command("tollhouse doctor --deep")}
		if c := s.admin.Status(v.ctx).Check; c != nil {
			p.Search.Ended, p.Search.Seconds, p.Search.Damage = web.Moment(time.Unix(c.Ended, 0), time.Now()), c.Took, c.Damage
		}
	}
	v.draw(http.StatusOK, views.Health(p))
	return nil
}

// check is POST /desk/health/check.
func (s *Server) check(v *posted) error {
	if s.config.Check == nil {
		return web.NewProblem(http.StatusNotFound, "not_found", "This server does not search for damage.")
	}
	s.config.Check()
	v.audit("search for damage begun")
	return v.finish(views.DoneCheckBegun, "/desk/health")
}

// settings is GET /desk/settings.
func (s *Server) settings(v *visit) error {
	p := views.SettingsProps{Frame: v.frame()}
	if s.admin.Settings != nil {
		for _, setting := range s.admin.Settings() {
			p.Settings = append(p.Settings, views.Setting{Name: setting.Name, Value: setting.Value, From: setting.From, Variable: setting.Variable})
		}
	}
	v.draw(http.StatusOK, views.Settings(p))
	return nil
}

package desk

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/stats"
	"tollhouse/views"
)

// overview is GET /desk.
func (s *Server) overview(v *visit) error {
	p, refused := web.ParseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.RefuseRepeated("range", "account")
	}
	if refused != nil {
		return refused
	}
	name, account := cmp.Or(p.Value("range"), stats.RangeDefault), p.Value("account")
	shown, known := stats.NewRange(name, v.now)
	if !known {
		return web.InvalidParameter("range", "must be one of %s.", strings.Join(stats.RangeNames, ", "))
	}
	if account != "" {
		if err := v.knownAccount(account); err != nil {
			return err
		}
	}
	plots, err := s.site.Store.Plots(v.ctx, shown, account)
	if err != nil {
		return err
	}
	before, err := s.site.Store.Plots(v.ctx, shown.Before(), account)
	if err != nil {
		return err
	}
	page := views.OverviewProps{
		Ranges: rangeChoices(name, account), Plots: ShownPlots(plots, v.now), Earlier: ShownPlots(before, v.now), AllURL: "/desk?range=" + name,
		RefusedURL: fmt.Sprintf("%s?what=%s&from=%d", auditPath, views.FailedSignIns, shown.From().Unix()),
	}
	if account != "" {
		page.EventsURL = deskEventsPath + "?account=" + api.Escaped(account)
		page.AccountName, err = web.AccountName(v.ctx, v.s.site.Store, account)
	} else {
		page.Busiest, err = v.busiestAccounts(shown)
	}
	if err != nil {
		return err
	}
	if page.Newest, err = v.newestEvents(account); err != nil {
		return err
	}
	if page.Latest, err = v.latestEntries(); err != nil {
		return err
	}
	page.Frame = v.frame()
	v.draw(http.StatusOK, views.Overview(page))
	return nil
}

// ShownPlots are the plots as pages take them.
func ShownPlots(plots stats.Plots, now time.Time) views.Plots {
	shown := views.Plots{Range: plots.Range.Name, Now: now, Starts: plots.Range.Starts, End: plots.Range.End}
	for _, missed := range plots.Missed() {
		shown.Missed = append(shown.Missed, views.Span{From: missed.From, To: missed.To})
	}
	for _, plot := range plots.Plots {
		p := views.PlotData{Name: plot.Name}
		for _, s := range plot.Series {
			series := views.Series{Name: s.Name, Unit: string(s.Unit), Total: s.Total}
			for _, value := range s.Values {
				series.Values = append(series.Values, views.Value(value))
			}
			p.Series = append(p.Series, series)
		}
		shown.Plots = append(shown.Plots, p)
	}
	return shown
}

const latestShown = 3 // newest events, and newest failures and changes

// newestEvents are the newest events of an account or, for "", of all.
func (v *visit) newestEvents(account string) (shown []views.ListedEvent, err error) {
	accounts := []string{account}
	if account == "" {
		if accounts, err = v.s.site.Store.Events.NewestOwners(v.ctx, latestShown); err != nil {
			return nil, err
		}
	}
	type newest struct {
		deskEvent
		account string
	}
	var all []newest
	for _, account := range accounts {
		events, _, err := v.listShown(account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: latestShown})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			all = append(all, newest{e, account})
		}
	}
	slices.SortStableFunc(all, func(a, b newest) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	for _, e := range all[:min(len(all), latestShown)] {
		row, err := v.listedEvent(eventSearch{account: e.account, own: v.session.User.Account}, e.deskEvent)
		if err != nil {
			return nil, err
		}
		shown = append(shown, row)
	}
	return shown, nil
}

// latestEntries are the newest failures and changes of the audit record.
func (v *visit) latestEntries() ([]views.AuditLine, error) {
	lines, err := v.s.site.Store.GlanceAudit(v.ctx, store.AuditFilter{But: []store.Audited{store.AuditLogin, store.AuditGrant}}, latestShown)
	if err != nil {
		return nil, err
	}
	return v.auditLines(lines)
}

func rangeChoices(chosen, account string) (ranges []views.RangeChoice) {
	for _, name := range stats.RangeNames {
		url := "/desk?range=" + name
		if account != "" {
			url += "&account=" + api.Escaped(account)
		}
		ranges = append(ranges, views.RangeChoice{Range: name, URL: url, Current: name == chosen})
	}
	return ranges
}

const accountsBusiest = 5

// busiestAccounts are the accounts with most events in the range.
func (v *visit) busiestAccounts(r stats.Range) (list []views.BusyAccount, err error) {
	busiest, err := v.s.site.Store.BusiestAccounts(v.ctx, r, accountsBusiest)
	if err != nil {
		return nil, err
	}
	for _, a := range busiest {
		name, err := web.AccountName(v.ctx, v.s.site.Store, a.Owner)
		if err != nil {
			return nil, err
		}
		list = append(list, views.BusyAccount{Name: name, URL: "/desk?range=" + r.Name + "&account=" + api.Escaped(a.Owner), Events: float64(a.Count)})
	}
	return list, nil
}

package handlers

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"tollhouse/store"
	"tollhouse/store/stats"
	"tollhouse/views"
)

// deskOverview is GET /desk.
func (s *Server) deskOverview(v *visit) error {
	p, refused := parseOAuthParams(v.r.URL.RawQuery)
	if refused == nil {
		refused = p.refuseRepeated("range", "account")
	}
	if refused != nil {
		return refused
	}
	name, account := cmp.Or(p.value("range"), stats.RangeDefault), p.value("account")
	shown, known := stats.NewRange(name, v.now)
	if !known {
		return invalidParameter("range", "must be one of %s.", strings.Join(stats.RangeNames, ", "))
	}
	if account != "" {
		if err := v.knownAccount(account); err != nil {
			return err
		}
	}
	plots, err := s.store.Plots(v.ctx, shown, account)
	if err != nil {
		return err
	}
	page := v.page(v.r)
	parts := []templ.Component{views.Findings(page, v.attention()), views.Ranges(page, v.rangeLinks(name, account))}
	if plots.Behind > 0 {
		parts = append(parts, views.DeskFine("Still counting: "+countOf(int(plots.Behind), "event")+" to go."))
	}
	before, err := s.store.Plots(v.ctx, shown.Before(), account)
	if err != nil {
		return err
	}
	parts = append(parts, views.Figures(page, v.figures(plots, totalOf(before, stats.PlotEvents))))
	var figures []templ.Component
	for _, plot := range plots.Plots {
		figures = append(figures, views.Plot(page, drawPlot(plots, plot)))
	}
	lead := "as of " + v.now.UTC().Format("15:04")
	if account != "" {
		of, err := v.accountName(v.ctx, account)
		if err != nil {
			return err
		}
		lead = "events of " + of + ", " + lead
	}
	parts = append(parts, views.Plots(figures))
	if account == "" {
		accounts, err := v.busiestAccounts(shown)
		if err != nil {
			return err
		}
		parts = append(parts, views.Busiest(page, accounts))
	}
	v.show(http.StatusOK, views.DeskProps{Name: "overview", Title: "Overview", Lead: lead}, parts...)
	return nil
}

var rangeWords = map[string]string{"1h": "1 h", "24h": "24 h", "7d": "7 d", "30d": "30 d", "1y": "1 y"}

func (v *visit) rangeLinks(chosen, account string) (links []views.RangeLink) {
	for _, name := range stats.RangeNames {
		href := "/desk?range=" + name
		if account != "" {
			href += "&account=" + escaped(account)
		}
		links = append(links, views.RangeLink{Label: rangeWords[name], Href: href, Current: name == chosen})
	}
	return links
}

const accountsBusiest = 5

// busiestAccounts are the accounts with most events in the range.
func (v *visit) busiestAccounts(r stats.Range) (links []views.Link, err error) {
	busiest, err := v.store.BusiestAccounts(v.ctx, r, accountsBusiest)
	if err != nil {
		return nil, err
	}
	for _, a := range busiest {
		name, err := v.accountName(v.ctx, a.Owner)
		if err != nil {
			return nil, err
		}
		links = append(links, views.Link{Label: name, Href: "/desk?range=" + r.Name + "&account=" + escaped(a.Owner), Note: grouped(float64(a.Count))})
	}
	return links, nil
}

// totalOf is the sum of a plot's counts.
func totalOf(plots stats.Plots, name string) (total float64) {
	for _, p := range plots.Plots {
		for _, s := range p.Series {
			if p.Name == name {
				total += s.Total
			}
		}
	}
	return total
}

func seriesOf(plots stats.Plots, plot, name string) stats.Series {
	for _, p := range plots.Plots {
		for _, s := range p.Series {
			if p.Name == plot && s.Name == name {
				return s
			}
		}
	}
	return stats.Series{}
}

// last is the newest known value of a series.
func last(s stats.Series) (float64, bool) {
	for _, value := range slices.Backward(s.Values) {
		if value.Known {
			return value.Number, true
		}
	}
	return 0, false
}

// figures are the numbers above the plots.
func (v *visit) figures(plots stats.Plots, before float64) []views.Figure {
	total := func(plot string) float64 { return totalOf(plots, plot) }
	of := func(plot, name string) string {
		value, known := last(seriesOf(plots, plot, name))
		if !known {
			return "–"
		}
		return showValue(seriesOf(plots, plot, name).Unit, value)
	}
	refused := seriesOf(plots, stats.PlotSignIns, "refused").Total
	return []views.Figure{
		{Label: "Events", Value: grouped(total(stats.PlotEvents)), Note: grouped(before) + " in the " + rangeWords[plots.Range.Name] + " before"},
		{Label: "Sign-ins refused", Value: grouped(refused), Note: "of " + grouped(total(stats.PlotSignIns)),
			Href: fmt.Sprintf("/desk/audit?what=%s&from=%d", store.AuditLoginRefused, plots.Range.From().Unix())},
		{Label: "Tokens issued", Value: grouped(total(stats.PlotTokens)), Note: grouped(seriesOf(plots, stats.PlotTokens, "refresh_token").Total) + " by refresh"},
		{Label: "95 % of requests", Value: of(stats.PlotRequests, "p95"), Note: "half within " + of(stats.PlotRequests, "p50")},
		{Label: "Disk free", Value: of(stats.PlotStore, "free"), Note: "store " + of(stats.PlotStore, "store")},
	}
}

// grouped writes a count with narrow spaces between thousands.
func grouped(n float64) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func showSize(bytes float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.size {
			return strconv.FormatFloat(bytes/unit.size, 'f', 1, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
}

func showValue(unit stats.Unit, n float64) string {
	switch {
	case unit == stats.UnitBytes:
		return showSize(n)
	case unit == stats.UnitSeconds && n >= 1:
		return strconv.FormatFloat(n, 'f', 1, 64) + " s"
	case unit == stats.UnitSeconds:
		return strconv.FormatFloat(n*1000, 'f', 1, 64) + " ms"
	}
	return grouped(n)
}

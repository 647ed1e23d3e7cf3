package admin

import (
	"errors"
	"net/http"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store/record"
	"tollhouse/store/stats"
)

// AdminStats is the answer of GET /admin/stats.
type AdminStats struct {
	Range   string      `json:"range"`
	Account string      `json:"account,omitempty"` // whose events; all by default
	At      []int64     `json:"at"`                // when each bucket begins, in Unix seconds
	To      int64       `json:"to"`                // when the last one ends
	Plots   []AdminPlot `json:"plots"`
}

// AdminPlot is one plot.
type AdminPlot struct {
	Plot   string        `json:"plot"`
	Series []AdminSeries `json:"series"`
}

// AdminSeries is one series of a plot, with a value for each bucket: null if it is not
// known.
type AdminSeries struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit,omitempty"`  // seconds or bytes; counts have none
	Total  *float64   `json:"total,omitempty"` // of a count
	Values []*float64 `json:"values"`
}

// showStats is GET /admin/stats: the plots of a range.
func (s *Server) showStats(w http.ResponseWriter, r *http.Request) error {
	p, refused := web.ParseOAuthParams(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	if refused := p.RefuseRepeated("range", "account"); refused != nil {
		return refused
	}
	name, account := stats.RangeDefault, p.Value("account")
	if p.Has("range") {
		name = p.Value("range")
	}
	shown, known := stats.NewRange(name, s.site.Store.Now())
	if !known {
		return web.InvalidRequest("range must be one of %s.", strings.Join(stats.RangeNames, ", ")).On("range")
	}
	if account != "" {
		if _, err := s.site.Store.FindAccount(r.Context(), account); err != nil {
			if errors.Is(err, record.ErrNotFound) {
				return web.Absent("account", account, "tollhouse account list shows the accounts")
			}
			return err
		}
	}
	plots, err := s.site.Store.Plots(r.Context(), shown, account)
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, showStats(plots))
	return nil
}

func showStats(p stats.Plots) AdminStats {
	shown := AdminStats{Range: p.Range.Name, Account: p.Account, To: p.Range.End.Unix()}
	for _, start := range p.Range.Starts {
		shown.At = append(shown.At, start.Unix())
	}
	for _, plot := range p.Plots {
		of := AdminPlot{Plot: plot.Name}
		for _, series := range plot.Series {
			of.Series = append(of.Series, showSeries(series))
		}
		shown.Plots = append(shown.Plots, of)
	}
	return shown
}

func showSeries(s stats.Series) AdminSeries {
	shown := AdminSeries{Name: s.Name, Unit: string(s.Unit)}
	if s.Unit == stats.UnitCount {
		shown.Total = &s.Total
	}
	for _, v := range s.Values {
		if !v.Known {
			shown.Values = append(shown.Values, nil)
			continue
		}
		shown.Values = append(shown.Values, &v.Number)
	}
	return shown
}

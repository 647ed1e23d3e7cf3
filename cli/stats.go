package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/stats"
)

func (p *program) statsCommand() *cobra.Command {
	var shown, account string
	c := &cobra.Command{
		Use:   "stats",
		Short: "show events, sign-ins, tokens, requests and disk space over time",
		Long: `Show what happened in a time range: events by kind, sign-ins, tokens by grant,
requests with their median and 95th percentile, and the disk space of the store. Works
with the server running or stopped. An unknown value is -, for example because no server
ran. Times are UTC.

  1h    30 times 2 minutes        30d   30 days
  24h   24 hours                  1y    13 months
  7d    28 times 6 hours`,
		Args: operands(),
	}
	c.Flags().StringVar(&shown, "range", stats.RangeDefault, "time to show: "+strings.Join(stats.RangeNames, ", "))
	c.Flags().StringVar(&account, "account", "", "count the events of this account `id` only")
	nameVariables(c.Flags(), "STATS_")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error {
		if !slices.Contains(stats.RangeNames, shown) {
			return term.Usage("give one of "+strings.Join(stats.RangeNames, ", "), "--range %q is not valid", shown)
		}
		var found admin.AdminStats
		err := p.manage(ctx, "stats", needsData, func(a *adminClient) error {
			return a.call(ctx, "GET", only("/admin/stats", map[string]string{"range": shown, "account": account}), nil, &found)
		})
		if err != nil {
			return err
		}
		for _, plot := range found.Plots {
			if err := p.showPlot(found, plot); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

// statsLine is one bucket of a plot, as JSON. A value that is not known is null.
type statsLine struct {
	Range   string              `json:"range"`
	Account string              `json:"account,omitempty"`
	Plot    string              `json:"plot"`
	At      int64               `json:"at"` // when the bucket begins, in Unix seconds
	Values  map[string]*float64 `json:"values"`
}

func (p *program) showPlot(s admin.AdminStats, plot admin.AdminPlot) error {
	head, total := []string{strings.ToUpper(plot.Plot)}, []string{"total"}
	for _, series := range plot.Series {
		head = append(head, series.Name)
		total = append(total, showStatTotal(series))
	}
	t := p.NewTable(head...)
	for i, at := range s.At {
		line := statsLine{Range: s.Range, Account: s.Account, Plot: plot.Plot, At: at, Values: map[string]*float64{}}
		row := []string{term.ShowTime(at)}
		for _, series := range plot.Series {
			line.Values[series.Name] = series.Values[i]
			row = append(row, showStat(series.Unit, series.Values[i]))
		}
		if t.Add(row...); p.JSON {
			if err := json.NewEncoder(p.Out).Encode(line); err != nil {
				return err
			}
		}
	}
	if p.JSON {
		return nil
	}
	if strings.Join(total[1:], "") != "" {
		t.Add(total...)
	}
	err := t.Flush()
	if err == nil {
		_, err = fmt.Fprintln(p.Out)
	}
	return err
}

// unknownStat stands for a value that is not known.
const unknownStat = "-"

func showStat(unit string, v *float64) string {
	switch {
	case v == nil:
		return unknownStat
	case unit == string(stats.UnitBytes):
		return term.ShowBytes(uint64(*v))
	case unit == string(stats.UnitSeconds):
		return time.Duration(*v * float64(time.Second)).Round(10 * time.Microsecond).String()
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

func showStatTotal(s admin.AdminSeries) string {
	if s.Total == nil {
		return ""
	}
	return showStat(s.Unit, s.Total)
}

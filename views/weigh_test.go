package views_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/a-h/templ"

	"tollhouse/static"
	"tollhouse/views"
)

// TestDeskTemplatesWeigh bounds every page, with everything that it loads: a list has 50 rows,
// and each plot of the Overview a value of every series in every bucket.
//
// Promise (Browsers): a page of the desk weighs 60 KB at most, with 50 rows or with full plots
func TestDeskTemplatesWeigh(t *testing.T) {
	t.Parallel()
	const most = 60_000
	assets := 0
	for _, name := range []string{"style.css", "desk.js", "icon.svg"} {
		content, _, _ := static.Open(static.Path(name))
		assets += len(content)
	}
	for name, page := range fullScreens() {
		if size := len(render(t, page)) + assets; size > most {
			t.Errorf("%s weighs %d bytes, more than %d", name, size, most)
		}
	}
}

// fullFrame is around a page of usual names.
func fullFrame() views.Frame {
	return views.Frame{
		Page:     views.Page{Host: "pay.larkspurtea.example", SignedIn: true, Instance: "Larkspur Payments"},
		Username: "harriet.voss", SignOutToken: "v1.8kQpK1y0m3nYb7Jw2Zr5tA", FormToken: "v1.8kQpK1y0m3nYb7Jw2Zr5tA",
		Findings: []views.Finding{
			{Check: "webhooks", State: "problem", Detail: "1 of 4 endpoints is failing; the oldest undelivered event has waited 1h10m0s", Next: "look at its answers, then skip the event or retry"},
			{Check: "certificate", State: "warning", Detail: "the certificate for pay.larkspurtea.example expires in 12 days", Next: "renew it"},
		},
	}
}

const rowsFull = 50

// fullScreens are pages with as much as they show.
func fullScreens() map[string]templ.Component {
	screens := fullRecords()
	for _, of := range []string{"1h", "24h", "7d", "30d", "1y"} {
		all := fullOverview(of)
		screens["overview of "+of] = views.Overview(all)
		one := all
		one.Busiest, one.AccountName, one.EventsURL = nil, "Larkspur Tea Room", "/desk/events?account=acct_3vv2n7qk4m5h"
		screens["overview of an account, "+of] = views.Overview(one)
	}
	return screens
}

// fullPlots are plots in which every series has a value in every bucket but two, which no
// server counted.
func fullPlots(of string) views.Plots {
	p := views.Plots{Range: of, Now: goldenNow}
	each, buckets := map[string]time.Duration{"1h": 2 * time.Minute, "24h": time.Hour, "7d": 6 * time.Hour, "30d": day}[of], map[string]int{"1h": 30, "24h": 24, "7d": 28, "30d": 30, "1y": 13}[of]
	start := goldenNow.Truncate(max(each, time.Hour)).Add(-each * time.Duration(buckets-1))
	for i := range buckets {
		if of == "1y" {
			p.Starts = append(p.Starts, time.Date(2025, time.Month(3+i), 1, 0, 0, 0, 0, time.UTC))
		} else {
			p.Starts = append(p.Starts, start.Add(time.Duration(i)*each))
		}
	}
	p.End = p.Starts[buckets-1].Add(each)
	gap := []int{5, 6}
	p.Missed = []views.Span{{From: p.Starts[5], To: p.Starts[7]}}
	series := func(plot, name, unit string, base float64) {
		s := views.Series{Name: name, Unit: unit}
		for i := range buckets {
			value := views.Value{Known: true, Number: base * (0.4 + float64((i*7+len(name))%13)/10)}
			if plot != "events" && slices.Contains(gap, i) {
				value = views.Value{}
			}
			if unit == "" {
				value.Number = float64(int(value.Number))
				s.Total += value.Number
			}
			s.Values = append(s.Values, value)
		}
		if len(p.Plots) == 0 || p.Plots[len(p.Plots)-1].Name != plot {
			p.Plots = append(p.Plots, views.PlotData{Name: plot})
		}
		last := &p.Plots[len(p.Plots)-1]
		last.Series = append(last.Series, s)
	}
	for i, kind := range []string{"transaction", "invoice", "customer", "account", "recurring", "other"} {
		series("events", kind, "", 500/float64(i+1))
	}
	series("sign-ins", "right", "", 60)
	series("sign-ins", "refused", "", 9)
	series("sign-ins", "throttled", "", 4)
	for i, grant := range []string{"refresh_token", "authorization_code", "password", "client_credentials"} {
		series("tokens", grant, "", 400/float64(i+1))
	}
	series("requests", "2xx", "", 4000)
	series("requests", "4xx", "", 300)
	series("requests", "5xx", "", 4)
	series("requests", "p50", "seconds", 0.0011)
	series("requests", "p95", "seconds", 0.021)
	series("store", "store", "bytes", 440e6)
	series("store", "free", "bytes", 69.7e9)
	return p
}

func fullOverview(of string) views.OverviewProps {
	plots := fullPlots(of)
	event := fullEvents().List.Events[0]
	line := views.AuditLine{
		ID: "aud_01kk9kgbjj000qfaggyf1b9p3e", At: golden, What: "refused", Reason: "wrong_client_secret", User: views.Named{ID: "usr_1", Name: "harriet.voss"},
		Client: views.Named{ID: "tollhouse_1", Name: "Larkspur Bookkeeping"}, Source: "198.51.100.20",
	}
	p := views.OverviewProps{
		Frame: fullFrame(), Plots: plots, Earlier: plots, RefusedURL: "/desk/audit?what=login_refused&from=1772982000", AllURL: "/desk?range=" + of,
		Newest: []views.ListedEvent{event, event, event}, Latest: []views.AuditLine{line, line, line},
	}
	for _, r := range []string{"1h", "24h", "7d", "30d", "1y"} {
		p.Ranges = append(p.Ranges, views.RangeChoice{Range: r, URL: "/desk?range=" + r + "&account=acct_3vv2n7qk4m5h", Current: r == of})
	}
	for i := range 5 {
		p.Busiest = append(p.Busiest, views.BusyAccount{Name: fmt.Sprint("Larkspur Tea Room ", i), URL: "/desk?range=" + of + "&account=acct_3vv2n7qk4m5h", Events: 12_345})
	}
	return p
}

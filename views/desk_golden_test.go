package views_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"tollhouse/static"
	"tollhouse/store/storetest/must"
	"tollhouse/views"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// hostileName tries markup, a change of direction, and the whole width.
var hostileName = `<script>alert("1")</script>` + "\u202e" + strings.Repeat("W", 90)

// deskScreens are pages of the desk as the handlers fill them, with every name hostile.
func deskScreens() map[string]templ.Component {
	const token, id = "TOKEN", "0123456789"
	name := hostileName
	p := views.Page{Host: "pay.larkspurtea.example", SignedIn: true, Instance: name}
	when := views.Moment{Phrase: "2 days ago", Exact: "7 March 2026, 14:22 UTC", Stamp: "2026-03-07T14:22:00Z"}
	desk := func(d views.DeskProps, parts ...templ.Component) templ.Component {
		d.Page, d.Username, d.SignOutToken = p, name, token
		return views.Desk(d, parts)
	}
	text := func(s string) views.DeskCell { return views.DeskCell{Text: s} }
	list := func(name string, columns ...string) views.DeskTable {
		cells := []views.DeskCell{{Text: hostileName, Href: "/desk", Note: hostileName}, {Text: hostileName, Code: true}, {Text: hostileName, State: "warning"}, {When: when},
			{Act: &views.DeskAct{Do: "end", Action: "/desk/end", Token: token, Label: "End", Of: hostileName}}}
		return views.DeskTable{List: name, Label: name, Columns: columns, Older: "/desk/" + name + "?after=" + id,
			Rows: []views.DeskRow{{Hook: "row", ID: hostileName, State: "disabled", Cells: cells[:len(columns)]}}}
	}
	events := list("events", "Event", "Resource", "Source", "When")
	events.Rows[0].Hook = "event"
	events.Rows[0].Cells[0].Kind, events.Rows[0].Cells[0].Note = 3, ""
	events.Rows[0].Cells[2].State = ""
	events.Tail, events.TailRow = "/desk/event-tail?after="+id, "/desk/events/EVENT"
	filter := views.Form(p, views.DeskForm{Action: "/desk/events", Button: "Filter", Clear: "/desk/events", Fields: []views.DeskField{
		{Name: "type", Label: "Type", Value: name, Suggestions: []string{name}, Wrong: name},
		{Name: "order", Label: "Order", As: "select", Options: []views.DeskOption{{Value: "desc", Label: "Newest first", Chosen: true}, {Value: name, Label: name}}},
	}})
	client := views.Form(p, views.DeskForm{Do: "save-client", Action: "/desk/clients/demo", Token: token, Once: "ONCE", Heading: "Details", Text: name, Button: "Save", Links: []views.Link{{Label: name, Href: "/desk"}}, Fields: []views.DeskField{
		{Name: "version", As: "hidden", Value: "1"},
		{Name: "name", Label: "Name", Value: name, Required: true, Hint: "People see it."},
		{Name: "redirect_uris", Label: "Redirect URIs", Value: name, As: "lines", Wrong: name},
		{Name: "public", Label: "It has no secret", As: "box", Checked: true},
		{Name: "scopes", Label: "Permissions", As: "boxes", Hint: "What it may ask for.", Options: []views.DeskOption{{Value: "read", Label: name, Chosen: true}, {Value: "write", Label: "Write"}}},
	}})
	plot := views.PlotProps{Name: "events", Title: "Events", Range: "24h", From: 1772895600, To: 1772982000, Behind: 3, Caption: "Events by hour", Description: "3 in all.", Summary: "3 in all", Width: 960, Height: 200, Left: 48,
		Series: []views.PlotSeries{{Name: name, Label: name, Sum: "3", Colour: 1}},
		Paths:  []views.PlotPath{{Colour: 1, D: "M48 180h18v-160h-18z"}, {Colour: 3, D: "M48 180L80 20", Line: true}},
		Veils:  []views.PlotVeil{{X: 900, Y: 20, Width: 18, Height: 160}},
		Ticks:  []views.PlotTick{{Y: 180, Label: "0"}, {Y: 20}},
		Labels: []views.PlotLabel{{X: 57, Y: 196, Text: "15:00"}, {X: 95, Y: 196, Text: "16:00", Second: true}},
		Rows: []views.PlotRow{{At: 1772895600, Label: "15:00", Href: "/desk/events?from=1772895600", Cells: []views.PlotCell{{Text: "3"}}},
			{At: 1772899200, Label: "16:00", Cells: []views.PlotCell{{Text: "4.2 ms", Data: "0.0042"}}}},
		Totals: []views.PlotCell{{Text: "3"}}}
	empty := views.PlotProps{Name: "tokens", Title: "Tokens", Range: "24h", From: 1772895600, To: 1772982000, Caption: "Tokens by hour", Description: "None.", Width: 460, Height: 200, Left: 48,
		Rows: []views.PlotRow{{At: 1772895600, Label: "15:00", Cells: []views.PlotCell{{Text: "–"}}}}}
	detail := views.Panel(p, name, []templ.Component{
		views.Facts(p, "", []views.DeskFact{{Label: "Source", DeskCell: text(name)}, {Label: "When", DeskCell: views.DeskCell{When: when}}}),
		views.Diff([]views.DeskChange{{Member: name, Before: name, After: name}, {Member: "a.new", After: name, New: true}, {Member: "a.gone", Before: name, Gone: true}}),
		views.Folded("JSON", name+"\n"+name, false), views.Folded("curl", name, true),
	}, []views.DeskLink{{Label: name, Href: "/desk/events/raw", Hook: "raw"}})
	return map[string]templ.Component{
		"overview": desk(views.DeskProps{Name: "overview", Title: "Overview", Lead: name, Attention: []string{"backups"}},
			views.Findings(p, []views.DeskFinding{{Check: "backup", State: "warning", Detail: name, Next: name, Label: "Backups", Href: "/desk/backups"}}),
			views.Ranges(p, []views.RangeLink{{Label: "24 hours", Href: "/desk", Current: true}, {Label: "7 days", Href: "/desk?range=7d"}}),
			views.Figures(p, []views.Figure{{Label: "Events", Value: "3", Note: "1 before"}, {Label: "Refused", Value: "0", Href: "/desk/audit"}}),
			views.Plots([]templ.Component{views.Plot(p, plot), views.Plot(p, empty)}), views.Busiest(p, []views.Link{{Label: name, Href: "/desk", Note: "3"}, {Label: name, Href: "/desk"}})),
		"events":      desk(views.DeskProps{Name: "events", Title: "Events"}, filter, views.List(p, events)),
		"events-none": desk(views.DeskProps{Name: "events", Title: "Events"}, views.List(p, views.DeskTable{List: "events", Label: "Events", Empty: "Nothing matches.", Clear: "/desk/events"})),
		"event":       desk(views.DeskProps{Name: "event", Title: name}, views.Beside([]templ.Component{views.List(p, list("events", "Event", "Resource"))}, []templ.Component{detail})),
		"client":      desk(views.DeskProps{Name: "client", Title: name, Alert: "Nothing was saved."}, client, views.Acts(p, "Use", []views.DeskAct{{Do: "disable-client", Action: "/desk/clients/demo/disable", Token: token, Label: "Disable", Of: name}})),
		"new-client": desk(views.DeskProps{Name: "new-client", Title: "Registered", Notice: name, Links: []views.Link{{Label: "Open the client", Href: "/desk/clients/demo"}}},
			views.Secret(views.DeskSecret{Label: "Secret", Hook: "secret", Value: "SECRET", IDHook: "client-id", ID: "demo", Text: name, Command: "curl\n" + name})),
		"users":      desk(views.DeskProps{Name: "users", Title: "Users"}, views.List(p, list("users", "User", "Account", "State", "Last sign-in", ""))),
		"audit":      desk(views.DeskProps{Name: "audit", Title: "Audit"}, filter, views.List(p, list("audit", "What", "Who", "How", "When"))),
		"backups":    desk(views.DeskProps{Name: "backups", Title: "Backups"}, views.Working("A backup is being made."), views.List(p, list("backups", "File", "Size", "State", "When")), views.Commands(name, "tollhouse restore FILE")),
		"health":     desk(views.DeskProps{Name: "health", Title: "Health"}, views.List(p, list("health", "Check", "Detail", "State"))),
		"settings":   desk(views.DeskProps{Name: "settings", Title: "Settings"}, views.List(p, list("settings", "Setting", "Value")), views.DeskFine(name)),
		"confirm":    desk(views.DeskProps{Name: "confirm", Title: "Confirm"}, views.Confirm(p, views.ConfirmForm{Action: "/desk/clients/demo", Username: name, Fields: []views.Detail{{Label: "name", Value: name}}})),
		"send-again": desk(views.DeskProps{Name: "confirm", Title: "Send it again"}, views.Confirm(p, views.ConfirmForm{Action: "/desk/clients/demo", Fields: []views.Detail{{Label: "name", Value: name}}})),
	}
}

// assetHash is the part of an asset's address that changes with its bytes.
var assetHash = regexp.MustCompile(`(/static/[a-z]+)\.[0-9a-f]{12}\.`)

// unseen is what may send a name back as it came: attributes, and the text of a field.
var unseen = regexp.MustCompile(`(?s)="[^"]*"|<textarea.*?</textarea>`)

func TestDeskGoldenPages(t *testing.T) {
	t.Parallel()
	for name, c := range deskScreens() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := render(t, c)
			if strings.Contains(page, "<script>") || strings.Contains(unseen.ReplaceAllString(page, ""), "\u202e") {
				t.Error("the page has a name as it came")
			}
			got := strings.ReplaceAll(assetHash.ReplaceAllString(page, "$1."), "><", ">\n<")
			if name != "overview" { // whose file has the frame of all
				got = got[strings.Index(got, "<main"):strings.Index(got, "</main>")]
			}
			path := filepath.Join("testdata", "desk-"+name+".golden.html")
			if *update {
				must.Do(t, os.MkdirAll("testdata", 0o755))
				must.Do(t, os.WriteFile(path, []byte(got), 0o644))
			}
			if want := string(must.Get(os.ReadFile(path))(t)); got != want {
				t.Errorf("%s differs; got\n%s", path, got)
			}
		})
	}
}

var currentPlace = regexp.MustCompile(`aria-current="page">\s*(\w+)`)

func TestDeskNavigationMarksThePage(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"events": "Events", "event": "Events", "resource": "Resources", "new-client": "Clients", "user": "Users", "health": "Health"} {
		marked := currentPlace.FindAllStringSubmatch(render(t, views.Desk(views.DeskProps{Name: name}, nil)), -1)
		if len(marked) != 2 || marked[0][1] != want || marked[1][1] != want { // the navigation stands there twice
			t.Errorf("the page %s is marked in the navigation as %q, want %s twice", name, marked, want)
		}
	}
}

// TestDeskTemplatesWeigh bounds a list of 50 rows with everything that the page loads.
func TestDeskTemplatesWeigh(t *testing.T) {
	t.Parallel()
	const most, rows = 60_000, 50
	assets := 0
	for _, name := range []string{"style.css", "desk.js", "icon.svg"} {
		content, _, _ := static.Open(static.Path(name))
		assets += len(content)
	}
	table := views.DeskTable{List: "events", Columns: []string{"Event", "Resource", "Source", "When"}}
	for range rows {
		id := "evt_01kk9kgbjj000qfaggyf1b9p3e"
		table.Rows = append(table.Rows, views.DeskRow{Hook: "event", ID: id, Cells: []views.DeskCell{
			{Text: "transaction.updated", Kind: 1, Href: "/desk/events/" + id}, {Text: "txn_01kk9kgbjj000qfaggyf1b9p3e", Code: true, Href: "/desk/events?resource=txn_01kk9kgbjj000qfaggyf1b9p3e"},
			{Text: "Larkspur Bookkeeping"}, {When: views.Moment{Phrase: "2 days ago", Exact: "7 March 2026, 14:22:01 UTC", Stamp: "2026-03-07T14:22:01Z"}}}})
	}
	if size := len(render(t, views.Desk(views.DeskProps{Name: "events", Title: "Events"}, []templ.Component{views.List(page, table)}))) + assets; size > most {
		t.Errorf("the page weighs %d bytes, more than %d", size, most)
	}
}

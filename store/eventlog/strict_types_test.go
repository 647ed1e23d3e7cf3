package eventlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

func withStrictTypes(o *store.Options) { o.StrictTypes = true }

func typedLine(typ string, n int) string {
	return fmt.Sprintf(`{"id":"evt_own_%d","type":%q,"resource":"x_1","createdAt":1700000000,"eventData":{"object":{}}}`, n, typ)
}

// refusedFor returns the reason and member of a refusal, "" if there is none.
func refusedFor(t *testing.T, err error) (reason, param string) {
	t.Helper()
	var bad *record.InvalidError
	if errors.As(err, &bad) {
		return bad.Reason, bad.Field
	}
	if err != nil {
		t.Errorf("error %v, want *InvalidError or none", err)
	}
	return "", ""
}

func TestStrictTypes(t *testing.T) {
	t.Parallel()
	g := storetest.New(t, withStrictTypes)
	storetest.ImportLines(t, g.Store, "acct_1", typedLine("kiosk.opened", 1))
	for typ, want := range map[string]string{
		"customer.created":  "",
		"customer.craeted":  "customer.created",
		"custmer.created":   "customer.created",
		"custmer.craeted":   "customer.created",
		"kiosk.opened":      "",
		"kiosk.openned":     "kiosk.opened",
		"kiosks.opened":     "kiosk.opened",
		"order.created":     "", // not user.created
		"ticket.created":    "", // not token.created
		"deposit.updated":   "", // not deposit.created
		"widget.polished":   "",
		"*":                 "",
		"customer.*":        "",
		"custmer.*":         "customer.*",
		"kiosk.*":           "",
		"*.created":         "",
		"*.craeted":         "*.created",
		"widget.*":          "",
		"*.polished":        "",
		"transactoin.*":     "transaction.*",
		"invoice.writen_of": "invoice.written_off",
	} {
		reason, param := refusedFor(t, g.Events.CheckTypes(t.Context(), "acct_1", typ))
		switch {
		case want == "" && reason != "":
			t.Errorf("%s: %s, want it accepted", typ, reason)
		case want != "" && (param != "type" || !strings.HasSuffix(reason, "did you mean "+want+"?")):
			t.Errorf("%s: %q of %q, want %s", typ, reason, param, want)
		}
	}
	t.Run("of_another_account_are_unknown", func(t *testing.T) {
		if reason, _ := refusedFor(t, g.Events.CheckTypes(t.Context(), "acct_2", "kiosk.opened", "kiosk.openned")); reason != "" {
			t.Errorf("%s, want both accepted: they resemble no type of this account", reason)
		}
	})
	t.Run("are_off_unless_asked_for", func(t *testing.T) {
		if err := storetest.New(t).Events.CheckTypes(t.Context(), "acct_1", "custmer.created"); err != nil {
			t.Error(err)
		}
	})
}

func TestStrictTypesOfChanges(t *testing.T) {
	t.Parallel()
	g := storetest.New(t, withStrictTypes)
	body := must.Get(snapshot.Parse([]byte(`{"displayName":"Larkspur"}`), snapshot.DepthMax))(t)
	put := func(kind, action string) error {
		_, err := g.Events.PutResource(t.Context(), eventlog.ResourceChange{Owner: "acct_1", Kind: kind, ID: "x_1", Action: action}, body)
		return err
	}
	must.Do(t, put("customer", ""))
	for _, c := range []struct{ kind, action, param, meant string }{
		{"customer", "mergd", "action", "customer.merged"},
		{"custmer", "", "kind", "customer.*"},
		{"customer", "polished", "", ""},
		{"widget", "", "", ""},
		{"batch", "", "", ""}, // the catalogue has no batch.created
	} {
		reason, param := refusedFor(t, put(c.kind, c.action))
		if param != c.param || !strings.Contains(reason, c.meant) {
			t.Errorf("%s, action %q: %q of %q, want %q of %q", c.kind, c.action, reason, param, c.meant, c.param)
		}
	}
	patch := eventlog.ResourceChange{Owner: "acct_1", Kind: "customer", ID: "x_1", Action: "mergd"}
	if _, err := g.Events.PatchResource(t.Context(), patch, body); err == nil {
		t.Error("PatchResource() = nil, want the action refused")
	}
	event := must.Get(eventlog.ParseNewEvent([]byte(`{"type":"custmer.created","resource":"x_2","eventData":{"object":{}}}`), "acct_1"))(t)
	if _, err := g.Events.RecordEvent(t.Context(), event); err == nil {
		t.Error("RecordEvent() = nil, want the type refused")
	}
}

func TestImportOfUnknownTypes(t *testing.T) {
	t.Parallel()
	lines := []string{
		typedLine("custmer.created", 1), typedLine("customer.created", 2), typedLine("custmer.created", 3),
		typedLine("widget.polished", 4), typedLine("invoice.piad", 5), typedLine("custmer.created", 6),
	}
	run := func(t *testing.T, g *storetest.Fixture, o eventlog.ImportOptions) (*eventlog.Importer, []eventlog.LineError) {
		im := must.Get(g.Events.NewImporter("acct_1", o))(t)
		var refused []eventlog.LineError
		for _, line := range lines {
			refused = append(refused, must.Get(im.Add(t.Context(), []byte(line), 0))(t)...)
		}
		if !im.Stopped() {
			refused = append(refused, must.Get(im.Flush(t.Context()))(t)...)
		}
		return im, refused
	}
	want := []eventlog.UnknownType{{Type: "custmer.created", Nearest: "customer.created", Count: 3}, {Type: "invoice.piad", Nearest: "invoice.paid", Count: 1}}
	t.Run("are_counted", func(t *testing.T) {
		t.Parallel()
		g := storetest.New(t)
		im, refused := run(t, g, eventlog.ImportOptions{})
		if got := im.UnknownTypes(); len(refused) > 0 || !slices.Equal(got, want) || im.Summary().Recorded != len(lines) {
			t.Errorf("%+v, refused %v, want %+v", got, refused, want)
		}
		if im, _ = run(t, g, eventlog.ImportOptions{}); len(im.UnknownTypes()) > 0 {
			t.Errorf("the second run reports %+v, although they are recorded now", im.UnknownTypes())
		}
	})
	for name, c := range map[string]struct {
		change []func(*store.Options)
		strict bool
	}{"of_the_import": {nil, true}, "of_the_store": {[]func(*store.Options){withStrictTypes}, false}} {
		t.Run("are_refused_by_strict_types_"+name, func(t *testing.T) {
			t.Parallel()
			im, refused := run(t, storetest.New(t, c.change...), eventlog.ImportOptions{StrictTypes: c.strict, SkipErrors: true})
			if im.Summary().Recorded != 2 || len(im.UnknownTypes()) > 0 {
				t.Errorf("%+v, %+v, want two recorded and none counted", im.Summary(), im.UnknownTypes())
			}
			for i, number := range []int{1, 3, 5, 6} {
				if i >= len(refused) || refused[i].Line != number || refused[i].Param != "type" || !strings.Contains(refused[i].Reason, "did you mean ") {
					t.Fatalf("refused %+v, want lines 1, 3, 5 and 6", refused)
				}
			}
		})
	}
}

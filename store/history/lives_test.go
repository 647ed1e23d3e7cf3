package history_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// before is the model of the lives: which event may directly follow which, for one
// resource. It is written independently of the code.
var before = map[string][]string{
	"transaction.authorized":           {"transaction.created"},
	"transaction.declined":             {"transaction.created"},
	"transaction.captured":             {"transaction.authorized"},
	"transaction.voided":               {"transaction.authorized"},
	"transaction.settled":              {"transaction.captured"},
	"transaction.partially_refunded":   {"transaction.settled", "transaction.partially_refunded"},
	"transaction.refunded":             {"transaction.settled", "transaction.partially_refunded"},
	"transaction.disputed":             {"transaction.settled"},
	"transaction.dispute_won":          {"transaction.disputed"},
	"transaction.dispute_lost":         {"transaction.disputed"},
	"transaction.ach_submitted":        {"transaction.created"},
	"transaction.ach_return":           {"transaction.ach_submitted"},
	"transaction.ach_process_error":    {"transaction.ach_submitted"},
	"transaction.ach_notice_of_change": {"transaction.ach_submitted"},
	"transaction.ach_settled":          {"transaction.ach_submitted", "transaction.ach_notice_of_change"},

	"invoice.sent":           {"invoice.created"},
	"invoice.viewed":         {"invoice.sent"},
	"invoice.voided":         {"invoice.sent"},
	"invoice.paid":           {"invoice.sent", "invoice.viewed", "invoice.partially_paid", "invoice.payment_failed", "invoice.reminder_sent"},
	"invoice.partially_paid": {"invoice.sent", "invoice.viewed", "invoice.payment_failed"},
	"invoice.payment_failed": {"invoice.sent", "invoice.viewed", "invoice.partially_paid", "invoice.payment_failed", "invoice.reminder_sent"},
	"invoice.overdue":        {"invoice.sent", "invoice.viewed", "invoice.payment_failed"},
	"invoice.reminder_sent":  {"invoice.overdue", "invoice.reminder_sent"},
	"invoice.written_off":    {"invoice.reminder_sent"},

	"recurring.updated":         {"recurring.created", "recurring.updated", "recurring.resumed", "recurring.retry_scheduled"},
	"recurring.paused":          {"recurring.updated", "recurring.retry_scheduled"},
	"recurring.resumed":         {"recurring.paused"},
	"recurring.payment_failed":  {"recurring.updated", "recurring.retry_scheduled"},
	"recurring.retry_scheduled": {"recurring.payment_failed"},
	"recurring.completed":       {"recurring.updated", "recurring.retry_scheduled"},
	"recurring.deleted":         {"recurring.created", "recurring.updated", "recurring.payment_failed", "recurring.resumed", "recurring.retry_scheduled"},

	"deposit.settled": {"deposit.created"},
}

// life is the model's state of one resource.
type life struct {
	last   event
	ended  bool
	open   int // lives that go on and name this one
	submit time.Time
}

// model judges events one by one.
type model struct {
	t     *testing.T
	lives map[string]*life
}

// TestLives reads a history as a client that mirrors every resource would.
//
// Promise (§3.4, §3.5): lives are causally ordered; previousAttributes undo each change; names and
// numbers are fictitious; business hours, firsts of a month, several events in a second
func TestLives(t *testing.T) {
	t.Parallel()
	var events []event
	for line := range bytes.Lines(linesOf(t, planOf(42, 12_000))) {
		events = append(events, parseEvent(t, line))
	}
	for name, check := range map[string]func(*model, event, *life){
		"lives_are_in_causal_order":                           (*model).inOrder,
		"nothing_happens_to_what_is_not_there":                (*model).refersToWhatIsThere,
		"no_customer_is_deleted_while_payments_continue":      (*model).letsEnd,
		"money_adds_up":                                       (*model).addsUp,
		"banks_settle_in_one_to_four_weekdays":                (*model).settlesOnWeekdays,
		"addresses_phones_and_numbers_are_fictional":          (*model).isFictional,
		"types_snapshots_and_sources_are_those_of_the_papers": (*model).isDocumented,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, lives: map[string]*life{}}
			for _, e := range events {
				l := m.lives[e.Resource]
				if l == nil {
					l = &life{}
					m.lives[e.Resource] = l
				}
				if check(m, e, l); t.Failed() {
					t.Fatalf("at %s, %s of %s: %v", e.ID, e.Type, e.Resource, e.EventData)
				}
				l.last = e
				l.ended = l.ended || strings.HasSuffix(e.Type, ".deleted")
			}
		})
	}
}

func (m *model) inOrder(e event, l *life) {
	kind, action, _ := strings.Cut(e.Type, ".")
	begins := action == "created" || e.Type == "batch.closed"
	switch allowed, bound := before[e.Type]; {
	case begins != (l.last.Type == ""):
		m.t.Errorf("%s comes after %q", e.Type, l.last.Type)
	case l.ended:
		m.t.Errorf("%s comes after %s", e.Type, l.last.Type)
	case begins:
	case bound && !slices.Contains(allowed, l.last.Type):
		m.t.Errorf("%s comes after %s", e.Type, l.last.Type)
	case !bound && kind != "customer" && kind != "account":
		m.t.Errorf("%s is no part of a life that the model knows", e.Type)
	}
}

func (m *model) refersToWhatIsThere(e event, l *life) {
	if l.last.Type != "" {
		return
	}
	for _, member := range []string{"customer", "account", "invoice", "batch", "reference"} {
		id, refers := e.EventData.Object[member].(string)
		if other := m.lives[id]; refers && (other == nil || other.last.Type == "" || other.ended) {
			m.t.Errorf("%s refers to %s %s, which does not exist", e.Type, member, id)
		}
	}
	if id, ok := e.EventData.Object["account"].(string); ok {
		status := m.lives[id].last.EventData.Object["status"]
		if e.Type == "transaction.created" && status != "active" && status != "expiring" {
			m.t.Errorf("a payment is taken from an account that is %v", status)
		}
	}
}

// endings are the last events of lives, except those that may follow a settled sale.
var endings = []string{
	"transaction.declined", "transaction.voided", "transaction.settled", "transaction.ach_settled", "transaction.ach_return", "transaction.ach_process_error",
	"invoice.paid", "invoice.voided", "invoice.written_off", "recurring.completed", "recurring.deleted",
}

func (m *model) letsEnd(e event, l *life) {
	if l.open > 0 && strings.HasSuffix(e.Type, ".deleted") {
		m.t.Errorf("%s while %d payments, invoices or schedules go on", e.Type, l.open)
	}
	kind, action, _ := strings.Cut(e.Type, ".")
	goesOn := 0
	switch {
	case slices.Contains(endings, e.Type):
		goesOn = -1
	case action == "created" && kind != "account" && kind != "deposit":
		goesOn = 1
	}
	for _, member := range []string{"customer", "account"} {
		if id, ok := e.EventData.Object[member].(string); ok && m.lives[id] != nil {
			m.lives[id].open += goesOn
		}
	}
}

func cents(t *testing.T, e event, member string) int64 {
	t.Helper()
	text, _ := e.EventData.Object[member].(string)
	n, err := strconv.ParseInt(strings.Replace(text, ".", "", 1), 10, 64)
	if err != nil {
		t.Fatalf("%s %q: %v", member, text, err)
	}
	return n
}

func (m *model) addsUp(e event, l *life) {
	switch e.Type {
	case "transaction.refunded", "transaction.partially_refunded":
		amount, given := cents(m.t, e, "amount"), cents(m.t, e, "refundedAmount")
		if given > amount || (e.Type == "transaction.refunded") != (given == amount) {
			m.t.Errorf("%s: %d of %d cents", e.Type, given, amount)
		}
		if l.last.Type == "transaction.partially_refunded" && given <= cents(m.t, l.last, "refundedAmount") {
			m.t.Errorf("a refund takes back another")
		}
	case "invoice.created", "invoice.sent", "invoice.viewed", "invoice.overdue", "invoice.partially_paid", "invoice.paid", "invoice.payment_failed":
		total, paid, due := cents(m.t, e, "total"), cents(m.t, e, "amountPaid"), cents(m.t, e, "amountDue")
		if total != paid+due || total != cents(m.t, e, "subtotal")+cents(m.t, e, "tax") || (e.Type == "invoice.paid") != (due == 0) {
			m.t.Errorf("%s: total %d, paid %d, due %d", e.Type, total, paid, due)
		}
	}
}

func (m *model) settlesOnWeekdays(e event, l *life) {
	at := time.Unix(e.CreatedAt, 0).UTC()
	switch e.Type {
	case "transaction.ach_submitted":
		l.submit = at
	case "transaction.settled", "transaction.ach_settled", "transaction.ach_return", "deposit.settled":
		if !isWeekday(at) {
			m.t.Errorf("%s on %s", e.Type, at.Format("Mon 2006-01-02"))
		}
	}
	if e.Type != "transaction.ach_settled" {
		return
	}
	most := 4
	if l.last.Type == "transaction.ach_notice_of_change" {
		most = 5
	}
	days := 0
	for d := l.submit.Truncate(24 * time.Hour); d.Before(at.Truncate(24 * time.Hour)); {
		if d = d.AddDate(0, 0, 1); isWeekday(d) {
			days++
		}
	}
	if days < 1 || days > most {
		m.t.Errorf("settled %d weekdays after %s", days, l.submit)
	}
}

func isWeekday(at time.Time) bool {
	return at.Weekday() != time.Saturday && at.Weekday() != time.Sunday
}

func (m *model) isFictional(e event, _ *life) {
	o := e.EventData.Object
	if email, ok := o["email"].(string); ok && !strings.HasSuffix(email, ".example") {
		m.t.Errorf("email %q", email)
	}
	if phone, ok := o["phone"].(string); ok && (len(phone) != 10 || phone[3:8] != "55501") {
		m.t.Errorf("phone %q", phone)
	}
	if zip, ok := o["zip"].(string); ok && (len(zip) != 5 || zip[:2] != "00") {
		m.t.Errorf("zip %q", zip)
	}
	if last4, ok := o["last4"].(string); ok && len(last4) != 4 {
		m.t.Errorf("last4 %q", last4)
	}
}

// catalogue lists the types of the kinds that happen here.
var catalogue = map[string]string{
	"customer":    "created updated deleted",
	"account":     "created updated deleted autoupdate autoupdate_closed expiring expired",
	"transaction": "created authorized captured declined voided settled refunded partially_refunded ach_submitted ach_process_error ach_return ach_notice_of_change ach_settled disputed dispute_won dispute_lost",
	"invoice":     "created sent viewed reminder_sent paid partially_paid payment_failed overdue voided written_off",
	"recurring":   "created updated deleted paused resumed completed payment_failed retry_scheduled",
	"batch":       "closed",
	"deposit":     "created settled",
}

func (m *model) isDocumented(e event, _ *life) {
	kind, action, _ := strings.Cut(e.Type, ".")
	if !slices.Contains(strings.Fields(catalogue[kind]), action) {
		m.t.Errorf("the catalogue has no %s", e.Type)
	}
	if e.Location != "generator" || e.Source == "" || e.Owner != "" {
		m.t.Errorf("location %q, source %q, owner %q", e.Location, e.Source, e.Owner)
	}
	if e.EventData.Object["id"] != e.Resource || e.EventData.Object["object"] != kind {
		m.t.Errorf("the snapshot is of another resource")
	}
}

// TestSnapshots reads a history with the code that keeps resources, and rebuilds them.
//
// Promise (§3.2): previousAttributes merged into the new snapshot give the previous one
func TestSnapshots(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	broken := map[string]string{} // by the promise
	replayed, others := map[string]snapshot.Value{}, map[string]any{}
	for line := range bytes.Lines(linesOf(t, planOf(9, 8_000))) {
		v := must.Get(snapshot.Parse(line, snapshot.DepthMax+2))(t)
		e := parseEvent(t, line)
		promise := func(name string, kept bool) {
			if !kept && broken[name] == "" {
				broken[name] = string(line)
			}
		}
		kind, action, _ := strings.Cut(e.Type, ".")
		data, _ := v.Member("eventData")
		object, _ := data.Member("object")
		previous, changed := data.Member("previousAttributes")
		was, known := replayed[e.Resource]
		promise("snapshots_have_the_documented_fields", snapshot.Rules{}.Check(kind, e.Resource, object) == nil)
		promise("the_card_number_guard_passes", snapshot.FindSensitive(v) == nil)
		promise("a_beginning_replaces_nothing", known || !changed)
		promise("previousAttributes_undo_the_change", !known || mergeOf(object, previous, changed).Equal(was))
		promise("previousAttributes_undo_the_change_for_others", !known ||
			reflect.DeepEqual(plainMerge(e.EventData.Object, e.EventData.PreviousAttributes), others[e.Resource]))
		promise("an_update_changes_something", action != "updated" || changed)
		promise("what_is_deleted_is_shown_as_it_was", action != "deleted" || object.Equal(was))
		promise("snapshots_are_in_the_order_that_changes_give_them", snapshot.Rules{}.Complete(kind, e.Resource, object, was, "").String() == object.String())
		replayed[e.Resource], others[e.Resource] = object, plainObject(t, object)
	}
	for _, name := range []string{
		"snapshots_have_the_documented_fields", "the_card_number_guard_passes", "a_beginning_replaces_nothing", "previousAttributes_undo_the_change",
		"previousAttributes_undo_the_change_for_others", "an_update_changes_something", "what_is_deleted_is_shown_as_it_was", "snapshots_are_in_the_order_that_changes_give_them",
	} {
		t.Run(name, func(t *testing.T) {
			if line := broken[name]; line != "" {
				t.Errorf("not so in %s", line)
			}
			delete(broken, name)
		})
	}
	for name := range broken {
		t.Errorf("no subtest speaks of %s", name)
	}
}

func mergeOf(object, previous snapshot.Value, changed bool) snapshot.Value {
	if !changed {
		return object
	}
	return snapshot.Merge(object, previous)
}

func plainObject(t *testing.T, v snapshot.Value) any {
	t.Helper()
	var plain any
	must.Do(t, json.Unmarshal(v.Append(nil), &plain))
	return plain
}

// plainMerge is RFC 7396 §2, as it stands there.
func plainMerge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged := map[string]any{}
	if object, ok := target.(map[string]any); ok {
		for name, value := range object {
			merged[name] = value
		}
	}
	for name, value := range changes {
		if value == nil {
			delete(merged, name)
			continue
		}
		merged[name] = plainMerge(merged[name], value)
	}
	return merged
}

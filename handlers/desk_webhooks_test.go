package handlers_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/handlers/api"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// answeringSender answers every test with a status.
type answeringSender struct{ status int }

func (s answeringSender) Test(context.Context, string) (api.WebhookTest, error) {
	return api.WebhookTest{Delivered: s.status < 300, Status: &s.status, MS: 4, WebhookID: "evt_01kk9kgbjj00023m5qehe9m3gk"}, nil
}

// failingSender fails every test.
type failingSender struct{ err error }

func (s failingSender) Test(context.Context, string) (api.WebhookTest, error) {
	return api.WebhookTest{}, s.err
}

// renewingSender does what the sender does with an accepted test.
type renewingSender struct {
	answeringSender
	accepted func() error
}

func (s *renewingSender) Test(ctx context.Context, id string) (api.WebhookTest, error) {
	if err := s.accepted(); err != nil {
		return api.WebhookTest{}, err
	}
	return s.answeringSender.Test(ctx, id)
}

func TestDeskWebhookTestShowsTheEndpointAsItIsAfterwards(t *testing.T) {
	sender := &renewingSender{answeringSender: answeringSender{http.StatusNoContent}}
	h, b := deskHouse(t, func(c *handlers.Config) { c.Webhooks = sender })
	e := h.endpoint(t, "https://hooks.larkspurtea.example/x")
	h.recordMix(t, h.account, 10)
	handlers.BlockWebhook(t, h.Store, e.ID)
	sender.accepted = func() error { return h.Webhooks.TestAccepted(t.Context(), &e) }
	a := b.sent(t, "/desk/webhooks/"+e.ID, "test")
	wantStatus(t, a, http.StatusOK)
	if text := words(t, a); !strings.Contains(text, "has not been tried since. Next attempt now.") {
		t.Errorf("the page says %s", text)
	}
}

func TestDeskWebhookTestSaysThatTheSecretIsLost(t *testing.T) {
	h, b := deskHouse(t, func(c *handlers.Config) { c.Webhooks = failingSender{webhook.ErrSecretLost} })
	a := b.sent(t, "/desk/webhooks/"+h.endpoint(t, "https://hooks.larkspurtea.example/x").ID, "test")
	wantStatus(t, a, http.StatusConflict)
	if text := words(t, a); !strings.Contains(text, "rotate it first") {
		t.Errorf("the page says %s", text)
	}
}

// A delivery of an endpoint of all accounts does not say whose event it was, so there is no
// page to lead to.
func TestDeskWebhookOfAllAccounts(t *testing.T) {
	h, b := deskHouse(t)
	must.Do(t, h.Events.SetFeed(t.Context(), time.Hour))
	e, _, err := h.Webhooks.Create(t.Context(), webhook.System, eventlog.AllAccounts, webhook.Settings{URL: "https://hooks.larkspurtea.example/all", Order: webhook.Strict})
	must.Do(t, err)
	h.recordMix(t, h.account, 2)
	delivered, blocked := handlers.BlockWebhook(t, h.Store, e.ID)
	a := b.get(t, "/desk/webhooks/"+e.ID)
	wantStatus(t, a, http.StatusOK)
	if text := words(t, a); !strings.Contains(text, "Account *") || !strings.Contains(text, delivered) || !strings.Contains(text, blocked) {
		t.Errorf("the page says %s", text)
	}
	if strings.Contains(a.body, "account=") {
		t.Error("the page leads to the event of an account that it does not know")
	}
}

// endpoint creates a webhook endpoint of the house's account.
func (h *house) endpoint(t testing.TB, url string) webhook.Endpoint {
	t.Helper()
	e, _, err := h.Webhooks.Create(t.Context(), webhook.System, h.account, webhook.Settings{URL: url, Types: []string{"*.created", "*.updated"}, Description: "Larkspur <b>"})
	must.Do(t, err)
	return e
}

// TestDeskSendsADeliveryAgain: one event of the list is sent again, and no other.
//
// Promise (Webhooks): the desk sends one delivery again
func TestDeskSendsADeliveryAgain(t *testing.T) {
	h, b := deskHouse(t)
	e := h.endpoint(t, "https://hooks.larkspurtea.example/1")
	h.recordMix(t, h.account, 10)
	delivered, _ := handlers.BlockWebhook(t, h.Store, e.ID)
	page := "/desk/webhooks/" + e.ID
	a := b.get(t, page)
	if text := words(t, a); !strings.Contains(text, "Failing since ") || !strings.Contains(text, " ms ") {
		t.Errorf("the page does not say since when, and how long an attempt took: %s", text)
	}
	_, fields := deskForm(t, a, "retry")
	wantStatus(t, b.post(t, page+"/retry", with(fields, "event", delivered)), http.StatusSeeOther)
	states := func() (retrying []string) {
		list, _, err := h.Webhooks.Deliveries(t.Context(), webhook.System, e.ID, webhook.Filter{Limit: 50})
		must.Do(t, err)
		for _, d := range list {
			if d.State != webhook.Delivered {
				retrying = append(retrying, d.Event)
			}
		}
		return retrying
	}
	if got := states(); !slices.Contains(got, delivered) || len(got) != 2 {
		t.Errorf("to be sent are %v, want the one that was delivered and the one that blocks", got)
	}
	wantStatus(t, b.post(t, page+"/retry", with(fields, "event", "evt_nothing")), http.StatusNotFound)
}

// Promise (Webhooks): the desk's page; metrics
func TestDeskWebhooks(t *testing.T) {
	h, b := deskHouse(t, func(c *handlers.Config) { c.Webhooks = answeringSender{http.StatusNoContent} })
	e := h.endpoint(t, "https://hooks.larkspurtea.example/secret-path")
	h.recordMix(t, h.account, 10)
	page := "/desk/webhooks/" + e.ID
	now := func() webhook.Endpoint { return must.Get(h.Webhooks.Find(t.Context(), webhook.System, e.ID))(t) }
	press := func(do, wantNotice string, fill ...string) string {
		t.Helper()
		a := b.sent(t, page, do, fill...)
		wantStatus(t, a, http.StatusSeeOther)
		text := words(t, b.follow(t, a))
		if !strings.Contains(text, wantNotice) {
			t.Errorf("after %s the page lacks %q: %s", do, wantNotice, text)
		}
		return text
	}
	t.Run("the_list_has_health_and_lag_and_not_the_path", func(t *testing.T) {
		a := b.get(t, "/desk/webhooks")
		text := words(t, a)
		if ids := rows(t, a, "data-webhook"); len(ids) != 1 || ids[0] != e.ID {
			t.Errorf("rows = %v", ids)
		}
		for _, want := range []string{"https://hooks.larkspurtea.example", "Larkspur <b>", h.account, "Idle", "6 wait"} {
			if !strings.Contains(text, want) {
				t.Errorf("the list lacks %q: %s", want, text)
			}
		}
		if strings.Contains(a.body, "secret-path") {
			t.Error("the list shows the path")
		}
	})
	t.Run("without_a_description_the_list_has_the_id", func(t *testing.T) {
		none := ""
		must.Get(h.Webhooks.Update(t.Context(), webhook.System, e.ID, webhook.Change{Description: &none}))(t)
		if text := words(t, b.get(t, "/desk/webhooks")); !strings.Contains(text, e.ID) {
			t.Errorf("the list lacks the id: %s", text)
		}
	})
	delivered, blocked := handlers.BlockWebhook(t, h.Store, e.ID)
	t.Run("the_page_has_the_deliveries_and_what_blocks", func(t *testing.T) {
		a := b.get(t, page)
		if ids := rows(t, a, "data-delivery"); len(ids) != 2 || ids[0] != blocked || ids[1] != delivered {
			t.Errorf("deliveries = %v", ids)
		}
		if !strings.Contains(a.body, `href="/desk/events/`+blocked+`?account=`) {
			t.Error("what blocks has no page")
		}
		for _, want := range []string{"Failing since ", "One event blocks 5 others.", "was answered 500; 1 failed attempt. Next attempt in ", "no such order", "500", "https://hooks.larkspurtea.example/secret-path", "tollhouse webhook delete " + e.ID} {
			if !strings.Contains(words(t, a), want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	})
	t.Run("skip_and_retry", func(t *testing.T) {
		a := b.sent(t, page, "skip", "event", delivered)
		wantStatus(t, a, http.StatusConflict)
		if text := words(t, a); !strings.Contains(text, "does not block the endpoint any more. Nothing was skipped.") || now().Head == nil {
			t.Errorf("the skip of an event that blocks no more: %s; head %v", text, now().Head)
		}
		press("skip", "The event was skipped.")
		if got := now(); got.Head != nil || got.Dead != 1 {
			t.Errorf("after the skip: %+v", got)
		}
		press("retry-dead", "The events are being retried.")
		if got := now(); got.Dead != 0 || got.Parked != 1 {
			t.Errorf("after the retry: %d dead, %d parked", got.Dead, got.Parked)
		}
		press("retry-parked", "The events are being retried.")
	})
	t.Run("disable_and_enable", func(t *testing.T) {
		if text := press("disable", "The endpoint is disabled."); !strings.Contains(text, "Disabled: on request") {
			t.Errorf("the page does not say why: %s", text)
		}
		if got := now(); got.Enabled() || got.Disabled.By != webhook.ByOperator {
			t.Errorf("disabled = %+v", got.Disabled)
		}
		cursor := now().Cursor
		press("enable", "The endpoint is enabled.")
		if got := now(); !got.Enabled() || got.Cursor != cursor {
			t.Errorf("enabled: %t, cursor %v, want %v", got.Enabled(), got.Cursor, cursor)
		}
		press("disable", "The endpoint is disabled.")
		action, shown := deskForm(t, b.get(t, page), "enable")
		press("enable", "The endpoint is enabled.", "now", "true")
		if got := now(); got.Behind {
			t.Error("what waited is sent")
		}
		h.recordMix(t, h.account, 2)
		cursor = now().Cursor
		a := b.post(t, action, with(shown, "now", "true"))
		wantStatus(t, a, http.StatusConflict)
		if text := words(t, a); !strings.Contains(text, "The endpoint is already enabled. No events were skipped.") || now().Cursor != cursor {
			t.Errorf("enabled by another operator meanwhile: %s; cursor %v, want %v", text, now().Cursor, cursor)
		}
	})
	t.Run("a_test_says_what_came_of_it", func(t *testing.T) {
		a := b.sent(t, page, "test")
		wantStatus(t, a, http.StatusOK)
		if text := words(t, a); !strings.Contains(text, "The test was delivered: an answer of status 204 in 4 ms.") {
			t.Errorf("the page says %s", text)
		}
	})
	t.Run("a_new_secret_is_shown_once", func(t *testing.T) {
		a := b.sent(t, page, "rotate-secret", "leaked", "true")
		wantStatus(t, a, http.StatusOK)
		if sec := marked(t, a, "data-secret"); !strings.HasPrefix(sec, "whsec_") || len(now().Secrets) != 1 {
			t.Errorf("secret = %q of %d", sec, len(now().Secrets))
		}
		if strings.Contains(b.get(t, page).body, "whsec_") {
			t.Error("the page shows a secret")
		}
	})
	t.Run("the_words_count_the_secrets", func(t *testing.T) {
		for _, want := range [][2]string{
			{"signed with both secrets for 24 hours", "Both are valid for 24 hours."},
			{"signed with all 3 secrets, so that the receiver can change over. The older ones end within 24 hours.", "All 3 are valid, and the older ones end within 24 hours."},
		} {
			if text := words(t, b.get(t, page)); !strings.Contains(text, want[0]) {
				t.Errorf("with %d secrets the page lacks %q: %s", len(now().Secrets), want[0], text)
			}
			if text := words(t, b.sent(t, page, "rotate-secret")); !strings.Contains(text, want[1]) {
				t.Errorf("with %d secrets the answer lacks %q: %s", len(now().Secrets), want[1], text)
			}
		}
		full := b.get(t, page)
		if text := words(t, full); !strings.Contains(text, "The endpoint has 3 secrets, which is the limit.") || strings.Count(full.body, `data-do="rotate-secret"`) != 1 {
			t.Errorf("with 3 secrets the page offers another: %s", text)
		}
		if text := words(t, b.sent(t, page, "rotate-secret")); !strings.Contains(text, "The old one is revoked.") || len(now().Secrets) != 1 {
			t.Errorf("after a leak %d secrets sign: %s", len(now().Secrets), text)
		}
	})
	t.Run("an_endpoint_is_made_and_its_secret_shown_once", func(t *testing.T) {
		const form = "/desk/new-webhook"
		for _, c := range []struct{ field, value, want string }{
			{"url", "ftp://hooks.larkspurtea.example/", "The URL must begin with https://."},
			{"types", "custom", "types has "}, {"account", "acct_nobody", "There is no account "},
		} {
			a := b.sent(t, form, "create-webhook", "url", "https://hooks.larkspurtea.example/new", c.field, c.value)
			wantStatus(t, a, http.StatusBadRequest)
			if text := words(t, a); strings.Count(text, c.want) != 1 || !strings.Contains(text, "The endpoint was not created. Correct the ") || !strings.Contains(a.body, `aria-invalid="true"`) {
				t.Errorf("%s %q: the form says %s", c.field, c.value, text)
			}
		}
		a := b.sent(t, form, "create-webhook", "url", "https://hooks.larkspurtea.example/new", "description", "Ledger", "account", h.account, "types", "customer.*\n*.deleted", "order", "none", "from", "start")
		wantStatus(t, a, http.StatusOK)
		made := must.Get(h.Webhooks.Find(t.Context(), webhook.System, marked(t, a, "data-webhook-id")))(t)
		if sec := marked(t, a, "data-secret"); !strings.HasPrefix(sec, "whsec_") || made.Description != "Ledger" || len(made.Types) != 2 || made.Order != webhook.None || !made.Behind {
			t.Errorf("secret %q, made %+v", sec, made)
		}
		if shown := b.get(t, "/desk/webhooks/"+made.ID); strings.Contains(shown.body, "whsec_") || !strings.Contains(words(t, shown), "customer.*, *.deleted") {
			t.Errorf("its page: %s", words(t, shown))
		}
		again := b.sent(t, form, "create-webhook", "url", "https://hooks.larkspurtea.example/new", "account", h.account)
		wantStatus(t, again, http.StatusConflict)
		must.Do(t, h.Webhooks.Delete(t.Context(), webhook.System, made.ID))
	})
	t.Run("a_hold_is_said_and_ended", func(t *testing.T) {
		wantStatus(t, b.sent(t, "/desk/webhooks", "hold"), http.StatusSeeOther)
		if in := must.Get(h.Webhooks.Instance(t.Context()))(t); !in.Held {
			t.Error("nothing is held")
		}
		if text := words(t, b.get(t, "/desk/webhooks")); !strings.Contains(text, "Deliveries are held.") || !strings.Contains(text, "Resume") {
			t.Errorf("the list says %s", text)
		}
		wantStatus(t, b.sent(t, "/desk/webhooks", "resume"), http.StatusSeeOther)
		if in := must.Get(h.Webhooks.Instance(t.Context()))(t); in.Held {
			t.Error("still held")
		}
	})
	t.Run("every_change_names_the_operator", func(t *testing.T) {
		olga := must.Get(h.FindUser(t.Context(), "olga"))(t)
		lines := 0
		for _, l := range must.Get(h.ListAudit(t.Context(), record.Position{}, 500))(t) {
			if l.Actor.OperatorID == olga.Subject() && strings.Contains(l.Reason, "webhook") {
				lines++
			}
			if strings.Contains(l.Reason, "secret-path") || strings.Contains(l.Reason, "whsec_") {
				t.Errorf("a line has the path or the secret: %s", l.Reason)
			}
		}
		if lines != 15 {
			t.Errorf("%d lines name the operator, want 15", lines)
		}
	})
	t.Run("an_unknown_endpoint_is_not_found", func(t *testing.T) {
		wantStatus(t, b.get(t, "/desk/webhooks/wep_00000000000000000000000000"), http.StatusNotFound)
	})
}

package views_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/views"
)

func accountProps() views.AccountProps {
	at := time.Date(2026, 3, 9, 15, 30, 0, 0, time.UTC)
	since := views.Moment{At: at, Now: at.Add(77 * time.Hour)}
	return views.AccountProps{
		Page: page, Username: "harriet.voss", Account: "Larkspur Tea Room", SignOutToken: "out", FormToken: "tok",
		RevokeURL: "/account/revoke", WebhookURL: "/account/webhook-off", SignOutOthersURL: "/account/sign-out-others", PasswordURL: "/account/password",
		Clients: []views.GrantedClient{
			{ID: "c1", Name: "Aster Reports", Since: since, Scopes: []string{"events:read"}},
			{ID: "c2", Name: "Larkspur Bookkeeping", Since: since, Used: since, UnaskedUntil: at.AddDate(1, 0, 0), Scopes: []string{"events:read", "resources:read"}},
		},
		Webhooks: []views.AccountWebhook{{ID: "wep_1", Address: "https://hooks.example", Client: "Aster Reports", Since: since}},
		SignIns:  []views.SignIn{{Here: true, Since: since, Seen: since}, {Since: since, Seen: since}},
		Password: views.PasswordForm{EndAll: true, SizeMin: 12, SizeMax: 1024},
	}
}

// Promise (Webhooks): the account page lists the endpoints of one's authorizations, each with a
// button
func TestAccount(t *testing.T) {
	t.Parallel()
	all := elements(t, render(t, views.Account(accountProps())))
	t.Run("each_client_has_a_button_that_is_named_after_it", func(t *testing.T) {
		t.Parallel()
		var sent []string
		for _, e := range named(all, "button") {
			if e.attrs["aria-label"] != "" {
				sent = append(sent, e.attrs["aria-label"]+": "+e.attrs["name"]+"="+e.attrs["value"])
			}
		}
		if want := []string{"Revoke Aster Reports: client_id=c1", "Revoke Larkspur Bookkeeping: client_id=c2", "Turn off https://hooks.example: webhook_id=wep_1"}; !slices.Equal(sent, want) {
			t.Errorf("the buttons are %q, want %q", sent, want)
		}
	})
	t.Run("each_client_that_is_let_through_without_asking_says_so", func(t *testing.T) {
		t.Parallel()
		const says = "Allowed without asking until 9 March 2027"
		if n := strings.Count(render(t, views.Account(accountProps())), says); n != 1 {
			t.Errorf("the page says %d times %q, want once, of the client that is", n, says)
		}
	})
	t.Run("every_form_carries_its_token", func(t *testing.T) {
		t.Parallel()
		tokens := map[string]int{}
		for _, e := range all {
			if e.attrs["name"] == "form_token" {
				tokens[e.attrs["value"]]++
			}
		}
		if tokens["out"] != 1 || tokens["tok"] != len(named(all, "form"))-1 {
			t.Errorf("tokens %v in %d forms, want that of the sign-out once and the page's in all others", tokens, len(named(all, "form")))
		}
	})
	t.Run("times_are_relative_and_short_with_the_exact_one_on_hover", func(t *testing.T) {
		t.Parallel()
		for _, e := range named(all, "time") {
			if e.attrs["datetime"] != "2026-03-09T15:30:00Z" || e.attrs["title"] != "9 March 2026, 15:30:00 UTC" || squeeze(e.text) != "3 d ago" {
				t.Errorf("time = %v %q", e.attrs, e.text)
			}
		}
		if n := len(named(all, "time")); n != 8 {
			t.Errorf("%d times, want 8", n)
		}
	})
	t.Run("tables_are_labelled_and_keep_their_roles_when_they_fold", func(t *testing.T) {
		t.Parallel()
		roles := map[string][]string{"table": {"table"}, "thead": {"rowgroup"}, "tbody": {"rowgroup"}, "tr": {"row"}, "th": {"columnheader", "rowheader"}, "td": {"cell"}}
		for _, e := range all {
			if want := roles[e.name]; want != nil && !slices.Contains(want, e.attrs["role"]) {
				t.Errorf("<%s> has the role %q, want one of %q", e.name, e.attrs["role"], want)
			}
			if e.name == "table" && !slices.ContainsFunc(named(all, "h2"), func(h element) bool { return h.text == e.attrs["aria-label"] }) {
				t.Errorf("a table is called %q, want its heading", e.attrs["aria-label"])
			}
			if e.name == "td" && !slices.Contains([]string{"act", "when", "free"}, e.attrs["class"]) && !e.has("data-label") {
				t.Errorf("a cell %q has no label for when the head is gone", e.text)
			}
		}
	})
	t.Run("names_its_password_fields_for_password_managers", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{"current_password": "current-password", "new_password": "new-password", "repeat_password": "new-password", "username": "username"} {
			field := byAttr(t, all, "name", name)
			if got := field.attrs["autocomplete"]; got != want {
				t.Errorf("%s has autocomplete %q, want %q", name, got, want)
			}
			if want == "username" && (field.attrs["type"] != "text" || field.attrs["value"] != "harriet.voss" || !field.has("hidden")) {
				t.Errorf("%s = %v, want a text field that is not drawn: password managers ignore others", name, field.attrs)
			}
			if want != "username" && (field.attrs["type"] != "password" || !field.has("required") || field.has("value") || field.has("aria-invalid") || field.has("autofocus")) {
				t.Errorf("%s = %v, want a required, empty password field", name, field.attrs)
			}
		}
		if hint := byAttr(t, all, "id", byAttr(t, all, "name", "new_password").attrs["aria-describedby"]); hint.text != "At least 12 characters. Several unrelated words work well." {
			t.Errorf("the new password is described by %q", hint.text)
		}
		if !byAttr(t, all, "name", "end_all").has("checked") {
			t.Error("the box is not ticked")
		}
	})
	t.Run("a_refusal_heads_the_form_and_marks_each_field", func(t *testing.T) {
		t.Parallel()
		refused := accountProps()
		refused.Password = views.PasswordForm{SizeMin: 12, Refused: views.PasswordInvalid, Current: views.PasswordWrong, New: views.PasswordTooShort}
		all := elements(t, render(t, views.Account(refused)))
		if got := byAttr(t, all, "role", "alert").text; got != "Your password was not changed." {
			t.Errorf("alert = %q", got)
		}
		for name, want := range map[string]string{"current_password": "That is not your current password.", "new_password": "Too short: use at least 12 characters."} {
			field := byAttr(t, all, "name", name)
			if field.attrs["aria-invalid"] != "true" || byAttr(t, all, "id", field.attrs["aria-describedby"]).text != want {
				t.Errorf("%s is not tied to its error: %v", name, field.attrs)
			}
		}
		if !byAttr(t, all, "name", "current_password").has("autofocus") || byAttr(t, all, "name", "new_password").has("autofocus") {
			t.Error("the form does not go on at the first field at fault, and out of sight")
		}
		if byAttr(t, all, "name", "repeat_password").has("aria-invalid") || byAttr(t, all, "name", "end_all").has("checked") {
			t.Error("a field without fault is marked, or the tick came back")
		}
		if got := named(all, "title")[0].text; got != "Error: Your account – tollhouse" {
			t.Errorf("title = %q", got)
		}
	})
	t.Run("offers_nothing_that_would_do_nothing", func(t *testing.T) {
		t.Parallel()
		alone := accountProps()
		alone.Clients, alone.Webhooks, alone.SignIns = nil, nil, alone.SignIns[:1]
		all := elements(t, render(t, views.Account(alone)))
		for _, e := range all {
			if a := e.attrs["action"]; a == "/account/revoke" || a == "/account/webhook-off" || a == "/account/sign-out-others" {
				t.Errorf("the page has a form for %s", a)
			}
		}
		if got := squeeze(named(all, "main")[0].text); !strings.Contains(got, "No applications yet. Those you allow are listed here and can be revoked here.") {
			t.Errorf("page says %q", got)
		}
	})
}

package snapshot

import (
	"errors"
	"testing"
)

// Promise (§3.1): any kind is accepted; known kinds have no unknown fields, refused with the
// nearest name; id and object equal the path or are absent; resources are listed by id
func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind, in string
		want           Fault
		wantPath       string
		wantReason     string
	}{
		{"a_customer_has_strings", "customer", `{"displayName":7}`, InvalidField, "displayName", "displayName must be a string, not a number"},
		{"a_customer_has_no_other_field", "customer", `{"displayNam":"x"}`, UnknownField, "displayNam", "displayNam is not a field of kind customer; did you mean displayName?"},
		{"a_field_that_is_like_none", "customer", `{"webhooks":"x"}`, UnknownField, "webhooks", "webhooks is not a field of kind customer"},
		{"a_date_is_a_date", "customer", `{"dateAdded":"2026-02-30"}`, InvalidField, "dateAdded", "dateAdded must be a date in the form YYYY-MM-DD"},
		{"an_address_of_mail", "customer", `{"email":"odile"}`, InvalidField, "email", "email must be an e-mail address"},
		{"a_flag_is_a_digit", "customer", `{"active":"yes"}`, InvalidField, "active", `active must be one digit, such as "1" for yes`},
		{"an_amount_is_a_decimal", "transaction", `{"amount":"12,50"}`, InvalidField, "amount", `amount must be a decimal amount, such as "148.50"`},
		{"an_account_keeps_the_last_four_only", "account", `{"last4":"424242"}`, InvalidField, "last4", "last4 must be the last four digits and no more"},
		{"lines_are_an_array", "invoice", `{"lines":{}}`, InvalidField, "lines", "lines must be an array, not an object"},
		{"the_id_is_the_paths", "subscription", `{"id":"other"}`, MismatchedField, "id", `id must be "the_id" as in the path; leave it out of the body`},
		{"the_object_is_the_paths", "subscription", `{"object":1}`, MismatchedField, "object", `object must be "subscription" as in the path; leave it out of the body`},
		{"a_body_is_an_object", "subscription", `[]`, InvalidField, "", "the body must be an object, not an array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var e *Error
			if err := Check(tt.kind, "the_id", mustParse(t, tt.in)); !errors.As(err, &e) {
				t.Fatalf("Check(%s) = %v, want %q", tt.in, err, tt.wantReason)
			}
			if e.Fault != tt.want || e.Path != tt.wantPath || e.Reason != tt.wantReason {
				t.Errorf("Check(%s) = %d at %q: %s; want %d at %q: %s", tt.in, e.Fault, e.Path, e.Reason, tt.want, tt.wantPath, tt.wantReason)
			}
		})
	}
	accepted := []struct{ name, kind, in string }{
		{"the_updated_account_of_the_examples", "account", `{"id":"the_id","object":"account","customer":"cus_4tn8k2w1","method":"card","brand":"visa","last4":"4418","expiry":"0929"}`},
		{"an_amount_as_a_number", "transaction", `{"amount":148.50}`},
		{"empty_fields", "customer", `{"email":"","dateAdded":"","active":""}`},
		{"null_to_remove", "customer", `{"email":null}`},
		{"any_members_of_another_kind", "subscription", `{"anything":[{"at":{"all":null}}]}`},
	}
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := Check(tt.kind, "the_id", mustParse(t, tt.in)); err != nil {
				t.Errorf("Check(%s) = %v, want no error", tt.in, err)
			}
		})
	}
}

// Promise (§3.1): a customer's fields are strings; a new one gets all of them; PUT is 201 and
// created, 200 and updated, or 200 and no event; PATCH changes what its merge patch names and
// nothing else
// Promise (§3.1): ?action= records its own event even without a change, and needs the resource;
// DELETE is 204 and deleted with the last snapshot; again 404; GET records nothing; nor does a
// repeat without an action
// Promise (§3.1): Tollhouse-Event names the event caused, or none
func TestComplete(t *testing.T) {
	t.Parallel()
	const today = "2026-03-09"
	tests := []struct{ name, kind, in, before, want string }{
		{
			"a_customer_is_filled_up", "customer", `{"phone":"8025550143","displayName":"Larkspur Tea Room","notes":null}`, `{}`,
			`{"id":"x","object":"customer","customerRef":"","displayName":"Larkspur Tea Room","company":"","firstName":"","lastName":"","displayAs":"contact","address1":"","address2":"","city":"","state":"","zip":"","country":"","phone":"8025550143","phoneExt":"","email":"","dateAdded":"2026-03-09","notes":"","active":"1"}`,
		},
		{
			"a_replaced_customer_gets_no_field_that_it_did_not_have", "customer", `{"company":"x"}`, `{"id":"x","object":"customer","dateAdded":"2025-01-02","city":"Dunmere","displayAs":"company"}`,
			`{"id":"x","object":"customer","company":"x","displayAs":"contact","city":"","dateAdded":"2025-01-02"}`,
		},
		{"the_documented_order", "account", `{"expiry":"0929","brand":"visa","id":"x"}`, `{}`, `{"id":"x","object":"account","brand":"visa","expiry":"0929"}`},
		{"another_kind_keeps_its_order", "plan", `{"z":1,"object":"plan","a":{"b":null}}`, `{}`, `{"id":"x","object":"plan","z":1,"a":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Complete(tt.kind, "x", mustParse(t, tt.in), mustParse(t, tt.before), today)
			if got.String() != tt.want {
				t.Errorf("Complete = %s\nwant %s", got, tt.want)
			}
			if again := Complete(tt.kind, "x", got, got, today); again.String() != tt.want {
				t.Errorf("completed again it is %s", again)
			}
		})
	}
}

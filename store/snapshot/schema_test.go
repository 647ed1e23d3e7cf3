package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
		{"metadata_is_an_object", "customer", `{"metadata":"x"}`, InvalidField, "metadata", "metadata must be an object, not a string"},
		{"metadata_has_strings", "invoice", `{"metadata":{"rank":7}}`, InvalidField, "metadata.rank", "metadata.rank must be a string, not a number; write it as a text, in quotation marks"},
		{"metadata_has_no_objects", "account", `{"metadata":{"a":{"b":"c"}}}`, InvalidField, "metadata.a", "metadata.a must be a string, not an object"},
		{"metadata_has_no_long_texts", "transaction", `{"metadata":{"a":"` + strings.Repeat("é", 501) + `"}}`, InvalidField, "metadata.a", "metadata.a must have at most 500 characters"},
		{"a_name_in_metadata_has_no_brackets", "customer", `{"metadata":{"a[0]":"x"}}`, InvalidField, "metadata", "a name in metadata must have 1 to 40 characters, without [, ] and control characters"},
		{"metadata_has_fifty_members", "customer", `{"metadata":` + metadataOf(51) + `}`, InvalidField, "metadata", "metadata must have at most 50 members, not 51"},
		{"a_card_number_is_not_repeated", "customer", `{"metadata":{"4242424242424242":7}}`, InvalidField, "metadata", "a value in metadata must be a string, not a number; write it as a text, in quotation marks"},
		{"the_id_is_the_paths", "subscription", `{"id":"other"}`, MismatchedField, "id", `id must be "the_id" to match the resource; leave it out`},
		{"the_object_is_the_paths", "subscription", `{"object":1}`, MismatchedField, "object", `object must be "subscription" to match the resource; leave it out`},
		{"a_body_is_an_object", "subscription", `[]`, InvalidField, "", "the body must be an object, not an array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var e *Error
			if err := closed.Check(tt.kind, "the_id", mustParse(t, tt.in)); !errors.As(err, &e) {
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
		{"metadata_at_its_limits", "customer", `{"metadata":` + metadataOf(50) + `}`},
		{"null_to_remove_metadata", "customer", `{"metadata":null}`},
		{"nulls_in_metadata_do_not_count", "customer", `{"metadata":` + strings.Replace(metadataOf(50), "{", `{"gone":null,`, 1) + `}`},
		{"any_members_of_another_kind", "subscription", `{"anything":[{"at":{"all":null}}]}`},
	}
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := closed.Check(tt.kind, "the_id", mustParse(t, tt.in)); err != nil {
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
		{"metadata_is_not_filled_in", "customer", `{"metadata":{"b":"1","a":"2"}}`, `{"id":"x","object":"customer"}`, `{"id":"x","object":"customer","metadata":{"b":"1","a":"2"}}`},
		{"nor_restored", "customer", `{}`, `{"id":"x","object":"customer","metadata":{"b":"1"}}`, `{"id":"x","object":"customer"}`},
		{"the_documented_order", "account", `{"expiry":"0929","brand":"visa","id":"x"}`, `{}`, `{"id":"x","object":"account","brand":"visa","expiry":"0929"}`},
		{"another_kind_keeps_its_order", "plan", `{"z":1,"object":"plan","a":{"b":null}}`, `{}`, `{"id":"x","object":"plan","z":1,"a":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := closed.Complete(tt.kind, "x", mustParse(t, tt.in), mustParse(t, tt.before), today)
			if got.String() != tt.want {
				t.Errorf("Complete = %s\nwant %s", got, tt.want)
			}
			if again := closed.Complete(tt.kind, "x", got, got, today); again.String() != tt.want {
				t.Errorf("completed again it is %s", again)
			}
		})
	}
}

// metadataOf is an object of n members, with names and values as long as they may be.
func metadataOf(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"%s%02d":"%s"`, strings.Repeat("é", 38), i, strings.Repeat("é", 500))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestMetadataStaysBounded: patches one after another cannot exceed its members, and what an
// import made larger may shrink.
func TestMetadataStaysBounded(t *testing.T) {
	t.Parallel()
	with := func(n int) Value { return mustParse(t, `{"metadata":`+metadataOf(n)+`}`) }
	for _, tt := range []struct {
		kind      string
		was, is   int
		isRefused bool
	}{
		{"customer", 49, 50, false},
		{"customer", 50, 51, true},
		{"customer", 0, 51, true},
		{"customer", 60, 55, false},
		{"customer", 60, 60, false},
		{"customer", 60, 61, true},
		{"plan", 0, 60, false},
	} {
		if err := closed.CheckMerged(tt.kind, with(tt.was), with(tt.is)); (err != nil) != tt.isRefused {
			t.Errorf("of a %s from %d to %d members: %v", tt.kind, tt.was, tt.is, err)
		}
	}
}

// TestOpenKinds: the four kinds are any object, with nothing filled in, and what looks like a
// documented field is reported.
func TestOpenKinds(t *testing.T) {
	t.Parallel()
	open := Rules{OpenKinds: true}
	body := mustParse(t, `{"z":{"any":[1]},"displayNam":"x","metadata":{"rank":7},"email":1,"object":"customer"}`)
	if err := open.Check("customer", "x", body); err != nil {
		t.Errorf("Check = %v", err)
	}
	const want = `{"id":"x","object":"customer","z":{"any":[1]},"displayNam":"x","metadata":{"rank":7},"email":1}`
	if got := open.Complete("customer", "x", body, ObjectOf(), "2026-03-09"); got.String() != want {
		t.Errorf("Complete = %s\nwant %s", got, want)
	}
	if err := open.CheckMerged("customer", ObjectOf(), mustParse(t, `{"metadata":`+metadataOf(60)+`}`)); err != nil {
		t.Errorf("CheckMerged = %v", err)
	}
	if got := open.NearMisses("customer", body); !slices.Equal(got, []NearMiss{{"displayNam", "displayName"}}) {
		t.Errorf("NearMisses = %v", got)
	}
	if got := closed.NearMisses("customer", body); got != nil {
		t.Errorf("NearMisses of closed kinds = %v, want none: they are refused", got)
	}
	if got := open.NearMisses("plan", body); got != nil {
		t.Errorf("NearMisses of another kind = %v, want none", got)
	}
	var e *Error
	if err := open.Check("customer", "x", mustParse(t, `{"id":"y"}`)); !errors.As(err, &e) || e.Fault != MismatchedField {
		t.Errorf("Check of another id = %v", err)
	}
	for _, kind := range Kinds() {
		if has, _ := open.Schema(kind).Member("additionalProperties"); has.Kind() != Bool || has.text != "true" {
			t.Errorf("the schema of an open %s has additionalProperties %s", kind, has)
		}
	}
}

package handlers

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
)

func mustParseEventQuery(t testing.TB, raw string) api.EventQuery {
	t.Helper()
	pairs, refused := web.ParseAPIQuery(raw)
	if refused != nil {
		t.Fatalf("parseAPIQuery(%s): %v", raw, refused)
	}
	q, refused := api.ParseEventQuery(pairs)
	if refused != nil {
		t.Fatalf("parseEventQuery(%s): %v", raw, refused)
	}
	return q
}

// Promise (Attacks on the events API): invalid types, cursors, limits and numbers; thousands of
// parameters; repeated, unknown and half-open filters; unparsable queries
func TestParseEventQueryTypes(t *testing.T) {
	t.Parallel()
	both := []string{"customer.created", "customer.updated"}
	tests := []struct {
		name, query string
		want        []string
	}{
		{"one", "type=customer.created", both[:1]},
		{"brackets", "type[]=customer.created&type[]=customer.updated", both},
		{"an_index_as_php_qs_and_stripe-go_write_it", "type%5B0%5D=customer.created&type%5B1%5D=customer.updated", both},
		{"any_index_in_any_order", "type[65535]=customer.created&type[7]=customer.updated", both},
		{"brackets_as_axios_writes_them", "type%5b%5d=customer.created&type%5B%5D=customer.updated", both},
		{"repeated_as_urlencode_doseq_writes_it", "type=customer.created&type=customer.updated", both},
		{"a_comma", "type=customer.created,customer.updated", both},
		{"a_comma_as_URLSearchParams_writes_it", "type=customer.created%2Ccustomer.updated", both},
		{"brackets_and_a_comma", "type[]=customer.created,customer.updated", both},
		{"the_plain_and_the_bracketed_are_a_union", "type=customer.created&type[]=customer.updated", both},
		{"duplicates_are_one", "type=customer.created,customer.created&type[]=customer.created", both[:1]},
		{"none_is_all", "", nil},
		{"wildcards", "type[]=customer.*&type[]=*.created&type=*", []string{"customer.*", "*.created", "*"}},
	}
	for _, tt := range tests {
		t.Run("type_"+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mustParseEventQuery(t, tt.query).Types; !slices.Equal(got, tt.want) {
				t.Errorf("types of %s = %q, want %q", tt.query, got, tt.want)
			}
		})
	}
}

// Promise (§2.2): an exact createdAt is one second; all operators apply; between includes both
// ends; an empty window is an empty page
func TestParseEventQueryCreatedAt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query string
		from, to    int64
	}{
		{"none", "", 0, eventlog.CreatedAtMax},
		{"exact", "createdAt=1773070200", 1773070200, 1773070200},
		{"gt", "createdAt[gt]=5", 6, eventlog.CreatedAtMax},
		{"gte", "createdAt[gte]=5", 5, eventlog.CreatedAtMax},
		{"lt", "createdAt[lt]=5", 0, 4},
		{"lte", "createdAt[lte]=5", 0, 5},
		{"lt_zero_is_nothing", "createdAt[lt]=0", 0, -1},
		{"between_is_inclusive", "createdAt[between]=5..7", 5, 7},
		{"between_with_equal_ends", "createdAt[between]=5..5", 5, 5},
		{"the_greatest", "createdAt[gte]=99999999999", eventlog.CreatedAtMax, eventlog.CreatedAtMax},
		{"past_the_greatest_is_nothing", "createdAt[gt]=99999999999", eventlog.CreatedAtMax + 1, eventlog.CreatedAtMax},
		{"operators_are_joined_by_and", "createdAt[gt]=5&createdAt[gte]=7&createdAt[lt]=20&createdAt[lte]=11", 7, 11},
		{"between_joins_with_others", "createdAt[between]=5..20&createdAt[gt]=10&createdAt[lt]=15", 11, 14},
		{"an_empty_window_of_equal_operands", "createdAt[gte]=5&createdAt[lt]=5", 5, 4},
		{"another_empty_window_of_equal_operands", "createdAt[gt]=5&createdAt[lte]=5", 6, 5},
		{"leading_zeros", "createdAt=00000000005", 5, 5},
		{"encoded_brackets", "createdAt%5Bgte%5D=5", 5, eventlog.CreatedAtMax},
	}
	for _, tt := range tests {
		t.Run("createdAt_"+tt.name, func(t *testing.T) {
			t.Parallel()
			if q := mustParseEventQuery(t, tt.query); q.From != tt.from || q.To != tt.to {
				t.Errorf("range of %s = %d to %d, want %d to %d", tt.query, q.From, q.To, tt.from, tt.to)
			}
		})
	}
}

// refusedQueries is every refusal of a query: what is wrong, where, and a hint.
var refusedQueries = []struct{ name, query, code, param, hint string }{
	{"type_empty", "type=", "invalid_parameter", "type", "leave it out"},
	{"type_empty_in_brackets", "type[]=", "invalid_parameter", "type[]", "leave it out"},
	{"type_comma_at_the_end", "type=customer.created,", "invalid_parameter", "type", "comma"},
	{"type_python_without_doseq", "type=%5B%27a.b%27%2C+%27c.d%27%5D", "invalid_parameter", "type", "repeat the parameter"},
	{"type_object_Object", "type=[object+Object]", "invalid_parameter", "type", "stringified object"},
	{"type_case", "type=Customer.Created", "invalid_parameter", "type", "did you mean customer.created?"},
	{"type_without_action", "type=customer", "invalid_parameter", "type", "<resource_kind>.<action>"},
	{"type_two_dots", "type=customer.created.twice", "invalid_parameter", "type", "<resource_kind>.<action>"},
	{"type_33_characters_of_kind", "type=" + strings.Repeat("a", 33) + ".b", "invalid_parameter", "type", ""},
	{"type_49_characters_of_action", "type=a." + strings.Repeat("b", 49), "invalid_parameter", "type", ""},
	{"type_51", typesQuery(51), "invalid_parameter", "type", "more than 50"},
	{"wait_without_order_asc", "wait=5", "invalid_parameter", "wait", "order=asc"},
	{"wait_with_order_desc", "wait=5&order=desc", "invalid_parameter", "wait", "order=asc"},
	{"wait_with_before", "wait=5&order=asc&before=" + zeroPosition, "conflicting_parameters", "wait", "before"},
	{"wait_too_long", "order=asc&wait=56", "invalid_parameter", "wait", "0 to 55"},
	{"wait_of_a_fraction", "order=asc&wait=1.5", "invalid_parameter", "wait", "whole number"},
	{"wait_negative", "order=asc&wait=-1", "invalid_parameter", "wait", "0 to 55"},
	{"wait_empty", "order=asc&wait=", "invalid_parameter", "wait", "whole number"},
	{"wildcard_within_a_name", "type=cust*.created", "invalid_parameter", "type", "replaces a whole name"},
	{"wildcard_twice", "type=*.*", "invalid_parameter", "type", "to match every type, send *"},
	{"wildcard_deeper", "type=customer.created.*", "invalid_parameter", "type", "whole"},
	{"resource_empty", "resource=", "invalid_parameter", "resource", "leave it out"},
	{"resource_comma_at_the_end", "resource[]=cus_1,", "invalid_parameter", "resource[]", "comma"},
	{"resource_python_without_doseq", "resource=%5B%27a%27%2C+%27b%27%5D", "invalid_parameter", "resource", "repeat the parameter"},
	{"resource_no_id", "resource=cus%201", "invalid_parameter", "resource", "1 to 64 characters"},
	{"resource_65_characters", "resource=" + strings.Repeat("a", 65), "invalid_parameter", "resource", "1 to 64 characters"},
	{"resource_with_nul", "resource=cus_1%00", "invalid_parameter", "resource", "1 to 64 characters"},
	{"resource_21", resourcesQuery(21), "invalid_parameter", "resource[]", "more than 20"},
	{"resource_plural", "resources[]=cus_1", "unknown_parameter", "resources[]", "did you mean resource[]?"},
	{"type_index_too_large", "type[65536]=a.b", "unknown_parameter", "type[65536]", "type"},
	{"type_index_no_number", "type[a]=a.b", "unknown_parameter", "type[a]", "type[]"},
	{"type_with_nul", "type=customer.created%00x", "invalid_parameter", "type", ""},
	{"type_ends_in_a_dot", "type=customer.", "invalid_parameter", "type", ""},
	{"type_star_among_letters", "type=*a", "invalid_parameter", "type", "wildcard"},
	{"type_4_KB", "type=" + strings.Repeat("a", 4096), "invalid_parameter", "type", ""},
	{"type_path", "type=../", "invalid_parameter", "type", ""},
	{"type_no_utf8", "type=%ff%fe", "invalid_parameter", "type", ""},
	{"createdAt_empty", "createdAt=", "invalid_parameter", "createdAt", "leave it out"},
	{"createdAt_object_Object", "createdAt=[object+Object]", "invalid_parameter", "createdAt", "createdAt[gte]"},
	{"createdAt_python_float", "createdAt=1700000000.0", "invalid_parameter", "createdAt", "1700000000"},
	{"createdAt_blank", "createdAt=+", "invalid_parameter", "createdAt", ""},
	{"createdAt_words", "createdAt=yesterday", "invalid_parameter", "createdAt", "seconds"},
	{"createdAt_a_date", "createdAt[gte]=2026-03-09", "invalid_parameter", "createdAt[gte]", "1773014400"},
	{"createdAt_a_time", "createdAt[gte]=2026-03-09T15:30:00Z", "invalid_parameter", "createdAt[gte]", "1773070200"},
	{"createdAt_12_digits", "createdAt=100000000000", "invalid_parameter", "createdAt", "in seconds it is 100000000"},
	{"createdAt_14_digits", "createdAt=17730702000000", "invalid_parameter", "createdAt", "milliseconds"},
	{"createdAt_15_digits", "createdAt=177307020000000", "invalid_parameter", "createdAt", "11 digits"},
	{"createdAt_two_times", "createdAt=1..2", "invalid_parameter", "createdAt", "createdAt[between]"},
	{"between_milliseconds", "createdAt[between]=1773070200000..1773070300000", "invalid_parameter", "createdAt[between]", "1773070200"},
	{"between_three_dots", "createdAt[between]=1...2", "invalid_parameter", "createdAt[between]", "createdAt[gte]"},
	{"between_comma", "createdAt[between]=1,2", "invalid_parameter", "createdAt[between]", "two dots"},
	{"exact_with_operator", "createdAt=1&createdAt[between]=1..2", "conflicting_parameters", "createdAt", "createdAt[between]"},
	{"contradictory_bounds", "createdAt[gte]=10&createdAt[lt]=5", "invalid_range", "createdAt[gte]", "10 is greater than 5"},
	{"contradictory_between", "createdAt[between]=1..5&createdAt[gt]=6", "invalid_range", "createdAt[gt]", "6 is greater than 5"},
	{"operator_after", "createdAt[after]=1", "unknown_parameter", "createdAt[after]", "did you mean createdAt[gte]?"},
	{"operator_before", "createdAt[before]=1", "unknown_parameter", "createdAt[before]", "did you mean createdAt[lte]?"},
	{"operator_strictly_after", "createdAt[strictly_after]=1", "unknown_parameter", "createdAt[strictly_after]", "did you mean createdAt[gt]?"},
	{"operator_strictly_before", "createdAt[strictly_before]=1", "unknown_parameter", "createdAt[strictly_before]", "did you mean createdAt[lt]?"},
	{"unknown_created", "created=1", "unknown_parameter", "created", "did you mean createdAt?"},
	{"unknown_created_gte", "created[gte]=1", "unknown_parameter", "created[gte]", "did you mean createdAt[gte]?"},
	{"unknown_createdat", "createdat=1", "unknown_parameter", "createdat", "did you mean createdAt?"},
	{"unknown_starting_after", "starting_after=" + zeroPosition, "unknown_parameter", "starting_after", "did you mean after?"},
	{"unknown_ending_before", "ending_before=" + zeroPosition, "unknown_parameter", "ending_before", "did you mean before?"},
	{"unknown_page", "page=2", "unknown_parameter", "page", "did you mean after?"},
	{"unknown_cursor", "cursor=x", "unknown_parameter", "cursor", "did you mean after?"},
	{"unknown_per_page", "per_page=10", "unknown_parameter", "per_page", "did you mean limit?"},
	{"unknown_sort", "sort=asc", "unknown_parameter", "sort", "did you mean order?"},
	{"unknown_like_nothing", "webhooks=1", "unknown_parameter", "webhooks", "webhooks is not a parameter of this endpoint."},
	{"unknown_empty_name", "=1", "unknown_parameter", "", ""},
	{"unknown_long_name", strings.Repeat("x", 500) + "=1", "unknown_parameter", "", ""},
	{"account_is_the_admin_apis", "account=acct_b", "unknown_parameter", "account", ""},
	{"after_and_before", "after=" + zeroPosition + "&before=" + zeroPosition, "conflicting_parameters", "before", ""},
	{"before_latest", "before=latest", "invalid_cursor", "before", ""},
	{"order", "order=newest", "invalid_parameter", "order", "asc"},
	{"order_empty", "order=", "invalid_parameter", "order", "asc"},
	{"limit_twice", "limit=1&limit=2", "duplicate_parameter", "limit", ""},
	{"order_twice", "order=asc&order=asc", "duplicate_parameter", "order", ""},
	{"after_twice", "after=latest&after=latest", "duplicate_parameter", "after", ""},
	{"cursor_truncated", "after=" + zeroPosition[:29], "invalid_cursor", "after", ""},
	{"cursor_of_the_wrong_alphabet", "after=evt_0000000000000000000000000u", "invalid_cursor", "after", ""},
	{"cursor_too_long", "after=" + zeroPosition + "0", "invalid_cursor", "after", ""},
	{"cursor_past_128_bits", "after=evt_8zzzzzzzzzzzzzzzzzzzzzzzzz", "invalid_cursor", "after", ""},
	{"cursor_in_capitals", "after=EVT_00000000000000000000000000", "invalid_cursor", "after", ""},
	{"cursor_empty", "after=", "invalid_cursor", "after", ""},
	{"cursor_with_nul", "before=a%00b", "invalid_cursor", "before", ""},
	{"cursor_padded", "after=" + zeroPosition + "%3D", "invalid_cursor", "after", ""},
	{"between_without_end", "createdAt[between]=1..", "invalid_parameter", "createdAt[between]", "createdAt[gte]"},
	{"between_without_start", "createdAt[between]=..2", "invalid_parameter", "createdAt[between]", "createdAt[lte]"},
	{"between_reversed", "createdAt[between]=2..1", "invalid_range", "createdAt[between]", "2 is greater than 1"},
	{"between_of_three", "createdAt[between]=1..2..3", "invalid_parameter", "createdAt[between]", ""},
	{"negative", "createdAt=-1", "invalid_parameter", "createdAt", ""},
	{"exponent", "createdAt=1e9", "invalid_parameter", "createdAt", ""},
	{"hexadecimal", "createdAt=0x10", "invalid_parameter", "createdAt", ""},
	{"two_to_the_63", "createdAt=9223372036854775808", "invalid_parameter", "createdAt", ""},
	{"two_to_the_64", "createdAt=18446744073709551616", "invalid_parameter", "createdAt", ""},
	{"leading_space", "createdAt=%201", "invalid_parameter", "createdAt", ""},
	{"plus", "createdAt=%2B1", "invalid_parameter", "createdAt", ""},
	{"unicode_digits", "createdAt=%D9%A1%D9%A2", "invalid_parameter", "createdAt", ""},
	{"operator_twice", "createdAt[gt]=1&createdAt[gt]=2", "duplicate_parameter", "createdAt[gt]", ""},
	{"exact_and_operator", "createdAt=1&createdAt[lt]=2", "conflicting_parameters", "createdAt", "createdAt[lt]"},
	{"unknown_operator", "createdAt[evil]=1", "unknown_parameter", "createdAt[evil]", ""},
	{"open_bracket", "createdAt[", "unknown_parameter", "createdAt[", ""},
	{"broken_percent", "type=%zz", "invalid_request", "", "percent"},
	{"broken_percent_in_a_name", "ty%pe=a.b", "invalid_request", "", "percent"},
	{"semicolon", "type=a.b;type=c.d", "invalid_request", "", "semicolon"},
	{"more_than_128_parameters", strings.Repeat("type[]=customer.created&", 200), "invalid_request", "", "128"},
	{"limit_zero", "limit=0", "invalid_parameter", "limit", "1 to 1000"},
	{"limit_negative", "limit=-1", "invalid_parameter", "limit", "1 to 1000"},
	{"limit_exponent", "limit=1e9", "invalid_parameter", "limit", "1 to 1000"},
	{"limit_word", "limit=abc", "invalid_parameter", "limit", "1 to 1000"},
	{"limit_1001", "limit=1001", "invalid_parameter", "limit", "1 to 1000"},
	{"limit_empty", "limit=", "invalid_parameter", "limit", "1 to 1000"},
	{"limit_past_every_integer", "limit=99999999999999999999", "invalid_parameter", "limit", "1 to 1000"},
}

// Promise (Attacks on the events API): invalid types, cursors, limits and numbers; thousands of
// parameters; repeated, unknown and half-open filters; unparsable queries
// Promise (§2.2): common client mistakes get advice; types are strict and case-sensitive;
// customer.*, *.created and * are the only wildcards; an exact createdAt beside an operator, a
// repeated parameter and contradictory bounds too
// Promise (§2.2): times are whole seconds of at most 11 digits; milliseconds and createdAt[after]
// are recognised; an unknown parameter is refused with the nearest name; a query over 8 KiB is 414
// Promise (§2.3): every refusal has one shape, names the parameter and has its own status
// Promise (§4.1, §4.2): a poll returns matches at once, else the first new one, else an empty page
// with a cursor; at most 64 wait per account; more are 429; it needs order=asc and 0 to 55 whole
// seconds
func TestListEventsRefusesQuery(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "bob", "acct_a", store.ScopeUnstated)
	for _, tt := range refusedQueries {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := a.get("/api/events?"+tt.query, token).fault(t, http.StatusBadRequest, tt.code, tt.param)
			if description := body["error_description"].(string); !strings.Contains(description, tt.hint) {
				t.Errorf("error_description = %q, want %q in it", description, tt.hint)
			}
		})
	}
	t.Run("many_thousands_of_parameters_are_too_long", func(t *testing.T) {
		t.Parallel()
		a.get("/api/events?"+strings.Repeat("a&", 11_000), token).fault(t, http.StatusRequestURITooLong, "uri_too_long", "")
	})
	t.Run("query_of_8_KiB_and_one", func(t *testing.T) {
		t.Parallel()
		a.get("/api/events?type="+strings.Repeat("a", 8<<10), token).fault(t, http.StatusRequestURITooLong, "uri_too_long", "")
	})
}

func typesQuery(n int) string {
	types := make([]string, n)
	for i := range types {
		types[i] = "kind.a" + strings.Repeat("b", i%40) + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	return "type=" + strings.Join(types, ",")
}

func resourcesQuery(n int) string {
	var query []string
	for i := range n {
		query = append(query, "resource[]=cus_"+strconv.Itoa(i))
	}
	return strings.Join(query, "&")
}

func TestParseEventQueryResources(t *testing.T) {
	t.Parallel()
	both := []string{"cus_1", "PA-2"}
	tests := []struct {
		name, query string
		want        []string
	}{
		{"one", "resource=cus_1", both[:1]},
		{"brackets", "resource[]=cus_1&resource[]=PA-2", both},
		{"an_index", "resource%5B0%5D=cus_1&resource[1]=PA-2", both},
		{"repeated", "resource=cus_1&resource=PA-2&resource[3]=cus_1", both},
		{"a_comma", "resource=cus_1%2CPA-2", both},
		{"none_is_all", "type=a.b", nil},
	}
	for _, tt := range tests {
		t.Run("resource_"+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mustParseEventQuery(t, tt.query).Resources; !slices.Equal(got, tt.want) {
				t.Errorf("resources of %s = %q, want %q", tt.query, got, tt.want)
			}
		})
	}
	t.Run("resource_twenty", func(t *testing.T) {
		t.Parallel()
		if got := len(mustParseEventQuery(t, resourcesQuery(20)).Resources); got != 20 {
			t.Errorf("resources = %d, want 20", got)
		}
	})
}

// Promise (§2.2): every spelling of a list of types is one filter: a union without duplicates, at
// most 50; resource= filters by up to 20 resources
func TestParseEventQueryTakesFiftyTypes(t *testing.T) {
	t.Parallel()
	if got := len(mustParseEventQuery(t, typesQuery(50)).Types); got != 50 {
		t.Errorf("types = %d, want 50", got)
	}
}

// FuzzEventQuery: all parts of an accepted query are within their bounds, and its link has
// the same meaning.
func FuzzEventQuery(f *testing.F) {
	for _, seed := range []string{
		"", "type[]=customer.created&type%5B1%5D=a.b&limit=10&order=asc", "createdAt[between]=1..2&createdAt[gt]=1",
		"after=latest", "before=" + zeroPosition, "createdAt=1773070200000", "type=%zz", "type=a;type=b", "createdAt[", "&&=&", "type=a.b,c.d&after=foreign-1",
		"type=*", "type[]=customer.*&type=*.created", "resource=cus_1&resource[]=PA-2,x", "order=asc&wait=25",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		pairs, refused := web.ParseAPIQuery(raw)
		if refused != nil {
			checkRefusal(t, refused)
			return
		}
		q, refused := api.ParseEventQuery(pairs)
		if refused != nil {
			checkRefusal(t, refused)
			return
		}
		if q.Limit < 1 || q.Limit > api.EventsLimitMax || len(q.Types) > api.FilterTypesMax || q.From < 0 || q.To > eventlog.CreatedAtMax {
			t.Fatalf("parseEventQuery(%q) = %+v, out of bounds", raw, q)
		}
		if !q.After.IsZero() && !q.Before.IsZero() {
			t.Fatalf("parseEventQuery(%q) has two cursors", raw)
		}
		for _, typ := range q.Types {
			if !eventlog.IsEventType(typ) && !eventlog.IsTypePattern(typ) {
				t.Fatalf("parseEventQuery(%q) has the type %q", raw, typ)
			}
		}
		for _, resource := range q.Resources {
			if !eventlog.IsID(resource) || len(q.Resources) > api.FilterResourcesMax {
				t.Fatalf("parseEventQuery(%q) has the resources %q", raw, q.Resources)
			}
		}
		link := q.Link("/api/events", "", "")
		if strings.ContainsAny(link[1:len(link)-1], "<> \",[];\x00\n") {
			t.Fatalf("the link %q holds what would end it", link)
		}
		_, query, _ := strings.Cut(strings.Trim(link, "<>"), "?")
		again := mustParseEventQuery(t, query)
		if !slices.Equal(again.Types, q.Types) || !slices.Equal(again.Resources, q.Resources) || again.From != q.From || again.To != q.To || again.Limit != q.Limit || again.Ascending != q.Ascending {
			t.Errorf("the link of %q means %+v, want %+v", raw, again, q)
		}
		if _, err := url.ParseQuery(query); err != nil {
			t.Errorf("net/url refuses the link %q: %v", link, err)
		}
	})
}

func checkRefusal(t *testing.T, p *web.Problem) {
	t.Helper()
	if p.Status != http.StatusBadRequest || p.Code == "" || p.Description == "" || len(p.Description) > 400 {
		t.Errorf("refusal = %d %s %q", p.Status, p.Code, p.Description)
	}
}

// Promise (§2.3): every field of a filter changes the identity of a query, which its entity tag
// and its kept page share
func TestEntityTagsOfListsOutliveAnUpgrade(t *testing.T) {
	a := parallelAPI(t)
	q := api.EventQuery{Cursor: "after=latest before=", Filter: eventlog.Filter{
		Types: []string{"b.c", "a.b"}, Resources: []string{"r"}, From: 5, To: 1 << 40, Limit: 100, Ascending: true,
	}}
	if tag := a.server.Site.ListTag(eventlog.Version{}, q.Identity("acct_a", "application/json")); !strings.HasSuffix(tag, `.0.43854632"`) {
		t.Errorf("listTag() = %s, want one with 43854632, which callers hold", tag)
	}
}

// Nothing may be added to a filter that two questions could differ in and share a kept page
// or an entity tag: that would be a 304, or a page, of another question.
//
// Promise (§2.3): every field of a filter changes the identity of a query, which its entity tag
// and its kept page share
func TestEachFieldOfAFilterChangesTheIdentityOfAQuery(t *testing.T) {
	a := parallelAPI(t)
	token := a.token(t, "ann", "acct_a", store.ScopeUnstated)
	a.put("/api/resources/plan/p1", token, `{"price":"1"}`)
	first := a.get("/api/events", token).page(t).Data[0].ID
	queries := map[string]string{
		"type": "plan.created", "type[]": "plan.updated", "resource": "p1", "resource[]": "p2", "createdAt": "5", "createdAt[between]": "5..6",
		"createdAt[gt]": "5", "createdAt[gte]": "5", "createdAt[lt]": "5", "createdAt[lte]": "5", "limit": "7", "order": "asc", "after": first, "before": first,
	}
	ofServer := []string{"Fits", "Row"} // not part of a question
	usual := mustParseEventQuery(t, "")
	changed := map[string]bool{}
	const page = "/api/events"
	var tag string
	for range 3 { // it is kept from the second request on
		tag = a.get(page, token).Header().Get("ETag")
	}
	seen := map[string]string{tag: "nothing"}
	for _, param := range api.EventParams {
		if param == "wait" { // changes when a page is sent, not which
			continue
		}
		query := param + "=" + queries[param]
		q := mustParseEventQuery(t, query)
		for _, field := range reflect.VisibleFields(reflect.TypeFor[eventlog.Filter]()) {
			if slices.Contains(ofServer, field.Name) {
				continue
			}
			now, before := reflect.ValueOf(q.Filter).FieldByIndex(field.Index), reflect.ValueOf(usual.Filter).FieldByIndex(field.Index)
			if !reflect.DeepEqual(now.Interface(), before.Interface()) {
				changed[field.Name] = true
			}
		}
		w := a.get(page+"?"+query, token, "If-None-Match", tag)
		own := w.Header().Get("ETag")
		if w.Code != http.StatusOK || own == "" {
			t.Errorf("%s with the tag of another question = %d %s, want a page of its own", query, w.Code, own)
		}
		if other, ok := seen[own]; ok {
			t.Errorf("%s has the tag of %s", query, other)
		}
		seen[own] = query
		if got, want := shown(a.get(page+"?"+query, token)), shown(a.serverBeside(t).get(page+"?"+query, token)); got != want {
			t.Errorf("%s is answered with a kept page\n%s\nwant\n%s", query, got, want)
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[eventlog.Filter]()) {
		if !changed[field.Name] && !slices.Contains(ofServer, field.Name) {
			t.Errorf("no parameter changes the field %s of a filter: the identity of a query lacks it", field.Name)
		}
	}
	is := usual.Identity("acct_a", web.AsJSON)
	if usual.Identity("acct_b", web.AsJSON) == is || usual.Identity("acct_a", api.AsNDJSON) == is {
		t.Error("the identity of a query lacks its account or its representation")
	}
}

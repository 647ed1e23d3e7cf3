package handlers

import (
	"net/http"
	"slices"
	"testing"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
)

// One filter in many encodings: the output of each language's own function for a list of
// two types, a time and a limit. cli/proof runs Node's libraries themselves.
//
// Promise (§2.2): the spellings of PHP, Go, Node, Python and Ruby are one filter
func TestParseEventQueryAsProgramsSpellIt(t *testing.T) {
	t.Parallel()
	want := []string{"customer.created", "customer.updated"}
	for name, query := range map[string]string{
		"php_http_build_query":            "type%5B0%5D=customer.created&type%5B1%5D=customer.updated&createdAt%5Bgte%5D=1773066600&limit=7",
		"go_stripe_form":                  "type[0]=customer.created&type[1]=customer.updated&createdAt[gte]=1773066600&limit=7",
		"go_url_values":                   "createdAt%5Bgte%5D=1773066600&limit=7&type=customer.created&type=customer.updated",
		"node_qs":                         "type%5B0%5D=customer.created&type%5B1%5D=customer.updated&limit=7&createdAt%5Bgte%5D=1773066600",
		"node_axios":                      "type%5B%5D=customer.created&type%5B%5D=customer.updated&limit=7&createdAt%5Bgte%5D=1773066600",
		"node_axios_indexes_null":         "type=customer.created&type=customer.updated&limit=7&createdAt%5Bgte%5D=1773066600",
		"node_URLSearchParams":            "type=customer.created%2Ccustomer.updated&limit=7&createdAt%5Bgte%5D=1773066600",
		"node_query-string_bracket_comma": "createdAt[gte]=1773066600&limit=7&type[]=customer.created,customer.updated",
		"python_urlencode_doseq":          "type=customer.created&type=customer.updated&createdAt%5Bgte%5D=1773066600&limit=7",
		"python_requests_of_pairs":        "type%5B%5D=customer.created&type%5B%5D=customer.updated&createdAt%5Bgte%5D=1773066600&limit=7",
		"ruby_encode_www_form":            "type=customer.created&type=customer.updated&createdAt%5Bgte%5D=1773066600&limit=7",
		"ruby_to_query":                   "createdAt%5Bgte%5D=1773066600&limit=7&type%5B%5D=customer.created&type%5B%5D=customer.updated",
		"curl_by_hand":                    "type=customer.created,customer.updated&createdAt[gte]=1773066600&limit=7",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := mustParseEventQuery(t, query)
			if !slices.Equal(q.Types, want) || q.From != 1773066600 || q.To != eventlog.CreatedAtMax || q.Limit != 7 || len(q.Resources) > 0 {
				t.Errorf("%s means %+v", query, q)
			}
		})
	}
}

// A browser's EventSource cannot send a header; a token in the address would be in every
// log on the way.
//
// Promise (§4.1, §4.2): a position below retention is a gap frame until the reader has passed it; a
// stream takes no token in its address
func TestEventStreamTakesNoTokenInItsAddress(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	t.Run("a_stream_with_its_token_in_the_query", func(t *testing.T) {
		t.Parallel()
		a.get("/api/events?access_token="+token, "", "Accept", web.AsEventStream).fault(t, http.StatusUnauthorized, "unauthorized", "")
	})
	t.Run("a_stream_with_its_token_in_both_places", func(t *testing.T) {
		t.Parallel()
		a.get("/api/events?access_token="+token, token, "Accept", web.AsEventStream).fault(t, http.StatusBadRequest, "invalid_request", "")
	})
}

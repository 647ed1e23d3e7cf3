package store_test

import (
	"testing"

	"tollhouse/store"
)

// TestMatchRedirectURIByteForByte: a web address must match exactly; what a browser, a
// proxy or a person would consider the same does not match.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a missing, unregistered or repeated redirect URI gets a
// page that shows it as text and says what to register; URIs are compared byte for byte, of a
// loopback URI all but the port
func TestMatchRedirectURIByteForByte(t *testing.T) {
	t.Parallel()
	const registered = "https://app.example/cb"
	for name, asked := range map[string]string{
		"a_slash_more":               "https://app.example/cb/",
		"a_query_more":               "https://app.example/cb?x=1",
		"an_empty_query":             "https://app.example/cb?",
		"another_case_of_the_path":   "https://app.example/CB",
		"a_way_round":                "https://app.example/cb/../x",
		"an_encoded_letter":          "https://app.example/%63b",
		"the_port_that_is_meant":     "https://app.example:443/cb",
		"a_user":                     "https://me@app.example/cb",
		"a_fragment":                 "https://app.example/cb#f",
		"another_case_of_the_host":   "https://APP.example/cb",
		"another_case_of_the_scheme": "HTTPS://app.example/cb",
		"a_dot_behind_the_host":      "https://app.example./cb",
		"a_parameter_of_the_path":    "https://app.example/cb;x=1",
		"plain_http":                 "http://app.example/cb",
		"a_host_that_begins_so":      "https://app.example.evil.example/cb",
		"a_host_that_ends_so":        "https://evilapp.example/cb",
		"a_space_behind":             "https://app.example/cb ",
		"less_of_it":                 "https://app.example/c",
		"nothing":                    "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if store.MatchRedirectURI(registered, asked) {
				t.Errorf("MatchRedirectURI(%q, %q) = true, want false", registered, asked)
			}
		})
	}
}

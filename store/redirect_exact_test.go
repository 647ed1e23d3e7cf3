package store_test

import (
	"testing"

	"tollhouse/store"
)

// TestMatchRedirectURIByteForByte asks about a web address, of which nothing is
// free: what a browser, a proxy or a person would take for the same is not.
func TestMatchRedirectURIByteForByte(t *testing.T) {
	t.Parallel()
	const registered = "https://app.example/cb"
	for name, asked := range map[string]string{
		"oauth_row_62_a_slash_more":             "https://app.example/cb/",
		"oauth_row_62_a_query_more":             "https://app.example/cb?x=1",
		"oauth_row_62_an_empty_query":           "https://app.example/cb?",
		"oauth_row_62_another_case_of_the_path": "https://app.example/CB",
		"oauth_row_62_a_way_round":              "https://app.example/cb/../x",
		"oauth_row_62_an_encoded_letter":        "https://app.example/%63b",
		"oauth_row_62_the_port_that_is_meant":   "https://app.example:443/cb",
		"oauth_row_62_a_user":                   "https://me@app.example/cb",
		"oauth_row_62_a_fragment":               "https://app.example/cb#f",
		"attack_22_another_case_of_the_host":    "https://APP.example/cb",
		"attack_22_another_case_of_the_scheme":  "HTTPS://app.example/cb",
		"attack_23_a_dot_behind_the_host":       "https://app.example./cb",
		"attack_25_a_parameter_of_the_path":     "https://app.example/cb;x=1",
		"attack_27_plain_http":                  "http://app.example/cb",
		"attack_29_a_host_that_begins_so":       "https://app.example.evil.example/cb",
		"attack_29_a_host_that_ends_so":         "https://evilapp.example/cb",
		"attack_31_a_space_behind":              "https://app.example/cb ",
		"less_of_it":                            "https://app.example/c",
		"nothing":                               "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if store.MatchRedirectURI(registered, asked) {
				t.Errorf("MatchRedirectURI(%q, %q) = true, want false", registered, asked)
			}
		})
	}
}

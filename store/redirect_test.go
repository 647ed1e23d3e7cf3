package store_test

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
)

func TestCheckRedirectURI(t *testing.T) {
	t.Parallel()
	sound := []string{
		"https://app.example/cb", "https://app.example", "https://app.example:8443/cb?a=1&a=2", "https://xn--pp-7ka.example/cb",
		"http://127.0.0.1/cb", "http://127.0.0.1:8080/cb", "http://[::1]/cb", "http://localhost/cb",
		"com.example.app:/cb", "com.example.app://cb", // RFC 6749 §3.1.2
	}
	for _, uri := range sound {
		if err := store.CheckRedirectURI(uri); err != nil {
			t.Errorf("CheckRedirectURI(%q) = %v, want nil", uri, err)
		}
	}
	refused := map[string]string{
		"javascript":                 "javascript:alert(1)",
		"data":                       "data:text/html,x",
		"wildcard_host":              "https://*.app.example/cb",
		"wildcard_path":              "https://app.example/*",
		"fragment":                   "https://app.example/cb#frag",
		"empty_one":                  "https://app.example/cb#",
		"plain_http":                 "http://app.example/cb",
		"plain_http_by_number":       "http://192.0.2.1/cb",
		"relative":                   "/cb",
		"no_scheme":                  "app.example/cb",
		"no_scheme_with_host":        "//app.example/cb",
		"user":                       "https://app.example@evil.example/cb",
		"upper_host":                 "https://APP.example/cb",
		"upper_scheme":               "HTTPS://app.example/cb",
		"dot":                        "https://app.example./cb",
		"homograph":                  "https://\u0430pp.example/cb",
		"fullwidth_dot":              "https://app\u3002example/cb",
		"space":                      "https://app.example/cb ",
		"line_break":                 "https://app.example/cb\r\nSet-Cookie: x=1",
		"nul":                        "https://app.example/cb\x00",
		"backslash":                  `https:\\app.example\cb`,
		"too_long":                   "https://app.example/" + strings.Repeat("a", 2048),
		"loopback_that_is_a_name":    "http://127.0.0.1.evil.example/cb",
		"no_host":                    "https:///cb",
		"opaque":                     "https:app.example",
		"private_scheme_without_dot": "myapp:/cb",
		"file":                       "file:///etc/passwd",
		"empty":                      "",
		"broken_percent":             "https://app.example/%zz",
		"broken_percent_in_a_query":  "https://app.example/cb?a=%2",
		"percent_at_the_end":         "https://app.example/cb?a=%",
		"port_0":                     "https://app.example:0/cb",
		"port_0_on_loopback":         "http://127.0.0.1:0/cb",
		"port_00":                    "http://[::1]:00/cb",
		"port_above_65535":           "https://app.example:65536/cb",
		"code_in_the_query":          "https://app.example/cb?a=1&code=x",
		"state_in_the_query":         "https://app.example/cb?state",
		"error_in_the_query":         "https://app.example/cb?error=",
		"description_in_the_query":   "com.example.app:/cb?error_description=x",
		"iss_in_the_query":           "http://127.0.0.1/cb?iss=x",
		"encoded_name_in_the_query":  "https://app.example/cb?%63ode=x",
	}
	for name, uri := range refused {
		err := store.CheckRedirectURI(uri)
		var bad *record.InvalidError
		if !errors.As(err, &bad) || bad.Hint == "" {
			t.Errorf("%s: CheckRedirectURI(%q) = %v, want an InvalidError with the way out", name, uri, err)
		}
	}
}

// TestRedirectURIRefusedForItsOwnReason: the reason is the one that the operator can act on.
//
// Promise (RFC 6749 §3.1, RFC 8252 §7): a script, wildcard, fragment, relative or plain-http URI
// cannot be registered, nor one with port 0 or a query parameter that an answer uses
func TestRedirectURIRefusedForItsOwnReason(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"https://app.example/a b": "a space", "https://app.example/%zz": "a percent sign", "https://app.example:0/": "the port 0", "http://127.0.0.1:0/cb": "the port 0",
		"https://app.example/?code=1": "the query parameter code", "https://app.example/?x=1&%69ss": "the query parameter iss", "https://app.example/\u00e9": "a character that a URI cannot contain",
	} {
		if err := store.CheckRedirectURI(uri); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckRedirectURI(%q) = %v, want %q", uri, err, want)
		}
	}
	for _, uri := range []string{"https://app.example/cb?codes=1&State=x&my_error=2", "https://app.example:65535/%2F?a=%20"} {
		if err := store.CheckRedirectURI(uri); err != nil {
			t.Errorf("CheckRedirectURI(%q) = %v, want nil", uri, err)
		}
	}
}

func TestMatchRedirectURI(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, registered, asked string
		want                    bool
	}{
		{"the_same", "https://app.example/cb", "https://app.example/cb", true},
		{"a_port_of_127", "http://127.0.0.1/cb", "http://127.0.0.1:53219/cb", true},
		{"a_port_of_ipv6", "http://[::1]/cb", "http://[::1]:53219/cb", true},
		{"a_port_of_localhost", "http://localhost/cb", "http://localhost:53219/cb", true},
		{"another_port", "http://127.0.0.1:8080/cb", "http://127.0.0.1:53219/cb", true},
		{"no_port", "http://127.0.0.1:8080/cb", "http://127.0.0.1/cb", true},
		{"without_a_path", "http://127.0.0.1", "http://127.0.0.1:1", true},
		{"with_a_query", "http://127.0.0.1/cb?a=1", "http://127.0.0.1:1/cb?a=1", true},
		{"private", "com.example.app:/cb", "com.example.app:/cb", true},
		{"another_loopback_host", "http://127.0.0.1/cb", "http://localhost/cb", false},
		{"ipv6_for_ipv4", "http://127.0.0.1/cb", "http://[::1]/cb", false},
		{"https", "http://127.0.0.1/cb", "https://127.0.0.1:53219/cb", false},
		{"another_path", "http://127.0.0.1/cb", "http://127.0.0.1:53219/cb2", false},
		{"another_query", "http://127.0.0.1/cb", "http://127.0.0.1:53219/cb?x", false},
		{"port_of_a_name", "https://app.example/cb", "https://app.example:443/cb", false},
		{"decimal", "http://127.0.0.1/cb", "http://2130706433/cb", false},
		{"octal", "http://127.0.0.1/cb", "http://0177.0.0.1/cb", false},
		{"user_before_the_host", "http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb", false},
		{"port_then_user", "http://127.0.0.1/cb", "http://127.0.0.1:80@evil.example/cb", false},
		{"name_behind_the_host", "http://127.0.0.1/cb", "http://127.0.0.1.evil.example/cb", false},
		{"port_zero", "http://127.0.0.1/cb", "http://127.0.0.1:0/cb", false},
		{"port_with_zero_in_front", "http://127.0.0.1/cb", "http://127.0.0.1:080/cb", false},
		{"port_too_high", "http://127.0.0.1/cb", "http://127.0.0.1:65536/cb", false},
		{"port_empty", "http://127.0.0.1/cb", "http://127.0.0.1:/cb", false},
		{"port_signed", "http://127.0.0.1/cb", "http://127.0.0.1:+80/cb", false},
		{"fragment", "http://127.0.0.1/cb", "http://127.0.0.1:80/cb#x", false},
		{"upper_case_scheme", "http://127.0.0.1/cb", "HTTP://127.0.0.1:80/cb", false},
	}
	for _, c := range cases {
		if got := store.MatchRedirectURI(c.registered, c.asked); got != c.want {
			t.Errorf("%s: MatchRedirectURI(%q, %q) = %t, want %t", c.name, c.registered, c.asked, got, c.want)
		}
	}
}

// loopbackForm is RFC 8252 §7.3 written independently of the code: the origin, the port
// that may differ, and the rest that may not.
var loopbackForm = regexp.MustCompile(`(?s)^(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)$`)

// FuzzMatchRedirectURI: two URIs match if and only if they are equal, or both are http
// on the same loopback host and differ only in the port.
func FuzzMatchRedirectURI(f *testing.F) {
	f.Add("https://app.example/cb", "https://app.example/cb")
	f.Add("http://127.0.0.1/cb", "http://127.0.0.1:53219/cb")
	f.Add("http://[::1]:1/cb", "http://[::1]:65535/cb")
	f.Add("http://localhost/cb?a=1", "http://localhost:80@evil.example/cb?a=1")
	f.Add("http://127.0.0.1/cb", "http://127.0.0.1:65536/cb")
	f.Fuzz(func(t *testing.T, registered, asked string) {
		want := registered == asked
		a, b := loopbackForm.FindStringSubmatch(registered), loopbackForm.FindStringSubmatch(asked)
		if a != nil && b != nil && portExists(a[2]) && portExists(b[2]) && len(asked) <= 2048 {
			want = want || a[1] == b[1] && a[3] == b[3]
		}
		if got := store.MatchRedirectURI(registered, asked); got != want {
			t.Errorf("MatchRedirectURI(%q, %q) = %t, want %t", registered, asked, got, want)
		}
		if back := store.MatchRedirectURI(asked, registered); back != want && len(registered) <= 2048 && len(asked) <= 2048 {
			t.Errorf("MatchRedirectURI(%q, %q) = %t reversed, want %t", asked, registered, back, want)
		}
	})
}

func portExists(digits string) bool {
	n, err := strconv.Atoi(digits)
	return digits == "" || err == nil && n <= 65535
}

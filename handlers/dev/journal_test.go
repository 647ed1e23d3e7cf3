package dev_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tollhouse/handlers/dev"
	"tollhouse/store/secret"
)

func count(j *dev.Journal) (kept int, dropped int64) {
	_, kept, dropped = j.Find(dev.Filter{}, 0)
	return kept, dropped
}

func TestJournalKeepsTheLastEntries(t *testing.T) {
	t.Parallel()
	j := dev.NewJournal()
	for range dev.EntriesMax {
		j.Put(dev.Exchange{Method: "GET", Path: "/"})
	}
	if kept, dropped := count(j); kept != dev.EntriesMax || dropped != 0 {
		t.Fatalf("%d entries and %d dropped, want %d and 0", kept, dropped, dev.EntriesMax)
	}
	for range 3 {
		j.Put(dev.Exchange{Method: "GET", Path: "/"})
	}
	kept, dropped := count(j)
	found, _, _ := j.Find(dev.Filter{}, 1)
	if kept != dev.EntriesMax || dropped != 3 || !strings.HasPrefix(string(found[0]), `{"n":4,`) {
		t.Errorf("%d entries and %d dropped, the first %.20s, want %d, 3 and n 4", kept, dropped, found[0], dev.EntriesMax)
	}
	j.Clear()
	if kept, dropped := count(j); kept != 0 || dropped != 0 {
		t.Errorf("%d entries and %d dropped after Clear", kept, dropped)
	}
}

func TestJournalKeepsToItsMemory(t *testing.T) {
	t.Parallel()
	j := dev.NewJournal()
	header := map[string][]string{"X-Large": {strings.Repeat("\x01", 30<<10)}} // six bytes each as JSON
	for range 300 {
		j.Put(dev.Exchange{Method: "GET", Path: "/", Header: header})
	}
	found, kept, dropped := j.Find(dev.Filter{}, dev.EntriesMax)
	size := 0
	for _, text := range found {
		size += len(text)
	}
	if size > dev.JournalSizeMax || kept+int(dropped) != 300 || dropped == 0 {
		t.Errorf("%d entries of %d bytes and %d dropped, want at most %d bytes", kept, size, dropped, dev.JournalSizeMax)
	}
	if one := size / kept; size+one+1024 < dev.JournalSizeMax {
		t.Errorf("%d entries of %d bytes, want as many as fit into %d", kept, size, dev.JournalSizeMax)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	// SHA-256 of "abc" begins with ba7816bf (FIPS 180-2, appendix B.1).
	if got := dev.Mask("abc"); got != "[masked:ba7816bf]" {
		t.Errorf("Mask(abc) = %s", got)
	}
}

// TestJournalMasksSecretsInEveryPlace: a journal shows a secret wherever a request has it,
// and a masked one never does.
//
// Promise (Testers, bad input): dev's journal shows secrets as they came; with `--mask-journal`,
// nowhere
func TestJournalMasksSecretsInEveryPlace(t *testing.T) {
	t.Parallel()
	token := secret.New(nil, secret.AccessToken).Reveal()
	const form, isJSON = "application/x-www-form-urlencoded", "application/json"
	body := func(mediaType, text string) dev.Exchange {
		return dev.Exchange{Header: map[string][]string{"Content-Type": {mediaType}}, Body: []byte(text)}
	}
	multipart := body(`multipart/form-data; boundary=b`, "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nSECRET\r\n--b--\r\n")
	cutMultipart := multipart
	cutMultipart.BodyCut = true
	tests := []struct {
		name string
		in   dev.Exchange
	}{
		{"the_query", dev.Exchange{RawQuery: "access_token=SECRET"}},
		{"the_query_with_an_escaped_name", dev.Exchange{RawQuery: "client%5fsecret=SECRET"}},
		{"an_address_in_the_query", dev.Exchange{RawQuery: "redirect_uri=https%3A%2F%2Fapp.example%2Fcb%3Fcode%3DSECRET"}},
		{"the_authorization_header", dev.Exchange{Header: map[string][]string{"Authorization": {"Bearer SECRET"}}}},
		{"a_cookie", dev.Exchange{Header: map[string][]string{"Cookie": {"session=SECRET; a=b"}}}},
		{"a_header_of_a_secret_name", dev.Exchange{Header: map[string][]string{"X-Auth-Token": {"SECRET"}}}},
		{"the_referring_address", dev.Exchange{Header: map[string][]string{"Referer": {"https://a.example/cb?code=SECRET&state=s"}}}},
		{"a_form", body(form, "grant_type=password&password=SECRET")},
		{"a_form_with_short_names", body(form, "pass=SECRET&pwd=SECRET&pw=SECRET&pin=SECRET")},
		{"a_recovery_code", body(form, "recovery_code=SECRET")},
		{"a_sealed_form", body(form, "setup=SECRET")},
		{"a_form_cut_off", dev.Exchange{Header: map[string][]string{"Content-Type": {form}}, Body: []byte("a=b&refresh_token=SECRET"), BodyCut: true}},
		{"a_repeated_member_of_a_form", body(form, "code=SECRET&code=SECRET&code=SECRET")},
		{"JSON", body(isJSON, `{"client_secret":"SECRET","a":[{"codeVerifier":"SECRET"}]}`)},
		{"JSON_below_a_secret_name", body(isJSON, `{"password":{"value":["SECRET"]}}`)},
		{"JSON_cut_off", body(isJSON, `{"a":1,"password":"SECRET`)},
		{"JSON_that_does_not_parse", body(isJSON, `{"a":1,, "ticket" : "SECRET"}`)},
		{"multipart", multipart},
		{"multipart_cut_off", cutMultipart},
		{"a_text", body("text/plain", "token=SECRET\nand password: SECRET")},
		{"a_header_in_a_text", body("text/plain", "Authorization: Bearer SECRET")},
	}
	for _, tt := range tests {
		for kind, text := range map[string]string{"any": "kanarienvogel-17", "ours": token} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				x := tt.in
				x.RawQuery = strings.ReplaceAll(x.RawQuery, "SECRET", text)
				x.Body = []byte(strings.ReplaceAll(string(x.Body), "SECRET", text))
				x.Header = map[string][]string{}
				for name, values := range tt.in.Header {
					x.Header[name] = []string{strings.ReplaceAll(values[0], "SECRET", text)}
				}
				if got := put(t, dev.NewJournal(), x); !strings.Contains(got, text) || strings.Contains(got, "[masked:") {
					t.Errorf("the entry does not show the secret as it came: %s", got)
				}
				got := put(t, dev.NewMaskedJournal(), x)
				if strings.Contains(got, text) || strings.Contains(got, text[:len(text)*2/3]) {
					t.Errorf("the entry holds the secret: %s", got)
				}
				if !strings.Contains(got, "[masked:") {
					t.Errorf("the entry has no mask: %s", got)
				}
			})
		}
	}
}

// A secret that a request names is masked where it is misplaced too.
func TestJournalMasksMisplacedSecrets(t *testing.T) {
	t.Parallel()
	const password = "kanarienvogel-17"
	got := put(t, dev.NewMaskedJournal(), dev.Exchange{
		Path: "/" + password, ClientID: password, Username: password, RawQuery: "scope=a+" + password,
		Header: map[string][]string{"User-Agent": {"suite " + password}, "Content-Type": {"application/x-www-form-urlencoded"}},
		Body:   []byte("username=" + password + "&password=" + password + "&client_id=" + password),
	})
	if strings.Contains(got, password) {
		t.Errorf("the entry holds the password: %s", got)
	}
	token := secret.New(nil, secret.Code).Reveal()
	got = put(t, dev.NewMaskedJournal(), dev.Exchange{Path: "/" + token, Username: token, ClientID: token, GrantType: token, RawQuery: token + "&a=" + token, Method: token, Error: token,
		Header: map[string][]string{"User-Agent": {token}}, Body: []byte(token)})
	if strings.Contains(got, token[:20]) {
		t.Errorf("the entry holds the token: %s", got)
	}
}

func TestJournalLeavesOrdinaryTextsAlone(t *testing.T) {
	t.Parallel()
	got := put(t, dev.NewMaskedJournal(), dev.Exchange{
		Path: "/oauth/v2/token", RawQuery: "response_type=code&state=s1&scope=events:read&token_type_hint=refresh_token", GrantType: "password", Username: "password",
		Header: map[string][]string{"User-Agent": {"a/1 (b; c=d)"}, "Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte("grant_type=password&password=password"),
	})
	for _, want := range []string{`"/oauth/v2/token"`, `"response_type":["code"]`, `"state":["s1"]`, `"scope":["events:read"]`, `"token_type_hint":["refresh_token"]`, `"a/1 (b; c=d)"`, `"grant_type":"password"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the entry lacks %s: %s", want, got)
		}
	}
}

// put returns the entry of an exchange, which must be JSON.
func put(t *testing.T, j *dev.Journal, x dev.Exchange) string {
	t.Helper()
	j.Put(x)
	found, _, _ := j.Find(dev.Filter{}, 1)
	if len(found) != 1 || !json.Valid(found[0]) {
		t.Fatalf("the entry is not JSON: %s", found)
	}
	return string(found[0])
}

func FuzzJournal(f *testing.F) {
	f.Add("a=b&password=x", "application/json", `{"password":"x"}`, "Basic YTpi")
	f.Add("name=\"password\"", "multipart/form-data; boundary=b", "--b\r\n\r\n", "=:=\"'")
	f.Fuzz(func(t *testing.T, query, mediaType, body, header string) {
		token := secret.New(nil, secret.RefreshToken).Reveal()
		got := put(t, dev.NewMaskedJournal(), dev.Exchange{Path: query + token, RawQuery: query + token, Body: []byte(body + token),
			Header: map[string][]string{"Content-Type": {mediaType}, "Authorization": {header}, "X-A": {header + token + header}}})
		if strings.Contains(got, token) {
			t.Errorf("the entry holds the token: %s", got)
		}
	})
}

func TestPattern(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"", "/a", true}, {"/a", "/a", true}, {"/a", "/a/", false}, {"/a", "/b", false},
		{"/*", "/a", true}, {"/*", "/a/b", false}, {"/*/b", "/a/b", true}, {"/a/*", "/a/", true}, {"/a/*", "/a", false},
		{"/a*c", "/abc", true}, {"/a*c", "/ac", true}, {"/a*c", "/acd", false}, {"/a*", "/abc/d", false}, {"/*a*b*", "/xaxbx", true}, {"/*ab", "/aab", true}, {"/a*a", "/a", false},
		{"/**", "/a", true}, {"/**", "/", true}, {"/a/**", "/a/b/c", true}, {"/a/**", "/a/", true}, {"/a/**", "/a", false}, {"/a/**", "/ab/c", false}, {"/*/x/**", "/a/x/c", true},
	}
	for _, tt := range tests {
		if got := dev.Pattern(tt.pattern).Matches(tt.path); got != tt.want {
			t.Errorf("Pattern(%s).Matches(%s) = %v, want %v", tt.pattern, tt.path, got, tt.want)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	j := dev.NewJournal()
	x := dev.Exchange{RequestID: "req_abcdefghijklmnopqrstuvwxyz", Method: "GET", Path: "/api/events", RawQuery: "limit=10", Host: "127.0.0.1:8655", Status: 200,
		Header:   map[string][]string{"Authorization": {"Bearer " + secret.New(nil, secret.AccessToken).Reveal()}, "User-Agent": {"Go-http-client/1.1"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip"}},
		ClientID: "demo", Username: "mara", Account: "acct_demo"}
	b.ReportAllocs()
	for b.Loop() {
		j.Put(x)
	}
}

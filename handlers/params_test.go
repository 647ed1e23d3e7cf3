package handlers

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParsePairs compares with net/url. What net/url reads without an error we read the
// same way or refuse; what it drops or refuses we refuse, except for the semicolon, an
// ordinary character to us. What we read can be written and read again.
func FuzzParsePairs(f *testing.F) {
	for _, seed := range []string{"", "a=1&b=2", "a=1&a=2", "a", "=", "&&", "a=%zz", "a=%", "a=1;b=2", "a=%00", "a=%ff", "a=+%2B", "%61=b", "a==b", "é=ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, refused := parseOAuthParams(text)
		theirs, err := url.ParseQuery(strings.ReplaceAll(text, ";", "%3B"))
		if refused != nil {
			if err == nil && fits(theirs) {
				t.Fatalf("parseOAuthParams(%q) = %v, want what net/url reads: %v", text, refused, theirs)
			}
			return
		}
		if err != nil {
			t.Fatalf("parseOAuthParams(%q) reads what net/url refuses: %v", text, err)
		}
		if len(p.values) != len(theirs) {
			t.Fatalf("parseOAuthParams(%q) = %v, want %v", text, p.values, theirs)
		}
		again := url.Values{}
		for name, values := range theirs {
			if p.values[name] != values[0] || p.repeated[name] != (len(values) > 1) {
				t.Fatalf("parseOAuthParams(%q)[%q] = %q, repeated %t, want %q", text, name, p.values[name], p.repeated[name], values)
			}
			again.Set(name, values[0])
		}
		back, refused := parseOAuthParams(again.Encode())
		if refused != nil || !sameValues(back, p) {
			t.Fatalf("parseOAuthParams(%q) = %v, %v, want %v again", again.Encode(), back.values, refused, p.values)
		}
	})
}

// fits reports whether the values are within our bounds.
func fits(values url.Values) bool {
	count := 0
	for name, all := range values {
		if count += len(all); count > paramCountMax {
			return false
		}
		for _, value := range all {
			if !isText(name) || !isText(value) {
				return false
			}
		}
	}
	return true
}

func sameValues(a, b params) bool {
	if len(a.values) != len(b.values) {
		return false
	}
	for name, value := range a.values {
		if other, ok := b.values[name]; !ok || other != value {
			return false
		}
	}
	return true
}

// FuzzParseBasic: credentials are read exactly as in the header, and every pair of texts
// survives encoding.
func FuzzParseBasic(f *testing.F) {
	for _, seed := range []string{"", "Basic ", "Basic YTpi", "basic  YTpi", "Basic YQ==", "Basic !!!", "Bearer YTpi", "Basic JXp6Ong=", "Basic YTpiOmM="} {
		f.Add(seed, "id", "secret")
	}
	f.Add("", "a:b", "c d+e%f")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, header, id, secret string) {
		if c, ok := parseBasic(header); ok {
			encoded := strings.TrimLeft(header[len("Basic "):], " ")
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatalf("parseBasic(%q) reads what is no base64: %v", header, err)
			}
			parts := strings.SplitN(string(raw), ":", 2)
			wantID, idErr := url.QueryUnescape(parts[0])
			wantSecret, secretErr := url.QueryUnescape(parts[1])
			if idErr != nil || secretErr != nil || c.id != wantID || c.secret != wantSecret || !c.basic {
				t.Fatalf("parseBasic(%q) = %q, %q, want %q, %q", header, c.id, c.secret, wantID, wantSecret)
			}
			if !isText(c.id) || !isText(c.secret) {
				t.Fatalf("parseBasic(%q) let through what is not text", header)
			}
		}
		sound := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
		c, ok := parseBasic(sound)
		if want := isText(id) && isText(secret); ok != want || ok && (c.id != id || c.secret != secret) {
			t.Fatalf("parseBasic(of %q, %q) = %q, %q, %t, want them back: %t", id, secret, c.id, c.secret, ok, want)
		}
	})
}

// FuzzParseJSONParams compares with encoding/json: we read an object of strings and nothing
// else, and do not keep the last of two equal names.
func FuzzParseJSONParams(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"b"}`, `{"a":"b","a":"c"}`, `{"a":1}`, `{"a":null}`, `{"a":{"b":"c"}}`, `[]`, `{"a":"b"}{}`, `{"a":"b",}`,
		`{"a" "b"}`, `{"a":"b"`, ``, ` {"a" : "b"} `, `{"\u0061":"b"}`, `{"a":"\u0000"}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `null`, `"a"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p, refused := parseJSONParams([]byte(body))
		var theirs map[string]*string
		err := json.Unmarshal([]byte(body), &theirs)
		if refused == nil {
			if err != nil || theirs == nil || len(theirs) != len(p.values) {
				t.Fatalf("parseJSONParams(%q) = %v, want what encoding/json reads: %v, %v", body, p.values, theirs, err)
			}
			for name, value := range theirs {
				if value == nil || !p.repeated[name] && p.values[name] != *value {
					t.Fatalf("parseJSONParams(%q)[%q] = %q, want %v", body, name, p.values[name], value)
				}
			}
			return
		}
		// A null, a NUL and one member too many may be hidden by a later member of the same name;
		// anything else that we refuse, encoding/json refuses too.
		mayHide := strings.Contains(body, "null") || strings.Contains(body, `\u`) || strings.Count(body, ":") > paramCountMax
		if err == nil && theirs != nil && utf8.ValidString(body) && !mayHide {
			t.Fatalf("parseJSONParams(%q) = %v, want what encoding/json reads: %v", body, refused, theirs)
		}
	})
}

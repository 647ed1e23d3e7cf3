package handlers

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
)

// FuzzParsePairs compares with net/url. What net/url reads without an error we read the
// same way or refuse; what it drops or refuses we refuse, except for the semicolon, an
// ordinary character to us. What we read can be written and read again.
func FuzzParsePairs(f *testing.F) {
	for _, seed := range []string{"", "a=1&b=2", "a=1&a=2", "a", "=", "&&", "a=%zz", "a=%", "a=1;b=2", "a=%00", "a=%ff", "a=+%2B", "%61=b", "a==b", "é=ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, refused := web.ParseOAuthParams(text)
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
		if len(p.Values) != len(theirs) {
			t.Fatalf("parseOAuthParams(%q) = %v, want %v", text, p.Values, theirs)
		}
		again := url.Values{}
		for name, values := range theirs {
			if p.Values[name] != values[0] || p.Repeated[name] != (len(values) > 1) {
				t.Fatalf("parseOAuthParams(%q)[%q] = %q, repeated %t, want %q", text, name, p.Values[name], p.Repeated[name], values)
			}
			again.Set(name, values[0])
		}
		back, refused := web.ParseOAuthParams(again.Encode())
		if refused != nil || !sameValues(back, p) {
			t.Fatalf("parseOAuthParams(%q) = %v, %v, want %v again", again.Encode(), back.Values, refused, p.Values)
		}
	})
}

// fits reports whether the values are within our bounds.
func fits(values url.Values) bool {
	count := 0
	for name, all := range values {
		if count += len(all); count > web.ParamCountMax {
			return false
		}
		for _, value := range all {
			if !web.IsText(name) || !web.IsText(value) {
				return false
			}
		}
	}
	return true
}

func sameValues(a, b web.Params) bool {
	if len(a.Values) != len(b.Values) {
		return false
	}
	for name, value := range a.Values {
		if other, ok := b.Values[name]; !ok || other != value {
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
		if c, ok := oauth.ParseBasic(header); ok {
			encoded := strings.TrimLeft(header[len("Basic "):], " ")
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatalf("ParseBasic(%q) reads what is no base64: %v", header, err)
			}
			parts := strings.SplitN(string(raw), ":", 2)
			wantID, idErr := url.QueryUnescape(parts[0])
			wantSecret, secretErr := url.QueryUnescape(parts[1])
			if idErr != nil || secretErr != nil || c.ID != wantID || c.Secret != wantSecret {
				t.Fatalf("ParseBasic(%q) = %q, %q, want %q, %q", header, c.ID, c.Secret, wantID, wantSecret)
			}
			if !web.IsText(c.ID) || !web.IsText(c.Secret) {
				t.Fatalf("ParseBasic(%q) let through what is not text", header)
			}
		}
		sound := "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
		c, ok := oauth.ParseBasic(sound)
		if want := web.IsText(id) && web.IsText(secret); ok != want || ok && (c.ID != id || c.Secret != secret) {
			t.Fatalf("ParseBasic(of %q, %q) = %q, %q, %t, want them back: %t", id, secret, c.ID, c.Secret, ok, want)
		}
	})
}

var longNumber = regexp.MustCompile(`[eE][+-]?\d{4,}|[\d.]{100,}`)

// FuzzParseJSONParams compares with encoding/json: we read an object, keep its strings, know
// its other members by name, and do not keep the last of two equal names.
func FuzzParseJSONParams(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"b"}`, `{"a":"b","a":"c"}`, `{"a":1}`, `{"a":null}`, `{"a":{"b":"c"}}`, `[]`, `{"a":"b"}{}`, `{"a":"b",}`,
		`{"a" "b"}`, `{"a":"b"`, "\ufeff{}", "\ufeff\ufeff{}", `{"a":[{"b":1},null],"c":"d"}`, `{"a":1,"a":"b"}`, ``, ` {"a" : "b"} `, `{"\u0061":"b"}`, `{"a":"\u0000"}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `null`, `"a"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p, refused := web.ParseJSONParams([]byte(body))
		var theirs map[string]any
		err := json.Unmarshal([]byte(strings.TrimPrefix(body, "\ufeff")), &theirs)
		if refused == nil {
			if err != nil || theirs == nil || len(theirs) != len(p.Values) {
				t.Fatalf("parseJSONParams(%q) = %v, want what encoding/json reads: %v, %v", body, p.Values, theirs, err)
			}
			for name, value := range theirs {
				text, isString := value.(string)
				if !p.Repeated[name] && (p.Values[name] != text || p.NoString[name] != (!isString && value != nil)) {
					t.Fatalf("parseJSONParams(%q)[%q] = %q, no string: %t, want %v", body, name, p.Values[name], p.NoString[name], value)
				}
			}
			return
		}
		// A NUL and one member too many may be hidden by a later member of the same name;
		// anything else that we refuse, encoding/json refuses too.
		// So may a number or a nesting beyond our bounds.
		mayHide := strings.Contains(body, `\u`) || strings.Count(body, ":") > web.ParamCountMax || longNumber.MatchString(body) ||
			strings.Count(body, "[")+strings.Count(body, "{") > web.ParamDepthMax
		if err == nil && theirs != nil && utf8.ValidString(body) && !mayHide {
			t.Fatalf("parseJSONParams(%q) = %v, want what encoding/json reads: %v", body, refused, theirs)
		}
	})
}
